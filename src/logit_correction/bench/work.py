"""What a process does that trains the runs of a grid: one run after the other, while its parent lives."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from logit_correction.config import RunConfig
from logit_correction.errors import InputError, TrainingError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

State = Literal["done", "failed", "held", "stopped"]

#: What every run imports. Where its first run does so, joblib takes the memory for a leak and replaces the process.
IMPORTED = (
    *("lightning_fabric.strategies", "pandas", "pyarrow.parquet", "sklearn.linear_model"),
    "logit_correction.runs.train",
)

#: Processes of a run that has several of its own.
_apart: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Job:
    """A run to train, or to go on with.

    Attributes:
        config: Complete.
        folder: Of the run.
    """

    config: RunConfig
    folder: Path

    @property
    def log(self) -> Path:
        """File beside the folder for what is printed; removed when the run has ended well."""
        return self.folder.parent / f"{self.folder.name}.log"


@dataclass(frozen=True)
class Outcome:
    """How it went: done, failed (the log says why), held (another process is at it or has just ended it) or stopped."""

    state: State
    message: str = ""


def is_complete(folder: Path) -> bool:
    """Return whether nothing is left to do; a run killed between its report and its page wants only the page."""
    from logit_correction.runs.folder import PAGE, is_finished

    return is_finished(folder) and (folder / PAGE).is_file()


def begin(parent: Connection) -> None:
    """Prepare this process: a message from the parent stops the run under way, and the parent's end is ours.

    The system closes the parent's side however it ends. This process then ends at once, as if killed: every file of a
    run is complete or absent at any time, and another process may want to go on with the run right away. It has a
    session of its own, so that Ctrl-C at a terminal reaches the parent alone.
    """
    if hasattr(os, "setsid"):
        os.setsid()

    def listen() -> None:
        try:
            while True:
                parent.recv()
                os.kill(os.getpid(), signal.SIGTERM)
        finally:
            _kill_apart()
            os._exit(0)

    threading.Thread(target=listen, name="parent", daemon=True).start()
    for name in IMPORTED:  # while the parent still looks for a job
        importlib.import_module(name)


def perform(job: Job) -> Outcome:
    """Train the run in this process."""
    from logit_correction.runs.folder import FolderHeld, acquire, check_free, make

    several = job.config.training.devices * job.config.training.nodes > 1  # processes, which lock the folder themselves
    try:
        make(job.folder)
        check_free(job.folder)
        with nullcontext() if several else acquire(job.folder):
            if is_complete(job.folder):  # by a process that was faster by a moment
                return Outcome("held", "another process has ended it")
            with _printing_to(job.log):
                state = _train_apart(job) if several else _train(job)
    except FolderHeld as error:
        return Outcome("held", str(error))
    except InputError as error:
        return Outcome("failed", str(error))
    if state == "done":
        job.log.unlink(missing_ok=True)
    return Outcome(state)


def _train(job: Job) -> State:
    from logit_correction.errors import Interrupted
    from logit_correction.runs.train import train
    from logit_correction.training.display import Lines

    try:
        train(job.config, job.folder, resume=True, display=Lines())
    except (Interrupted, KeyboardInterrupt, SystemExit):
        return "stopped"
    except (InputError, TrainingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return "failed"
    except Exception:
        traceback.print_exc()
        return "failed"
    return "done"


def _train_apart(job: Job) -> State:
    """Train a run that starts several processes by the command, which they all have to begin with."""
    given = job.log.with_suffix(".yaml")
    given.write_text(job.config.to_yaml(), encoding="utf-8")
    words = ["train", "--config", str(given), "--out", str(job.folder), "--resume"]
    command = [sys.executable, "-m", "logit_correction", *words]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    _apart.append(child)
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, lambda *_: child.terminate()) if main else None
    try:
        status = child.wait()
    finally:
        _kill_apart()
        given.unlink()
        if main:
            signal.signal(signal.SIGTERM, before)
    return "done" if status == 0 else "stopped" if status == 130 else "failed"


def _kill_apart() -> None:
    """End the processes of a run that has several, if they are still there."""
    while _apart:
        with suppress(OSError):
            os.killpg(_apart.pop().pid, signal.SIGKILL)


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Let all that this process prints, its libraries too, go into a file."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    before = os.dup(1), os.dup(2)
    with log.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        for number, saved in enumerate(before, start=1):
            os.dup2(saved, number)
            os.close(saved)
