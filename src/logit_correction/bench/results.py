"""What came out of a grid: where its finished runs lie, in its own folder and in others, and their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.bench.grid import Benchmark, Cell
from logit_correction.config import PLACE_OF_DATA, PLACE_OF_TRAINING, RunConfig
from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: Options that may differ between machines, since nothing that comes out of a run does by them.
_OF_THE_PLACE = (*(f"data.{name}" for name in PLACE_OF_DATA), *PLACE_OF_TRAINING)

#: Columns of the results that tell of the machine and the time, not of what came out.
OF_THE_MACHINE = ("train_seconds", "version", "commit", "machine")


@dataclass
class Found:
    """The finished runs of a grid.

    Attributes:
        cells: Each with the folder that its run was found in; the grid's own goes before others.
        notes: What a person should know: runs of other options, runs that contradict each other.
    """

    cells: list[tuple[Cell, Path]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find(
    benchmark: Benchmark, out: Path, also: Sequence[Path] = (), configs: Mapping[Path, RunConfig] | None = None
) -> Found:
    """Look for the finished runs of a grid.

    Args:
        benchmark: The grid.
        out: Its own folder.
        also: Further folders of the same grid; their runs count if their options are the same but for the place.
        configs: Complete configs by folder, where they are known already.

    Raises:
        InputError: A further folder is missing, or is the grid's own.
    """
    from logit_correction.runs.folder import difference, is_finished, read_report

    def figures(folder: Path) -> list[Any]:
        report = read_report(folder)
        return [report["test"], [other["test"] for other in report["other_selections"]]]

    for folder in also:
        if not folder.is_dir() or folder.resolve() == out.resolve():
            raise InputError(f"--also {folder}: give another folder than --out, which `benchmark` has written")
    found = Found()
    for cell in benchmark.cells(out):
        counted = [cell.folder] if is_finished(cell.folder) else []
        for place in (folder / cell.folder.relative_to(out) for folder in also):
            if not is_finished(place):
                continue
            try:
                changed = difference(place, (configs or {}).get(cell.folder) or cell.config(), ignore=_OF_THE_PLACE)
            except InputError as error:
                changed = str(error)
            if changed is not None:
                found.notes.append(f"not counted: {changed}")
                continue
            if counted and figures(place) != figures(counted[0]):
                found.notes.append(
                    f"{counted[0]} and {place} hold the same run with different figures; the first one counts"
                )
            counted.append(place)
        found.cells += [(cell, folder) for folder in counted[:1]]
    return found


def results(found: Found) -> pd.DataFrame:
    """Return one row per finished run and selection rule."""
    import pandas as pd

    from logit_correction.pages.console import reports_of

    reports = reports_of([folder for _, folder in found.cells])
    rows = [row for (cell, _), report in zip(found.cells, reports, strict=True) for row in _rows(cell, report)]
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
                **{k: v for k, v in block["test"].items() if k != "estimated" and not isinstance(v, list | dict)},
                **_estimated(block["test"]),
                "minority_recall": minority.get("recall"),
                "minority_precision": minority.get("precision"),
                "verdict": evidence.get("verdict"),
                "view": evidence.get("view"),
                "train_seconds": report["seconds"]["train"],
                **{name: report["environment"][name] for name in OF_THE_MACHINE[1:]},
            }
        )
    return rows


def _estimated(test: dict[str, Any]) -> dict[str, Any]:
    """Return the figures by estimated group, of test rows whose attributes nobody named."""
    from logit_correction.pages.compare import flat_figures, names_attributes

    if names_attributes(test) or not test.get("estimated"):
        return {}
    figures = {name: value for name, value in flat_figures(test).items() if name.startswith("estimated_")}
    return figures | {"estimated_by": test["estimated"]["source"]}


def history(found: Found) -> pd.DataFrame:
    """Return one row per finished run and epoch with the figures that ``watch`` recorded in ``metrics.csv``.

    Returns:
        Frame with the columns row, column, seed and epoch (counted over all stages), and those of the figures; empty
        where no run has recorded any.
    """
    import pandas as pd

    from logit_correction.pages.compare import RunFolder
    from logit_correction.runs.folder import METRICS

    frames = []
    for cell, folder in found.cells:
        if not (folder / METRICS).is_file():
            continue
        table = RunFolder.read(folder).metrics
        names = [name for name in table.columns if str(name).startswith(("test_", "train_"))]
        rows = table[table[names].notna().any(axis=1)][names].reset_index(drop=True)
        if len(rows):
            frames.append(rows.assign(row=cell.row, column=cell.column, seed=cell.seed, epoch=rows.index + 1))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
