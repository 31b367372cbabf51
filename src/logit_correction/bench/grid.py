"""A grid of runs, rows by columns by seeds, as a YAML file describes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logit_correction.config import RunConfig, merge
from logit_correction.errors import InputError, did_you_mean
from logit_correction.files import read_yaml

#: Where the shipped grids lie.
SHIPPED = Path(__file__).parent / "grids"

#: What the file of a grid may hold; the first three it must.
KEYS = (
    "title", "rows", "columns", "common", "cells", "seeds", "data_seeds", "metric", "column_metrics", "paper", "figure",
    "column_title",
)  # fmt: skip

#: The accuracies that a table may show, and the kinds of figures.
METRICS = ("average", "group_balanced", "worst_group", "worst_class", "minority", "majority")
FIGURES = ("accuracy", "bars", "curves", "margins")


@dataclass(frozen=True)
class Benchmark:
    """A grid: every row in every column with every seed.

    Attributes:
        name: Its name.
        title: One line.
        rows: Name -> options of a run, such as ``{"method": {"name": "LC"}}``.
        columns: Name -> options of a run that differ between columns.
        common: Options of every run.
        seeds: Number of seeds, 0..seeds-1.
        data_seeds: Whether the data are drawn anew with each seed too.
        metric: Accuracy of the tables, such as group_balanced.
        paper: Row -> column -> the paper's figure in per cent, or its mean and standard deviation.
        figures: The figures, each with its ``kind`` and options; None draws what suits the columns.
        column_title: What the columns are, such as ``minority ratio, %``.
        text: The file as it was given.
        cell_options: Row -> column -> options of these runs alone, over all others.
        column_metrics: Accuracy of the tables in columns where it is another than ``metric``.
    """

    name: str
    title: str
    rows: dict[str, dict[str, Any]]
    columns: dict[str, dict[str, Any]]
    common: dict[str, Any]
    seeds: int = 3
    data_seeds: bool = False
    metric: str = "group_balanced"
    paper: dict[str, dict[str, float | list[float]]] = field(default_factory=dict)
    figures: tuple[dict[str, str], ...] | None = None
    column_title: str = ""
    text: str = ""
    cell_options: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    column_metrics: dict[str, str] = field(default_factory=dict)

    def cells(self, out: Path) -> Iterator[Cell]:
        """Yield the runs, seed by seed, so that a stopped benchmark has whole rows early."""
        for seed in range(self.seeds):
            for column, variant in self.columns.items():
                for row, options in self.rows.items():
                    own = self.cell_options.get(row, {}).get(column, {})
                    drawn = {"data": {"seed": seed}} if self.data_seeds else {}
                    merged = self.common
                    for change in (variant, options, own, {"seed": seed, **drawn}):
                        merged = merge(merged, change)
                    yield Cell(row, column, seed, merged, out / slug(row) / slug(column) / f"seed-{seed}")


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    row: str
    column: str
    seed: int
    options: dict[str, Any]
    folder: Path

    def config(self) -> RunConfig:
        """Return the run's complete config.

        Raises:
            InputError: If an option is wrong.
        """
        from logit_correction.runs.options import complete

        try:
            return complete(self.options)
        except InputError as error:
            raise InputError(f"row {self.row!r}, column {self.column!r}: {error}") from error

    def __str__(self) -> str:
        return f"{self.row}, {self.column}, seed {self.seed}"


def shipped() -> dict[str, str]:
    """Return the shipped grids, name -> title."""
    return {path.stem: read_yaml(path)["title"] for path in sorted(SHIPPED.glob("*.yaml"))}


def slug(name: str) -> str:
    """Return a name that may be a folder's.

    >>> slug("LC, no MixUp"), slug("LC+"), slug("0.5 %")
    ('lc-no-mixup', 'lc-plus', '0.5')
    """
    kept = "".join(c if c.isalnum() or c == "." else "-" for c in name.lower().replace("+", " plus "))
    return "-".join(part for part in kept.split("-") if part.strip("."))


def read(name: str, seeds: int | None = None) -> Benchmark:
    """Read a shipped grid by name, or any by its file.

    Raises:
        InputError: If there is no such grid or the file is not one.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        path = Path(name)
    elif name in shipped():
        path = SHIPPED / f"{name}.yaml"
    else:
        raise InputError(f"benchmark {name!r} is unknown: take one of {', '.join(shipped())}, or a .yaml file")
    content = read_yaml(path, f"{', '.join(KEYS[:3])}, and may hold {', '.join(KEYS[3:])}")
    try:
        return _parsed(path, content, seeds)
    except InputError as error:
        raise InputError(f"benchmark {name}: {error}") from error


def _parsed(path: Path, content: dict[str, Any], seeds: int | None) -> Benchmark:
    for key in content:
        _check_known("key", key, KEYS)
    for key in KEYS[:3]:
        if not content.get(key):
            raise InputError(f"{key} is missing")
    rows, columns, cells, paper = (_two_deep(key, content.get(key)) for key in ("rows", "columns", "cells", "paper"))
    for key, names in (("rows", rows), ("columns", columns)):
        folders = [slug(name) for name in names]
        if "" in folders or len({*folders}) < len(folders):
            raise InputError(f"{key}: each name needs a folder of its own, but theirs are {', '.join(folders)}")
    metrics = {**_mapping("column_metrics", content.get("column_metrics")), "": content.get("metric", "group_balanced")}
    for table in (cells, paper, {"": metrics}):
        for column in (column for of_row in table.values() for column in of_row):
            _check_known("column", column, ["", *columns])
    for row in cells:
        _check_known("cells: row", row, rows)
    for metric in metrics.values():
        _check_known("metric", metric, METRICS)
    return Benchmark(
        name=path.stem,
        title=str(content["title"]),
        rows=rows,
        columns=columns,
        # A table holds runs that one rule has chosen.
        common={"selection": "last", **_mapping("common", content.get("common"))},
        seeds=seeds or int(content.get("seeds", 3)),
        data_seeds=bool(content.get("data_seeds")),
        metric=metrics.pop(""),
        paper=paper,
        figures=figures_of(content.get("figure")),
        column_title=str(content.get("column_title", "")),
        text=path.read_text(encoding="utf-8"),
        cell_options=cells,
        column_metrics=metrics,
    )


def _mapping(key: str, value: Any) -> dict[str, Any]:
    """Return a mapping with names of text, as YAML takes ``5`` for a number; nothing is an empty one."""
    if not isinstance(value, dict | None):
        raise InputError(f"{key} must be a mapping, such as `LC: {{...}}`, but is {value!r}")
    return {str(name): one for name, one in (value or {}).items()}


def _two_deep(key: str, value: Any) -> dict[str, dict[str, Any]]:
    return {name: _mapping(f"{key}: {name}", one) for name, one in _mapping(key, value).items()}


def _check_known(what: str, name: str, known: Collection[str]) -> None:
    """Raise ``InputError`` unless a name is among those that there are."""
    if name not in known:
        raise InputError(f"{what} {name!r} is unknown{did_you_mean(str(name), known)}: there are {', '.join(known)}")


def figures_of(given: Any) -> tuple[dict[str, str], ...] | None:
    """Return the figures that the key ``figure`` asks for, each as a mapping; None where it is left out.

    >>> figures_of(["bars", {"kind": "curves", "metric": "average"}])
    ({'kind': 'bars'}, {'kind': 'curves', 'metric': 'average'})
    """
    if given is None:
        return None
    listed = [] if given == "none" else given if isinstance(given, list) else [given]
    found = tuple({"kind": one} if isinstance(one, str) else _mapping("figure", one) for one in listed)
    for one in found:
        _check_known("figure", one.get("kind", ""), FIGURES)
    return found
