"""Running a grid, each run in a process of its own, and collecting what came out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

from logit_correction.benchmark.grid import Benchmark, Cell
from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from logit_correction.config import RunConfig
    from logit_correction.runs.processes import Processes


def run(benchmark: Benchmark, out: Path, jobs: int, say: Callable[[str], None]) -> list[Cell]:
    """Run what is not finished, ``jobs`` runs at a time, each in a process of its own.

    Args:
        benchmark: The grid.
        out: Folder of the runs' folders.
        jobs: Processes at a time.
        say: Told of every finished run.

    Returns:
        The cells whose run failed; what they printed lies beside their folder in ``<folder>.log``.
    """
    from logit_correction.runs.folder import PAGE, check_same, is_finished
    from logit_correction.runs.processes import Processes

    cells = list(benchmark.cells(out))
    configs = {cell.folder: cell.config() for cell in cells}
    for folder, config in configs.items():
        check_same(folder, config)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out} cannot be written ({error.strerror}): give another folder") from error
    # A run that was killed between its report and its page wants no more than the page.
    waiting = [cell for cell in cells if not (is_finished(cell.folder) and (cell.folder / PAGE).is_file())]
    say(f"{benchmark.name}: {len(cells)} runs, {len(cells) - len(waiting)} finished before")
    started, failed, processes = time.monotonic(), list[Cell](), Processes()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {pool.submit(_run_cell, cell, configs[cell.folder], processes): cell for cell in waiting}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                cell, status = futures[future], future.result()
                left = (time.monotonic() - started) / done * (len(waiting) - done)
                state = f"FAILED, see {_beside(cell, 'log')}" if status else "done"
                place = f"{cell.row}, {cell.column}, seed {cell.seed}"
                say(f"[{done}/{len(waiting)}] {place}: {state}; about {left / 60:.0f} min left")
                if status:
                    failed.append(cell)
        except BaseException:
            processes.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def _beside(cell: Cell, kind: str) -> Path:
    return cell.folder.parent / f"{cell.folder.name}.{kind}"


def _run_cell(cell: Cell, config: RunConfig, processes: Processes) -> int:
    """Train one cell in a process of its own, resuming where it stopped; return the exit status."""
    cell.folder.parent.mkdir(parents=True, exist_ok=True)
    given, log = _beside(cell, "yaml"), _beside(cell, "log")
    given.write_text(config.to_yaml(), encoding="utf-8")
    train = ["train", "--config", str(given), "--out", str(cell.folder), "--resume"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with log.open("w", encoding="utf-8") as file:
        command = [sys.executable, "-m", "logit_correction", *train]
        status = processes.run(command, stdout=file, stderr=file, env=environment)
    if status == 0:
        given.unlink()
        log.unlink()
    return status


def results(benchmark: Benchmark, out: Path) -> pd.DataFrame:
    """Return one row per finished run and selection rule."""
    import pandas as pd

    from logit_correction.runs.folder import is_finished, read_report

    rows = []
    for cell in benchmark.cells(out):
        if not is_finished(cell.folder):
            continue
        report = read_report(cell.folder)
        found = report["estimated_minority"] or {}
        for block in ({**report["selection"], "test": report["test"]}, *report["other_selections"]):
            figures = {k: v for k, v in block["test"].items() if not isinstance(v, list | dict)}
            rows.append(
                {
                    "row": cell.row,
                    "column": cell.column,
                    "seed": cell.seed,
                    "selection": block["rule"],
                    "selected_epoch": block["epoch"],
                    "epochs": report["epochs"],
                    **figures,
                    "minority_recall": found.get("recall"),
                    "minority_precision": found.get("precision"),
                    "train_seconds": report["seconds"]["train"],
                    "version": report["environment"]["version"],
                    "commit": report["environment"]["commit"],
                    "machine": report["environment"]["machine"],
                }
            )
    return pd.DataFrame(rows)
