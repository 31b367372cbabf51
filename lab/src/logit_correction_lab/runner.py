"""Training of all runs of a grid that are not finished.

A grid takes hours, on one machine or several, and is stopped on the way. So each run is a task of joblib on whichever
backend is configured, holds a lock on its folder while it trains, and continues from its checkpoint.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
import warnings
from collections import defaultdict
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

#: How a run ended; ``held``: another process is training it.
State: TypeAlias = Literal["done", "failed", "held", "stopped"]


class DataMissing(InputError):
    """The data of all runs of a grid are missing."""


def get_log_path(run_dir: Path) -> Path:
    """Return the file that holds what a run prints, next to its folder; it is removed when the run has ended well."""
    return run_dir.parent / f"{run_dir.name}.log"


def has_report_and_page(run_dir: Path) -> bool:
    """Return whether nothing is left to do; a run killed between its report and its page lacks only the page."""
    from logit_correction.runs.folder import PAGE, is_finished

    return is_finished(run_dir) and (run_dir / PAGE).is_file()


def print_to_stderr(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def train_grid(benchmark: Benchmark, out_dir: Path, print_line: Callable[[str], None] = print_to_stderr) -> list[Cell]:
    """Train what is not finished; several processes and machines may do so at once with the same folder.

    Args:
        benchmark: The grid.
        out_dir: Folder of the grid. The same call continues where it was stopped.
        print_line: Called with a line of progress.

    Returns:
        The cells whose run failed; ``<folder>.log`` holds what they printed.

    Raises:
        InputError: Options of a run are wrong, or its folder holds a run with other options.
        DataMissing: No run can be trained, for want of data.
    """
    from logit_correction.runs.folder import check_same_config, make_folder

    cells = {cell.folder: cell for cell in benchmark.make_cells(out_dir)}
    configs = {folder: cell.build_config() for folder, cell in cells.items()}
    monitors = {folder: cell.build_monitor() for folder, cell in cells.items()}
    for folder, config in configs.items():
        check_same_config(folder, config)
        if config.training.devices * config.training.nodes > 1:
            raise InputError(f"{cells[folder]}: a run of a grid trains on one device: leave devices and nodes out")
    make_folder(out_dir)
    waiting = {folder: config for folder, config in configs.items() if not has_report_and_page(folder)}
    num_finished = len(cells) - len(waiting)
    print_line(f"{benchmark.name}: {len(cells)} runs, {num_finished} finished before")
    for reason, folders in find_missing_data(waiting).items():
        print_line(f"left out, column {', '.join(dict.fromkeys(cells[folder].column for folder in folders))}: {reason}")
        for folder in folders:
            del waiting[folder]
    if cells and not waiting and not num_finished:
        raise DataMissing(f"{benchmark.name}: no run can be trained, since all data are missing; see above")
    total = len(waiting)
    num_ended = 0
    failed: dict[Path, Cell] = {}
    wait = False  # the second round waits for runs of other processes, which may die
    while waiting:
        for folder, state, seconds in _train_in_parallel(waiting, monitors, wait):
            if state == "stopped":
                raise KeyboardInterrupt
            if state == "held":
                continue
            num_ended += 1
            outcome = f"done in {seconds:.0f} s" if seconds < 100 else f"done in {seconds / 60:.0f} min"
            if state == "failed":
                failed[folder] = cells[folder]
                outcome = f"FAILED, see {get_log_path(folder)}"
            print_line(f"[{num_ended}/{total}] {cells[folder]}: {outcome}")
        waiting = {key: waiting[key] for key in waiting if key not in failed and not has_report_and_page(key)}
        wait = True
    return list(failed.values())


def _train_in_parallel(
    configs: Mapping[Path, RunConfig], monitors: Mapping[Path, TrainingMonitor | None], wait: bool
) -> Iterator[tuple[Path, State, float]]:
    """Yield folder, state and seconds of each run that ends; if a process is killed, the runs under way have failed."""
    from joblib import Parallel, delayed

    # joblib replaces a process whose memory a run has grown. That is intended, so its warning is hidden.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    pending = {folder.absolute(): folder for folder in configs}
    task = delayed(train_cell)
    tasks = [task(configs[key], monitors[key], folder, os.getpid(), wait) for folder, key in pending.items()]
    try:
        parallel = Parallel(batch_size=1, return_as="generator_unordered")
    except ValueError:  # a backend that returns all outcomes in the end, such as Ray's
        parallel = Parallel(batch_size=1, verbose=5)
    try:
        for folder, state, seconds in parallel(tasks):
            yield pending.pop(folder), state, seconds
    except BrokenExecutor as error:
        under_way = [folder for folder in pending.values() if get_log_path(folder).is_file()]
        if not under_way:
            raise
        for folder in under_way:
            with get_log_path(folder).open("a", encoding="utf-8") as file:
                print(f"error: its process was killed, perhaps for want of memory: {error}", file=file)
            yield folder, "failed", 0.0


@cache
def exit_with_parent(parent_process_id: int) -> None:
    """End this process, as if killed, when the process that started it ends, so that no lock stays held."""

    def watch() -> None:
        while os.getppid() == parent_process_id:
            time.sleep(1)
        os._exit(1)

    if os.getppid() == parent_process_id:
        threading.Thread(target=watch, daemon=True).start()


def train_cell(
    config: RunConfig, monitor: TrainingMonitor | None, run_dir: Path, parent_process_id: int, wait: bool
) -> tuple[Path, State, float]:
    """Train a run in this process, or continue it.

    Args:
        config: Its config.
        monitor: ``after_epoch`` of its training.
        run_dir: Its folder, absolute.
        parent_process_id: Process whose end also ends this one.
        wait: Whether to wait while another process trains the run.

    Returns:
        The folder, how the run ended, and the seconds that it took.
    """
    from logit_correction.runs.folder import FolderHeld, lock_folder, make_folder

    exit_with_parent(parent_process_id)
    make_folder(run_dir)
    log = get_log_path(run_dir)
    while True:
        start = time.monotonic()
        try:
            with lock_folder(run_dir):
                if has_report_and_page(run_dir):  # another process has trained it
                    return run_dir, "held", 0.0
                with log.open("w", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
                    state = _train_and_get_state(config, run_dir, monitor)
                if state == "done":
                    log.unlink(missing_ok=True)
                return run_dir, state, time.monotonic() - start
        except FolderHeld:
            if not wait:
                return run_dir, "held", 0.0


def _train_and_get_state(config: RunConfig, run_dir: Path, monitor: TrainingMonitor | None) -> State:
    from logit_correction.runs.train import train
    from logit_correction.training.display import LineDisplay

    try:
        train(config, run_dir, resume=True, progress=LineDisplay(), after_epoch=monitor)
    except (TrainingInterrupted, KeyboardInterrupt, SystemExit):
        return "stopped"
    except (InputError, TrainingError) as error:
        print(f"error: {error}")
        return "failed"
    except Exception:
        traceback.print_exc()
        return "failed"
    return "done"


def find_missing_data(configs: Mapping[Path, RunConfig]) -> dict[str, list[Path]]:
    """Return why data are missing and where to put them -> the runs without them; downloads what can be downloaded."""
    messages: dict[str, str] = {}
    missing = defaultdict(list)
    for folder, config in configs.items():
        key = repr((config.data.name, {**config.data.options, "seed": None}))
        if key not in messages:
            try:
                config.data.make().ensure_raw_files()
                messages[key] = ""
            except InputError as error:
                messages[key] = str(error)
        if messages[key]:
            missing[messages[key]].append(folder)
    return missing
