"""Runs of a grid as jobs of SLURM, submitted and watched by submitit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logit_correction.bench.executors import ENVIRONMENT, Executor
from logit_correction.bench.work import Job, Outcome, perform
from logit_correction.errors import InputError, reason_of
from logit_correction.registry import needed

#: Jobs in SLURM's hands at a time, where nobody says.
JOBS = 32

#: Minutes after which a job is ended and goes on as a new one, where SBATCH_TIMELIMIT says nothing else.
MINUTES = 240


class Attempt:
    """Trains a run, or goes on with it: a job that SLURM ends for its time or for another job is put in line again."""

    def __call__(self, job: Job) -> Outcome:
        """Train the run."""
        return perform(job)

    def checkpoint(self, job: Job) -> Any:
        """Return what submitit is to start again; the run has saved where it is by itself."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, job)


class SlurmExecutor(Executor):
    """Trains every run as a job of SLURM.

    All machines must see the folder of the runs and the data under the same paths. Partition, account, memory and time
    are those of SLURM's own variables: ``SBATCH_PARTITION``, ``SBATCH_ACCOUNT``, ``SBATCH_MEM_PER_CPU``,
    ``SBATCH_TIMELIMIT``.

    Args:
        jobs: Jobs in line or running at a time.
        folder: For what SLURM and submitit write.
        gpus_per_run: GPUs that a job takes, a whole number.
        cluster: ``slurm``; submitit's ``local`` starts processes here, to try it.

    Raises:
        InputError: submitit is not installed, SLURM is not here, or a GPU is to be shared.
    """

    def __init__(self, jobs: int | None, folder: Path, gpus_per_run: float = 0.0, cluster: str = "slurm") -> None:
        super().__init__()
        if not float(gpus_per_run).is_integer():
            raise InputError(f"--gpus-per-run is {gpus_per_run}, but SLURM hands out whole GPUs: give 0, 1, ...")
        submitit = needed("submitit", "--executor slurm", "slurm", ", or leave --executor out")
        self._broken = submitit.core.utils.UncompletedJobError
        try:
            self._submitit = submitit.AutoExecutor(folder, cluster=cluster, slurm_max_num_timeout=100)
            self._submitit.update_parameters(
                name="logit-correction",
                timeout_min=MINUTES,
                tasks_per_node=1,
                cpus_per_task=1,
                gpus_per_node=int(gpus_per_run),
                slurm_setup=[f"export {name}={value}" for name, value in ENVIRONMENT.items()],
            )
        except (RuntimeError, OSError) as error:
            raise InputError(
                f"--executor slurm: {reason_of(error)}: start the grid on a machine from which jobs are submitted"
            ) from error
        self.slots = jobs or JOBS

    def _begin(self, job: Job) -> Any:
        try:
            return self._submitit.submit(Attempt(), job)
        except self._broken as error:
            raise InputError(f"SLURM takes no job: {reason_of(error)}: fix SBATCH_...") from error

    def _finish(self, handle: Any) -> Outcome:
        outcome: Outcome = handle.result()
        return outcome

    def _ask_to_stop(self, handle: Any) -> None:
        handle.cancel(check=False)

    def close(self) -> None:
        """Leave nothing behind: jobs end with the grid, or were cancelled."""
