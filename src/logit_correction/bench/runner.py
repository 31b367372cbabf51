"""Training what is not finished of a grid: each run is a task of joblib, on whatever backend is chosen."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from logit_correction.bench.grid import Benchmark, Cell
from logit_correction.bench.results import find
from logit_correction.config import RunConfig
from logit_correction.errors import InputError, Interrupted, TrainingError

State = Literal["done", "failed", "held", "stopped"]

#: Seconds between two looks at runs of other processes, or at the process that a worker belongs to.
POLL_SECONDS = 1.0


class DataMissing(InputError):
    """The data of all runs of a grid are missing."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: done, failed, held (another process is at it, or has ended it) or stopped."""

    folder: Path
    state: State
    seconds: float = 0.0
    message: str = ""


def log_of(folder: Path) -> Path:
    """Return the file for what a run prints, beside its folder; removed when the run has ended well."""
    return folder.parent / f"{folder.name}.log"


def is_complete(folder: Path) -> bool:
    """Return whether nothing is left to do; a run killed between its report and its page lacks only the page."""
    from logit_correction.runs.folder import PAGE, is_finished

    return is_finished(folder) and (folder / PAGE).is_file()


def to_stderr(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def run_on(backend: str, benchmark: Benchmark, out: Path, jobs: int | None, also: Sequence[Path]) -> list[Cell]:
    """Train what is not finished on loky, ray or dask; see ``run``."""
    from joblib import parallel_config

    if backend == "loky":  # one thread a run: as many runs as there are processors fit
        with parallel_config(backend, n_jobs=jobs or 1, inner_max_num_threads=1):
            return run(benchmark, out, also=also)
    try:
        if backend == "ray":
            from ray.util.joblib import register_ray

            register_ray()
        else:
            from distributed import Client

            Client(set_as_default=True)
    except ImportError as error:
        raise InputError(f"--backend {backend} needs {error.name}: install it by pip, or leave it out") from error
    with parallel_config(backend, n_jobs=jobs or -1):
        return run(benchmark, out, also=also)


def run(
    benchmark: Benchmark,
    out: Path,
    jobs: int | None = None,
    also: Sequence[Path] = (),
    say: Callable[[str], None] = to_stderr,
) -> list[Cell]:
    """Train what is not finished; several processes and machines may do so at once with the same folder.

    Args:
        benchmark: The grid.
        out: Folder of the runs' folders.
        jobs: Runs at a time; by default what ``joblib.parallel_config`` says, else one, in this process.
        also: Folders of the same grid whose finished runs count too.
        say: Told how it goes.

    Returns:
        The cells whose run failed; what they printed lies beside their folder in ``<folder>.log``.

    Raises:
        DataMissing: The data of all runs are missing, and none is finished.
        InputError: An option of a run is wrong, or a folder holds another run; nothing was started.
        KeyboardInterrupt: Somebody stopped it; the same call goes on.
    """
    from logit_correction.runs.folder import check_same, is_held, make

    cells = list(benchmark.cells(out))
    configs = {cell.folder: cell.config() for cell in cells}
    for folder, config in configs.items():
        check_same(folder, config)
    make(out)
    found = find(benchmark, out, also, configs)
    for note in found.notes:
        say(note)
    place = {cell.folder: folder for cell, folder in found.cells}
    waiting = [one for one in cells if not is_complete(one.folder) and place.get(one.folder, one.folder) == one.folder]
    done = len(cells) - len(waiting)
    say(f"{benchmark.name}: {len(cells)} runs, {done} finished before")
    for reason, left_out in missing_data(waiting, configs).items():
        columns = list(dict.fromkeys(cell.column for cell in left_out))
        are = f"column {columns[0]} is" if len(columns) == 1 else f"columns {', '.join(columns)} are"
        say(f"{are} left out: {reason}")
        waiting = [cell for cell in waiting if cell not in left_out]
        if not waiting and not done:
            raise DataMissing(f"{benchmark.name}: no run can be trained, since all data are missing; see above")
    total, told, failed = len(waiting), False, []
    ended: set[Path] = set()
    while waiting:
        free = [cell for cell in waiting if not is_held(cell.folder)]
        if not free:
            if not told:
                say(f"{len(waiting)} running elsewhere and waited for; Ctrl-C leaves them to run")
            told = True
            time.sleep(POLL_SECONDS)
        places = {cell.folder.absolute(): cell for cell in free}
        for outcome in _outcomes({place: configs[cell.folder] for place, cell in places.items()}, jobs):
            cell = places[outcome.folder]
            if outcome.state == "stopped":
                raise KeyboardInterrupt
            if outcome.state == "held":
                continue
            ended.add(cell.folder)
            how = f"done in {_took(outcome.seconds)}"
            if outcome.state == "failed":
                failed.append(cell)
                log = log_of(cell.folder)
                how = f"FAILED, see {log}" if log.is_file() else f"FAILED: {outcome.message}"
            say(f"[{len(ended)}/{total}] {cell}: {how}")
        waiting = [cell for cell in waiting if cell.folder not in ended and not is_complete(cell.folder)]
    return failed


def _outcomes(configs: Mapping[Path, RunConfig], jobs: int | None) -> Iterator[Outcome]:
    """Train runs by joblib and yield how they ended; where a process is killed, the runs under way have failed."""
    from joblib import Parallel, delayed

    # A process whose memory has grown by a run is replaced by joblib, which is meant and nothing to warn of.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    left = set(configs)
    try:
        parallel = Parallel(jobs, batch_size=1, return_as="generator_unordered")
    except ValueError:  # a backend that returns all outcomes in the end, such as Ray's
        parallel = Parallel(jobs, batch_size=1, verbose=5)
    try:
        for outcome in parallel(delayed(perform)(config, folder, os.getpid()) for folder, config in configs.items()):
            left.remove(outcome.folder)
            yield outcome
    except BrokenExecutor as error:
        for folder in (folder for folder in left if log_of(folder).is_file()):
            message = f"its process was killed, perhaps for want of memory: {error}"
            with log_of(folder).open("a", encoding="utf-8") as file:  # which the process itself could not
                print(f"error: {message}", file=file)
            yield Outcome(folder, "failed", message=message)


def perform(config: RunConfig, folder: Path, parent: int) -> Outcome:
    """Train a run in this process, or go on with it.

    Args:
        config: Complete.
        folder: Of the run.
        parent: Number of the process that runs the grid; a worker that it started ends with it.
    """
    from logit_correction.distributed import end_with
    from logit_correction.runs.folder import FolderHeld, acquire, check_free, make

    end_with(parent)
    start, log = time.monotonic(), log_of(folder)
    several = config.training.devices * config.training.nodes > 1  # processes, which lock the folder themselves
    try:
        make(folder)
        check_free(folder)
        with nullcontext() if several else acquire(folder):
            if is_complete(folder):  # by a process that was faster by a moment
                return Outcome(folder, "held")
            with log.open("w", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
                state = _train_by_command(config, folder) if several else _train(config, folder)
    except FolderHeld:
        return Outcome(folder, "held")
    except InputError as error:
        return Outcome(folder, "failed", message=str(error))
    if state == "done":
        log.unlink(missing_ok=True)
    return Outcome(folder, state, time.monotonic() - start)


def _train(config: RunConfig, folder: Path) -> State:
    from logit_correction.runs.train import train
    from logit_correction.training.display import Lines

    try:
        train(config, folder, resume=True, display=Lines())
    except (Interrupted, KeyboardInterrupt, SystemExit):
        return "stopped"
    except (InputError, TrainingError) as error:
        to_stderr(f"error: {error}")
        return "failed"
    except Exception:
        traceback.print_exc()
        return "failed"
    return "done"


def _train_by_command(config: RunConfig, folder: Path) -> State:
    """Train a run of several processes, which all begin with the command."""
    given = log_of(folder).with_suffix(".yaml")
    given.write_text(config.to_yaml(), encoding="utf-8")
    words = ["train", "--config", str(given), "--out", str(folder), "--resume"]
    done = subprocess.run([sys.executable, "-m", "logit_correction", *words], stdout=sys.stdout, stderr=sys.stderr)
    given.unlink()
    return "done" if done.returncode == 0 else "stopped" if done.returncode == 130 else "failed"


def missing_data(cells: Sequence[Cell], configs: Mapping[Path, RunConfig]) -> dict[str, list[Cell]]:
    """Return what data are missing and where to put them -> the runs that need them; what may be is downloaded."""
    from logit_correction.runs.assemble import build_source

    looked: dict[str, str | None] = {}
    missing: dict[str, list[Cell]] = {}
    for cell in cells:
        data = configs[cell.folder].data
        key = repr((data.name, {**data.options, "seed": None}))
        if key not in looked:
            source, looked[key] = build_source(configs[cell.folder]), None
            try:
                source.ensure_files()
            except InputError as error:
                looked[key] = str(error)
        if (reason := looked[key]) is not None:
            missing.setdefault(reason, []).append(cell)
    return missing


def _took(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
