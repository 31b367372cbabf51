"""Where the runs of a grid are trained: in processes of this machine (joblib's loky), or on a Ray cluster."""

from __future__ import annotations

import importlib
import os
import threading
import time
from multiprocessing import Pipe
from typing import Any, Protocol

from logit_correction.benchmark.work import Job, Outcome, begin, perform
from logit_correction.errors import InputError

#: A process whose run took longer is not used again: starting another one costs little beside it.
_LONG_SECONDS = 60.0

#: Seconds that a run has to save where it is when it is asked to stop.
_GRACE_SECONDS = 30.0

#: One thread a run, so that as many runs as there are processors fit.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


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


class _Worker:
    """A pool of one process: where it is killed, as for want of memory, the other runs do not notice."""

    def __init__(self) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        there, self._here = Pipe(duplex=False)
        self.pool = ProcessPoolExecutor(1, initializer=begin, initargs=(there,), env=_ENVIRONMENT)
        self.pool.submit(int)  # starts the process, which takes a while to get ready

    def stop(self) -> None:
        """Ask the run under way to save and stop."""
        self._here.send("stop")

    def end(self) -> None:
        """End the process at once: it sees that the pipe is closed."""
        self._here.close()


class ProcessExecutor:
    """Trains every run in a process apart; short runs take turns in one.

    Args:
        jobs: Runs at a time.
    """

    def __init__(self, jobs: int) -> None:
        """Start with no process."""
        self.slots = jobs
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()

    def warm(self, number: int) -> None:
        """Start the processes, which take a while to get ready."""
        self._idle = [_Worker() for _ in range(min(number, self.slots))]

    def run(self, job: Job) -> Outcome:
        """Train a run to its end."""
        from joblib.externals.loky import BrokenProcessPool

        with self._lock:
            if self._stopped.is_set():
                return Outcome("stopped")
            worker = self._idle.pop() if self._idle else _Worker()
            self._busy.add(worker)
        started, ended = time.monotonic(), None
        try:
            ended = worker.pool.submit(perform, job).result()
        except BrokenProcessPool as error:
            message = f"the process ended before the run did: {' '.join(str(error).split())}"
        with self._lock:
            self._busy.discard(worker)
            if ended is not None and time.monotonic() - started < _LONG_SECONDS and not self._stopped.is_set():
                self._idle.append(worker)
                return ended
        worker.end()
        if ended is not None:
            return ended
        if self._stopped.is_set():
            return Outcome("stopped")
        with job.log.open("a", encoding="utf-8") as file:  # which the process itself could not
            print(f"error: {message}", file=file)
        return Outcome("failed", message)

    def stop(self) -> None:
        """Ask all runs to save and stop; those that do not in good time are killed."""
        with self._lock:
            self._stopped.set()
            workers = [*self._busy]
        for worker in workers:
            worker.stop()
        for worker in workers:
            killer = threading.Timer(_GRACE_SECONDS, worker.end)
            killer.daemon = True
            killer.start()

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._stopped.set()
            for worker in self._idle:
                worker.end()
            self._idle = []


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
            self._ray: Any = importlib.import_module("ray")
        except ModuleNotFoundError as error:
            raise InputError(
                "--executor ray needs Ray: `pip install 'logit-correction[ray]'`, or leave --executor out"
            ) from error
        address = os.environ.get("RAY_ADDRESS") or "local"
        here = {"num_cpus": jobs} if address == "local" and jobs else {}
        passed_on = {name: os.environ[name] for name in ("PYTHONPATH", "LOGIT_CORRECTION_DATA") if name in os.environ}
        runtime = {"env_vars": {**passed_on, **_ENVIRONMENT}}
        try:
            self._ray.init(address, log_to_driver=False, include_dashboard=False, runtime_env=runtime, **here)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            problem = " ".join(str(error).split())
            raise InputError(f"Ray cannot be reached at {address} ({problem}): set or unset RAY_ADDRESS") from error
        room = self._ray.cluster_resources()
        fits = int(room.get("CPU", 0))
        if gpus_per_run:
            fits = min(fits, int(room.get("GPU", 0) / gpus_per_run))
        if not fits:
            self.close()
            needs = f"1 CPU and {gpus_per_run:g} GPUs" if gpus_per_run else "1 CPU"
            raise InputError(f"Ray at {address} has no room for a run, which takes {needs}: ask for less")
        self.slots = min(jobs, fits) if jobs else fits
        # A process for each task: nothing is left over from the one before, on a GPU least of all.
        self._task = self._ray.remote(num_cpus=1, num_gpus=gpus_per_run, max_calls=1)(perform)
        self._lock, self._stopped, self._running = threading.Lock(), threading.Event(), set[Any]()

    def warm(self, number: int) -> None:
        """Leave it to Ray."""

    def run(self, job: Job) -> Outcome:
        """Train a run to its end."""
        with self._lock:
            if self._stopped.is_set():
                return Outcome("stopped")
            reference = self._task.remote(job)
            self._running.add(reference)
        try:
            outcome: Outcome = self._ray.get(reference)
            return outcome
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
