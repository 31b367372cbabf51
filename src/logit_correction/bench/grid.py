"""What a grid of runs is, and reading one from its file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logit_correction.bench.checks import KEYS, check_content, figures_of, slug
from logit_correction.config import RunConfig, merge
from logit_correction.errors import InputError
from logit_correction.files import read_yaml

#: Where the shipped benchmarks lie.
SHIPPED = Path(__file__).parent / "grids"


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
        metric: Figure of the tables, such as group_balanced.
        paper: Row -> column -> the paper's figure in per cent, or its mean and standard deviation.
        figures: The drawings, each with its ``kind`` and options; None draws what suits the columns.
        column_title: What the columns are, such as ``minority ratio, %``; for the axis of figures and the captions.
        text: The file as it was given.
        cell_options: Row -> column -> options of these runs alone, over all others.
        column_metrics: Figure of the tables in columns where it is another than ``metric``.
    """

    name: str
    title: str
    rows: dict[str, dict[str, Any]]
    columns: dict[str, dict[str, Any]]
    common: dict[str, Any]
    seeds: int
    data_seeds: bool
    metric: str
    paper: dict[str, dict[str, float | list[float]]]
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
                    drawn = {"data": {"seed": seed}} if self.data_seeds else {}
                    own = self.cell_options.get(row, {}).get(column, {})
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

    @property
    def has_report(self) -> bool:
        """Whether the run has a report, as far as can be told at a glance."""
        return (self.folder / "report.json").is_file()

    def config(self) -> RunConfig:
        """Return the run's complete config.

        Raises:
            InputError: If an option is wrong.
        """
        from logit_correction.runs.options import complete

        try:
            return complete(RunConfig.from_dict(self.options))
        except InputError as error:
            raise InputError(f"row {self.row!r}, column {self.column!r}: {error}") from error


def shipped() -> dict[str, str]:
    """Return the shipped benchmarks, name -> title."""
    return {path.stem: read_yaml(path)["title"] for path in sorted(SHIPPED.glob("*.yaml"))}


def read(name: str, seeds: int | None = None) -> Benchmark:
    """Read a shipped benchmark by name, or any by its file.

    Raises:
        InputError: If there is no such benchmark or the file is not one.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        path = Path(name)
    elif name in shipped():
        path = SHIPPED / f"{name}.yaml"
    else:
        raise InputError(f"benchmark {name!r} is unknown: take one of {', '.join(shipped())}, or a .yaml file")
    content = read_yaml(path, f"{', '.join(KEYS[:3])}, and may hold {', '.join(KEYS[3:])}")
    try:
        check_content(content)
    except InputError as error:
        raise InputError(f"benchmark {name}: {error}") from error
    return Benchmark(
        name=path.stem,
        title=str(content["title"]),
        rows={str(k): v or {} for k, v in content["rows"].items()},
        columns={str(k): v or {} for k, v in content["columns"].items()},
        common={"selection": "last", **(content.get("common") or {})},  # a table holds runs that one rule has chosen
        seeds=content.get("seeds", 3) if seeds is None else seeds,
        data_seeds=content.get("data_seeds", False),
        metric=content.get("metric", "group_balanced"),
        paper=_by_cell(content.get("paper")),
        figures=figures_of(content.get("figure")),
        column_title=str(content.get("column_title", "")),
        text=path.read_text(encoding="utf-8"),
        cell_options=_by_cell(content.get("cells")),
        column_metrics={str(column): str(name) for column, name in (content.get("column_metrics") or {}).items()},
    )


def _by_cell(rows: dict[Any, dict[Any, Any]] | None) -> dict[str, dict[str, Any]]:
    """Return a mapping of rows to columns with names of text, as YAML takes ``5`` for a number."""
    return {str(row): {str(column): value for column, value in cells.items()} for row, cells in (rows or {}).items()}
