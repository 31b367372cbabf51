"""What one run of a grid is to the process that trains it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

#: Processes of a run that has several of its own.
_apart: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Job:
    """A run to train, or to go on with.

    Attributes:
        config: Text of its ``config.yaml``.
        folder: Of the run.
        log: File for what is printed; removed when the run has ended well.
        several: Whether the run itself starts several processes.
    """

    config: str
    folder: str
    log: str
    several: bool = False


@dataclass(frozen=True)
class Outcome:
    """How it went: done, failed (the log says why), held by another process, or stopped when asked to."""

    state: Literal["done", "failed", "held", "stopped"]
    message: str = ""


def perform(job: Job) -> Outcome:
    """Train the run in this process."""
    from logit_correction.runs.folder import make
    from logit_correction.runs.lock import FolderHeld, hold
    from logit_correction.types import InputError

    folder = Path(job.folder)
    try:
        make(folder)
        with _lock_unless(job.several, hold, folder), _printing_to(Path(job.log)):
            state = _train_apart(job) if job.several else _train(job)
    except FolderHeld as error:
        return Outcome("held", str(error))
    except InputError as error:
        return Outcome("failed", str(error))
    if state == "done":
        Path(job.log).unlink(missing_ok=True)
    return Outcome(state)


@contextmanager
def _lock_unless(apart: bool, hold: Any, folder: Path) -> Iterator[None]:
    """Lock the folder before its log is begun, unless the run's own processes are to lock it."""
    if apart:
        from logit_correction.runs.lock import check_free

        check_free(folder)
        yield
        return
    with hold(folder):
        yield


def _train(job: Job) -> Literal["done", "failed", "stopped"]:
    import yaml

    from logit_correction.config import RunConfig
    from logit_correction.runs.train import train
    from logit_correction.training.display import Lines
    from logit_correction.training.interrupt import Interrupted
    from logit_correction.types import InputError, TrainingError

    try:
        train(RunConfig.from_dict(yaml.safe_load(job.config)), job.folder, resume=True, display=Lines())
    except (Interrupted, KeyboardInterrupt, SystemExit):
        return "stopped"
    except (InputError, TrainingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return "failed"
    except Exception:
        traceback.print_exc()
        return "failed"
    return "done"


def _train_apart(job: Job) -> Literal["done", "failed", "stopped"]:
    """Train a run that starts several processes by the command, which they all have to begin with."""
    given = Path(job.log).with_suffix(".yaml")
    given.write_text(job.config, encoding="utf-8")
    words = ["train", "--config", str(given), "--out", job.folder, "--resume"]
    command = [sys.executable, "-m", "logit_correction", *words]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    _apart.append(child)
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, lambda *_: child.terminate()) if main else None
    try:
        status = child.wait()
    finally:
        _kill_apart()
        if main:
            signal.signal(signal.SIGTERM, before)
    given.unlink()
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


def main() -> None:
    """Take jobs from standard input, a line of JSON each, and answer each with a line on what was standard output."""
    from logit_correction.benchmark.worker import jobs

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what is printed by accident is no answer
    queue = jobs(_kill_apart)
    import logit_correction.runs.train  # noqa: F401  (while the parent still looks for a job)

    while True:
        outcome = perform(Job(**queue.get()))
        answers.write(json.dumps(asdict(outcome)) + "\n")
        answers.flush()
