"""Training what is not finished of a grid: each run is a task of joblib, on whatever backend is chosen."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from logit_correction.errors import InputError, TrainingError, TrainingInterrupted
from logit_correction.runs.options import RunConfig
from logit_correction_lab.grid import Benchmark, Cell
from logit_correction_lab.monitor import TrainingMonitor

#: How a run ended; ``held``: another process is at it.
State: TypeAlias = Literal["done", "failed", "held", "stopped"]


class DataMissing(InputError):
    """The data of all runs of a grid are missing."""


def get_log_path(folder: Path) -> Path:
    """Return the file for what a run prints, beside its folder; removed when the run has ended well."""
    return folder.parent / f"{folder.name}.log"


def is_complete(folder: Path) -> bool:
    """Return whether nothing is left to do; a run killed between its report and its page lacks only the page."""
    from logit_correction.runs.folder import PAGE, is_finished

    return is_finished(folder) and (folder / PAGE).is_file()


def print_to_stderr(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def train_grid(
    benchmark: Benchmark, out: Path, jobs: int | None = None, say: Callable[[str], None] = print_to_stderr
) -> list[Cell]:
    """Train what is not finished, and return the cells whose run failed; ``<folder>.log`` holds what they printed.

    Several processes and machines may do so at once with the same folder; the same call goes on where it was stopped.
    Joblib's configuration says how many runs go at a time where ``jobs`` does not.
    """
    from logit_correction.runs.folder import check_same_config, make_folder

    cells = {cell.folder: cell for cell in benchmark.make_cells(out)}
    configs = {folder: cell.build_config() for folder, cell in cells.items()}
    monitors = {folder: cell.build_monitor() for folder, cell in cells.items()}
    for folder, config in configs.items():
        check_same_config(folder, config)
        if config.training.devices * config.training.nodes > 1:
            raise InputError(f"{cells[folder]}: a run of a grid trains on one device: leave devices and nodes out")
    make_folder(out)
    waiting = {folder: config for folder, config in configs.items() if not is_complete(folder)}
    done = len(cells) - len(waiting)
    say(f"{benchmark.name}: {len(cells)} runs, {done} finished before")
    for reason, folders in find_missing_data(waiting).items():
        say(f"left out, column {', '.join(dict.fromkeys(cells[folder].column for folder in folders))}: {reason}")
        waiting = {folder: config for folder, config in waiting.items() if folder not in folders}
    if cells and not waiting and not done:
        raise DataMissing(f"{benchmark.name}: no run can be trained, since all data are missing; see above")
    total, ended, failed = len(waiting), 0, []
    wait = False  # first the runs that nobody is at, then those of others, which may die at them
    while waiting:
        for folder, state, seconds in _trained(waiting, monitors, jobs, wait):
            if state == "stopped":
                raise KeyboardInterrupt
            if state == "held":
                continue
            ended += 1
            took = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
            if state == "failed":
                failed.append(cells[folder])
            how = f"done in {took}" if state == "done" else f"FAILED, see {get_log_path(folder)}"
            say(f"[{ended}/{total}] {cells[folder]}: {how}")
        over = {cell.folder for cell in failed}
        waiting = {one: config for one, config in waiting.items() if one not in over and not is_complete(one)}
        wait = True
    return failed


def _trained(
    configs: Mapping[Path, RunConfig], monitors: Mapping[Path, TrainingMonitor | None], jobs: int | None, wait: bool
) -> Iterator[tuple[Path, State, float]]:
    """Train runs by joblib and yield how they ended; where a process is killed, the runs under way have failed."""
    from joblib import Parallel, delayed

    # A process whose memory has grown by a run is replaced by joblib, which is meant and nothing to warn of.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    left = {folder.absolute(): folder for folder in configs}
    tasks = [delayed(train_cell)(configs[one], monitors[one], place, os.getpid(), wait) for place, one in left.items()]
    try:
        parallel = Parallel(jobs, batch_size=1, return_as="generator_unordered")
    except ValueError:  # a backend that returns all outcomes in the end, such as Ray's
        parallel = Parallel(jobs, batch_size=1, verbose=5)
    try:
        for place, state, seconds in parallel(tasks):
            yield left.pop(place), state, seconds
    except BrokenExecutor as error:
        under_way = [folder for place, folder in left.items() if get_log_path(place).is_file()]
        if not under_way:
            raise
        for folder in under_way:
            with get_log_path(folder).open("a", encoding="utf-8") as file:  # which the process itself could not
                print(f"error: its process was killed, perhaps for want of memory: {error}", file=file)
            yield folder, "failed", 0.0


@cache
def exit_with_parent(parent: int) -> None:
    """End this process, as if killed, when ``parent``, which started it, ends: then the command can go on at once."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if os.getppid() == parent:
        threading.Thread(target=watch, daemon=True).start()


def train_cell(
    config: RunConfig, monitor: TrainingMonitor | None, folder: Path, parent: int, wait: bool
) -> tuple[Path, State, float]:
    """Train a run in this process, or go on with it, and return how it ended and after how many seconds."""
    from logit_correction.runs.folder import FolderHeld, lock_folder, make_folder

    exit_with_parent(parent)
    make_folder(folder)
    log = get_log_path(folder)
    while True:
        start = time.monotonic()
        try:
            with lock_folder(folder):
                if is_complete(folder):  # by the other process
                    return folder, "held", 0.0
                with log.open("w", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
                    state = _train(config, folder, monitor)
                if state == "done":
                    log.unlink(missing_ok=True)
                return folder, state, time.monotonic() - start
        except FolderHeld:
            if not wait:
                return folder, "held", 0.0


def _train(config: RunConfig, folder: Path, monitor: TrainingMonitor | None) -> State:
    from logit_correction.runs.train import train
    from logit_correction.training.display import LineDisplay

    try:
        train(config, folder, resume=True, progress=LineDisplay(), after_epoch=monitor)
    except (TrainingInterrupted, KeyboardInterrupt, SystemExit):
        return "stopped"
    except (InputError, TrainingError) as error:
        print_to_stderr(f"error: {error}")
        return "failed"
    except Exception:
        traceback.print_exc()
        return "failed"
    return "done"


def find_missing_data(configs: Mapping[Path, RunConfig]) -> dict[str, list[Path]]:
    """Return why data are missing and where to put them -> the runs without them; what may be is downloaded."""
    looked: dict[str, str] = {}
    missing: dict[str, list[Path]] = {}
    for folder, config in configs.items():
        key = repr((config.data.name, {**config.data.options, "seed": None}))
        if key not in looked:
            try:
                config.data.make().ensure_files()
                looked[key] = ""
            except InputError as error:
                looked[key] = str(error)
        if looked[key]:
            missing.setdefault(looked[key], []).append(folder)
    return missing
