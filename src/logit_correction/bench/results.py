"""What came out of a grid: the figures of its finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.bench.grid import Benchmark, Cell

if TYPE_CHECKING:
    import pandas as pd

#: Columns of the results that tell of the machine and the time, not of what came out.
OF_THE_MACHINE = ("train_seconds", "version", "commit", "machine")


def finished(benchmark: Benchmark, out: Path) -> list[Cell]:
    """Return the finished runs of a grid in its folder."""
    from logit_correction.runs.folder import is_finished

    return [cell for cell in benchmark.cells(out) if is_finished(cell.folder)]


def results(benchmark: Benchmark, out: Path) -> pd.DataFrame:
    """Return one row per finished run and selection rule."""
    import pandas as pd

    from logit_correction.runs.folder import read_report

    return pd.DataFrame([row for cell in finished(benchmark, out) for row in _rows(cell, read_report(cell.folder))])


def _rows(cell: Cell, report: dict[str, Any]) -> list[dict[str, Any]]:
    minority, evidence = report["estimated_minority"] or {}, report.get("evidence") or {}
    of_training = "attribute" in report["labels_read"]["train"]
    rows = []
    for block in ({**report["selection"], "test": report["test"]}, *report["other_selections"]):
        splits = ["train"] * of_training + ["valid"] * ("attribute" in block["labels_read"])
        rows.append(
            {
                "row": cell.row,
                "column": cell.column,
                "seed": cell.seed,
                "selection": block["rule"],
                "selected_epoch": block["epoch"],
                "epochs": report["epochs"],
                "method": report["method"],
                "attributes_read": " ".join(splits),
                **{k: v for k, v in block["test"].items() if k != "estimated" and not isinstance(v, list | dict)},
                "minority_recall": minority.get("recall"),
                "minority_precision": minority.get("precision"),
                "verdict": evidence.get("verdict"),
                "view": evidence.get("view"),
                "train_seconds": report["seconds"]["train"],
                **{name: report["environment"][name] for name in OF_THE_MACHINE[1:]},
            }
        )
    return rows


def history(benchmark: Benchmark, out: Path) -> pd.DataFrame:
    """Return one row per finished run and epoch with the figures that ``watch`` recorded in ``metrics.csv``.

    Returns:
        Frame with the columns row, column, seed and epoch (counted over all stages), and those of the figures; empty
        where no run has recorded any.
    """
    import pandas as pd

    from logit_correction.runs.folder import METRICS

    frames = []
    for cell in finished(benchmark, out):
        if not (cell.folder / METRICS).is_file():
            continue
        table = pd.read_csv(cell.folder / METRICS)
        watched = table.filter(regex="^(test|train)_").dropna(how="all").reset_index(drop=True)
        if len(watched):
            frames.append(watched.assign(row=cell.row, column=cell.column, seed=cell.seed, epoch=watched.index + 1))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
