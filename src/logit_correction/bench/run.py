"""Running what is not finished of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from logit_correction.bench.executors import Executor, ProcessExecutor
from logit_correction.bench.grid import Benchmark, Cell
from logit_correction.bench.missing import DataMissing, format_cells, missing_data
from logit_correction.bench.progress import Progress
from logit_correction.bench.results import find
from logit_correction.bench.run_queue import RunQueue, span
from logit_correction.bench.work import Job, is_complete
from logit_correction.config import RunConfig


def run(
    benchmark: Benchmark,
    out: Path,
    executor: Executor | None = None,
    progress: Progress | None = None,
    also: Sequence[Path] = (),
) -> list[Cell]:
    """Run what is not finished; several processes and machines may do so at once with the same folder.

    Args:
        benchmark: The grid.
        out: Folder of the runs' folders.
        executor: Where to train; by default one process of this machine at a time. It is closed in the end.
        progress: Shows how it goes; by default lines on standard error.
        also: Folders of the same grid whose finished runs count too.

    Returns:
        The cells whose run failed; what they printed lies beside their folder in ``<folder>.log``.

    Raises:
        DataMissing: The data of all runs are missing, and none is finished.
        InputError: An option of a run is wrong, or a folder holds another run; nothing was started.
    """
    executor, progress = executor or ProcessExecutor(1), progress or Progress()
    try:
        cells = list(benchmark.cells(out))
        executor.warm(sum(not cell.has_report for cell in cells))  # before torch is imported here
        configs = _checked(cells, out)
        found = find(benchmark, out, also, configs)
        for note in found.notes:
            progress.say(note)
        waiting = [cell for cell in cells if not is_complete(cell.folder) and found.of(cell) in (None, cell.folder)]
        done = len(cells) - len(waiting)
        progress.say(f"{benchmark.name}: {len(cells)} runs, {done} finished before")
        missing = missing_data(waiting, configs)
        for reason, left_out in missing.items():
            progress.say(f"{format_cells(left_out)} left out: {reason}")
            waiting = [cell for cell in waiting if cell not in left_out]
        if missing and not waiting and not done:
            raise DataMissing(f"{benchmark.name}: no run can be trained, since all data are missing; see above")
        queue = RunQueue(waiting, _known_seconds(cells), executor.slots)
        progress.begin(queue)
        try:
            _run_all(queue, configs, executor, progress)
        finally:
            progress.end()
        return queue.failed
    finally:
        executor.close()


def _checked(cells: Sequence[Cell], out: Path) -> dict[Path, RunConfig]:
    """Return the config of every run, by its folder, if all can be run there."""
    from logit_correction.runs.folder import check_same, make

    configs = {cell.folder: cell.config() for cell in cells}
    for folder, config in configs.items():
        check_same(folder, config)
    make(out)
    return configs


def _known_seconds(cells: Sequence[Cell]) -> list[tuple[Cell, float]]:
    """Return the finished runs, and how long they took."""
    from logit_correction.runs.folder import is_finished, read_report

    finished = [(cell, read_report(cell.folder)["seconds"]) for cell in cells if is_finished(cell.folder)]
    return [(cell, seconds["train"] + seconds["evaluate"]) for cell, seconds in finished]


def _run_all(queue: RunQueue, configs: dict[Path, RunConfig], executor: Executor, progress: Progress) -> None:
    slots = max(1, min(executor.slots, queue.total))
    with ThreadPoolExecutor(max_workers=slots) as pool:
        try:
            futures = [pool.submit(_run_some, queue, configs, executor, progress) for _ in range(slots)]
            for future in as_completed(futures):
                future.result()
        except BaseException:
            queue.stop()
            executor.stop()
            raise


def _run_some(queue: RunQueue, configs: dict[Path, RunConfig], executor: Executor, progress: Progress) -> None:
    """Take one run after the other, until none is left."""
    while (cell := queue.take(progress.say)) is not None:
        cell.folder.parent.mkdir(parents=True, exist_ok=True)
        job = Job(configs[cell.folder], cell.folder.absolute())
        outcome = executor.run(job)
        seconds = queue.end(cell, outcome)
        if outcome.state in ("done", "failed"):
            log = cell.folder.parent / job.log.name
            why = f"FAILED, see {log}" if log.is_file() else f"FAILED: {outcome.message}"
            state = why if outcome.state == "failed" else f"done in {_took(seconds)}"
            place, left = f"{cell.row}, {cell.column}, seed {cell.seed}", span(queue.seconds_left())
            progress.say(f"[{queue.ended}/{queue.total}] {place}: {state}; left: {left}")


def _took(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
