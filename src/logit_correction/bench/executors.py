"""Where the runs of a grid are trained: in processes of this machine (joblib's loky), or on a Ray cluster."""

from __future__ import annotations

import os
import threading
import time
import warnings
from abc import ABC, abstractmethod
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from multiprocessing import Pipe
from typing import Any

from logit_correction.bench.work import Job, Outcome, begin, perform
from logit_correction.errors import InputError, reason_of
from logit_correction.registry import needed

#: A process whose run took longer is not used again: starting another one costs little beside it.
_LONG_SECONDS = 60.0

#: Seconds that a run has to save where it is when it is asked to stop.
_GRACE_SECONDS = 30.0

#: One thread a run, so that as many runs as there are processors fit.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

#: How the names of variables begin that a Ray worker gets too: where the data and the cache are, how much memory there
#: is, and where this package may lie.
_PASSED_ON = ("LOGIT_CORRECTION_", "PYTHONPATH")


class Executor(ABC):
    """Trains runs; asked from ``slots`` threads at a time."""

    slots = 1

    #: What is raised where the process of a run has ended before it.
    _broken: type[Exception] = BrokenExecutor

    def __init__(self) -> None:
        self._lock, self._stopped, self._running = threading.Lock(), threading.Event(), set[Any]()

    def warm(self, number: int) -> None:  # noqa: B027  (there may be nothing to do)
        """Get ready for so many runs at a time."""

    def run(self, job: Job) -> Outcome:
        """Train a run to its end."""
        with self._lock:
            if self._stopped.is_set():
                return Outcome("stopped")
            handle = self._begin(job)
            self._running.add(handle)
        try:
            return self._finish(handle)
        except self._broken as error:
            if self._stopped.is_set():
                return Outcome("stopped")
            message = f"its process failed: {reason_of(error)}"
            with job.log.open("a", encoding="utf-8") as file:  # which the process itself could not
                print(f"error: {message}", file=file)
            return Outcome("failed", message)
        finally:
            with self._lock:
                self._running.discard(handle)

    def stop(self) -> None:
        """Ask all runs to save and stop, and let none begin."""
        with self._lock:
            self._stopped.set()
            for handle in self._running:
                self._ask_to_stop(handle)

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""

    @abstractmethod
    def _begin(self, job: Job) -> Any:
        """Begin a run and return what stands for it."""

    @abstractmethod
    def _finish(self, handle: Any) -> Outcome:
        """Wait for the end of a run."""

    @abstractmethod
    def _ask_to_stop(self, handle: Any) -> None:
        """Let a run save and stop."""


class _Worker:
    """A pool of one process: where it is killed, as for want of memory, the other runs do not notice."""

    def __init__(self) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        # A process whose memory has grown by a run is replaced by joblib, which is meant and nothing to warn of.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        there, self._here = Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, initializer=begin, initargs=(there,), env=ENVIRONMENT)
        self._pool.submit(int)  # starts the process, which takes a while to get ready

    def begin(self, job: Job) -> None:
        self.started, self.outcome = time.monotonic(), self._pool.submit(perform, job)

    def stop(self) -> None:
        with suppress(OSError):  # it has ended
            self._here.send("stop")

    def end(self) -> None:
        self._here.close()  # the process sees it and ends at once


class ProcessExecutor(Executor):
    """Trains every run in a process apart; short runs take turns in one.

    Args:
        jobs: Runs at a time.
    """

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self.slots = jobs
        self._idle: list[_Worker] = []

    def warm(self, number: int) -> None:
        """Start the processes, which take a while to get ready."""
        self._idle = [_Worker() for _ in range(min(number, self.slots))]

    def _begin(self, job: Job) -> _Worker:
        worker = self._idle.pop() if self._idle else _Worker()
        worker.begin(job)
        return worker

    def _finish(self, worker: _Worker) -> Outcome:
        again = False
        try:
            outcome: Outcome = worker.outcome.result()
            again = time.monotonic() - worker.started < _LONG_SECONDS
        finally:
            with self._lock:
                if again and not self._stopped.is_set():
                    self._idle.append(worker)
                else:
                    worker.end()
        return outcome

    def _ask_to_stop(self, worker: _Worker) -> None:
        worker.stop()
        killer = threading.Timer(_GRACE_SECONDS, worker.end)
        killer.daemon = True
        killer.start()

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._stopped.set()
            for worker in self._idle:
                worker.end()


class RayExecutor(Executor):
    """Trains every run as a task of Ray, on the cluster at ``RAY_ADDRESS`` or else on this machine.

    All machines must see the folder of the runs and the data under the same paths.

    Args:
        jobs: Runs at a time; by default as many as the cluster has room for.
        gpus_per_run: GPUs (or a fraction of one) that a run takes.

    Raises:
        InputError: Ray is not installed, cannot be reached, or has no room for a single run.
    """

    def __init__(self, jobs: int | None, gpus_per_run: float = 0.0) -> None:
        super().__init__()
        self._ray: Any = needed("ray", "--executor ray", "ray", ", or leave --executor out")
        address = os.environ.get("RAY_ADDRESS") or "local"
        here = {"num_cpus": jobs} if address == "local" and jobs else {}
        own = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
        runtime = {"env_vars": {**own, **ENVIRONMENT}}
        try:
            self._ray.init(address, log_to_driver=False, include_dashboard=False, runtime_env=runtime, **here)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            reason = f"Ray cannot be reached at {address} ({reason_of(error)})"
            raise InputError(f"{reason}: set or unset RAY_ADDRESS") from error
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
        self._broken = self._ray.exceptions.RayError

    def _begin(self, job: Job) -> Any:
        return self._task.remote(job)

    def _finish(self, reference: Any) -> Outcome:
        outcome: Outcome = self._ray.get(reference)
        return outcome

    def _ask_to_stop(self, reference: Any) -> None:
        self._ray.cancel(reference)

    def close(self) -> None:
        """Leave the cluster; one that was started for this grid ends."""
        self._ray.shutdown()
