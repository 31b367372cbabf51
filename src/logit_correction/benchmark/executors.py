"""Where the runs of a grid are trained: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from logit_correction.benchmark.work import Job, Outcome, perform
from logit_correction.benchmark.worker import Worker
from logit_correction.errors import InputError

#: A process whose run took longer is not used again: starting another one costs little beside it.
_LONG_SECONDS = 60.0

#: Seconds that a run has to save where it is when it is asked to stop.
_GRACE_SECONDS = 30.0

#: What a process that trains runs executes; ``-m`` would import the module twice.
_CHILD = "from logit_correction.benchmark.work import main; main()"


class Executor(Protocol):
    """Trains runs; asked from ``slots`` threads at a time."""

    slots: int

    def warm(self, number: int) -> None:
        """Get ready for so many runs at a time."""

    def run(self, job: Job) -> Outcome:
        """Train a run to its end."""

    def stop(self) -> None:
        """Ask all runs to save and stop, and let none begin."""

    def close(self) -> None:
        """Give everything back."""


def _environment() -> dict[str, str]:
    """One thread a run, so that as many runs as there are processors fit."""
    return {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ProcessExecutor:
    """Trains every run in a process apart; short runs take turns in one.

    Args:
        jobs: Runs at a time.
    """

    def __init__(self, jobs: int) -> None:
        """Start with no process."""
        self.slots = jobs
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()

    def warm(self, number: int) -> None:
        """Start the processes, which take a while to get ready."""
        for _ in range(min(number, self.slots)):
            self._idle.append(self._start())

    def _start(self) -> Worker:
        return Worker([sys.executable, "-c", _CHILD], {**os.environ, **_environment()})

    def run(self, job: Job) -> Outcome:
        """Train a run to its end."""
        with self._lock:
            if self._stopped.is_set():
                return Outcome("stopped")
            worker = self._idle.pop() if self._idle else self._start()
            self._busy.add(worker)
        started = time.monotonic()
        answer = worker.ask(asdict(job))
        long = time.monotonic() - started > _LONG_SECONDS
        with self._lock:
            self._busy.discard(worker)
            stopped = self._stopped.is_set()
            keep = answer is not None and not long and not stopped
            if keep:
                self._idle.append(worker)
        status = 0 if keep else worker.end()
        if answer is not None:
            return Outcome(**answer)
        if stopped:
            return Outcome("stopped")
        return _died(job, status)

    def stop(self) -> None:
        """Ask all runs to save and stop; those that do not in good time are killed."""
        with self._lock:
            self._stopped.set()
            workers = [*self._busy]
        for worker in workers:
            worker.stop()
        killer = threading.Timer(_GRACE_SECONDS, _kill, [workers])
        killer.daemon = True
        killer.start()

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._stopped.set()
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()
            worker.end()


def _kill(workers: list[Worker]) -> None:
    for worker in workers:
        worker.kill()


def _died(job: Job, status: int) -> Outcome:
    """Say in the log how the process ended, since it could not."""
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    message = f"the process ended with {how} before the run did"
    if status == -9:
        message += "; the system may have been short of memory"
    with Path(job.log).open("a", encoding="utf-8") as file:
        print(f"error: {message}", file=file)
    return Outcome("failed", message)


class RayExecutor:
    """Trains every run as a task of Ray, on the cluster at ``RAY_ADDRESS`` or else on this machine.

    All machines must see the folder of the runs and the data under the same paths.

    Args:
        jobs: Runs at a time; by default as many as the cluster has room for.
        gpus_per_run: GPUs (or a fraction of one) that a run takes.

    Raises:
        InputError: Ray is not installed, cannot be reached, or has no room for a single run.
    """

    def __init__(self, jobs: int | None, gpus_per_run: float = 0.0) -> None:
        """Connect to the cluster."""
        try:
            ray: Any = importlib.import_module("ray")
        except ModuleNotFoundError as error:
            raise InputError(
                "--executor ray needs Ray: `pip install 'logit-correction[ray]'`, or leave --executor out"
            ) from error
        self._ray, address = ray, os.environ.get("RAY_ADDRESS") or "local"
        here = {"num_cpus": jobs} if address == "local" and jobs else {}
        passed_on = {name: os.environ[name] for name in ("PYTHONPATH", "LOGIT_CORRECTION_DATA") if name in os.environ}
        runtime = {"env_vars": {**passed_on, **_environment()}}
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False, runtime_env=runtime, **here)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            problem = " ".join(str(error).split())
            raise InputError(f"Ray cannot be reached at {address} ({problem}): set or unset RAY_ADDRESS") from error
        room = ray.cluster_resources()
        fits = int(room.get("CPU", 0))
        if gpus_per_run:
            fits = min(fits, int(room.get("GPU", 0) / gpus_per_run))
        if not fits:
            ray.shutdown()
            needs = f"1 CPU and {gpus_per_run:g} GPUs" if gpus_per_run else "1 CPU"
            raise InputError(f"Ray at {address} has no room for a run, which takes {needs}: ask for less")
        self.slots = min(jobs, fits) if jobs else fits
        # A process for each task: nothing is left over from the one before, on a GPU least of all.
        self._task = ray.remote(num_cpus=1, num_gpus=gpus_per_run, max_calls=1)(_perform_there)
        self._lock, self._stopped, self._running = threading.Lock(), threading.Event(), set[Any]()

    def warm(self, number: int) -> None:
        """Leave it to Ray."""

    def run(self, job: Job) -> Outcome:
        """Train a run to its end."""
        with self._lock:
            if self._stopped.is_set():
                return Outcome("stopped")
            reference = self._task.remote(asdict(job))
            self._running.add(reference)
        try:
            return Outcome(**self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            if self._stopped.is_set():
                return Outcome("stopped")
            return Outcome("failed", f"Ray: {' '.join(str(error).split())}")
        finally:
            with self._lock:
                self._running.discard(reference)

    def stop(self) -> None:
        """Ask all runs to save and stop."""
        with self._lock:
            self._stopped.set()
            for reference in self._running:
                self._ray.cancel(reference)

    def close(self) -> None:
        """Leave the cluster; one that was started for this grid ends."""
        self._ray.shutdown()


def _perform_there(job: dict[str, Any]) -> dict[str, Any]:
    """Train a run in a process of Ray's."""
    return asdict(perform(Job(**job)))
