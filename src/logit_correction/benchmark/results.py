"""What came out of a grid, as frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.benchmark.grid import Benchmark, Cell
from logit_correction.benchmark.places import Found, find

if TYPE_CHECKING:
    import pandas as pd

#: Columns of the results that tell of the machine and the time, not of what came out.
OF_THE_MACHINE = ("train_seconds", "version", "commit", "machine")


def results(benchmark: Benchmark, out: Path, also: Sequence[Path] = (), found: Found | None = None) -> pd.DataFrame:
    """Return one row per finished run and selection rule.

    Args:
        benchmark: The grid.
        out: Folder of the runs' folders.
        also: Further folders of the same grid.
        found: Where the runs lie, if that is known already.
    """
    import pandas as pd

    from logit_correction.runs.folder import read_report

    found = found or find(benchmark, out, also)
    rows: list[dict[str, Any]] = []
    for cell in benchmark.cells(out):
        folder = found.of(cell)
        if folder is not None:
            rows += _rows(cell, read_report(folder))
    return pd.DataFrame(rows)


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
                **{k: v for k, v in block["test"].items() if not isinstance(v, list | dict)},
                "minority_recall": minority.get("recall"),
                "minority_precision": minority.get("precision"),
                "verdict": evidence.get("verdict"),
                "view": evidence.get("view"),
                "train_seconds": report["seconds"]["train"],
                "version": report["environment"]["version"],
                "commit": report["environment"]["commit"],
                "machine": report["environment"]["machine"],
            }
        )
    return rows


def history(benchmark: Benchmark, out: Path, also: Sequence[Path] = (), found: Found | None = None) -> pd.DataFrame:
    """Return one row per finished run and epoch with the figures that ``watch`` recorded in ``metrics.csv``.

    Args:
        benchmark: The grid.
        out: Folder of the runs' folders.
        also: Further folders of the same grid.
        found: Where the runs lie, if that is known already.

    Returns:
        Frame with the columns row, column, seed and epoch (counted over all stages), and those of the figures; empty
        where no run has recorded any.
    """
    import pandas as pd

    from logit_correction.runs.folder import METRICS

    found, frames = found or find(benchmark, out, also), []
    for cell in benchmark.cells(out):
        folder = found.of(cell)
        if folder is None or not (folder / METRICS).is_file():
            continue
        table = pd.read_csv(folder / METRICS)
        names = [name for name in table.columns if str(name).startswith(("test_", "train_"))]
        rows = table[table[names].notna().any(axis=1)][names].reset_index(drop=True)
        if len(rows):
            frames.append(rows.assign(row=cell.row, column=cell.column, seed=cell.seed, epoch=rows.index + 1))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
