"""A grid of runs, rows by columns by seeds, as a YAML file describes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from logit_correction.errors import InputError
from logit_correction.formatting import suggest_name
from logit_correction.registry import parse_names
from logit_correction.runs.options import RunConfig, complete_config, merge_options
from logit_correction.yaml_files import read_yaml_file

if TYPE_CHECKING:
    from logit_correction_lab.monitor import TrainingMonitor

#: Where the shipped grids lie.
SHIPPED = Path(__file__).parent / "grids"

#: Options of a run's monitor, beside those of the run.
FOLLOWED = ("watch", "also_select")

#: Keys of a grid that rows of one's own may bring along.
ADDED = ("rows", "cells", "tuning", "paper")

#: Kinds of figures.
FIGURES = ("accuracy", "bars", "curves", "margins", "none")


@dataclass(frozen=True)
class Benchmark:
    """A grid: every row in every column with every seed; but for ``name`` and ``text`` the keys of its file.

    Attributes:
        name: Its name.
        title: One line.
        rows: Name -> options of a run, such as ``{"method": {"name": "LC"}}``.
        columns: Name -> options of a run that differ between columns.
        common: Options of every run.
        cell_options: Row -> column -> options of these runs alone, over all others; the key ``cells``.
        seeds: Number of seeds.
        first_seed: The first of them; the others follow it.
        data_seeds: Whether the data are drawn anew with each seed too.
        metric: Accuracy of the tables, such as group_balanced.
        column_metrics: The same of columns where it is another.
        column_title: What the columns are, such as ``minority ratio, %``.
        paper: Row -> column -> the paper's figure in per cent, or its mean and standard deviation.
        paper_title: Head of the columns with these figures.
        figure: Figures, each a ``kind``, or a mapping with it and options; None draws what suits the columns.
        reference: Row from which paired differences are taken; the best row of each column if empty.
        tuning: Row -> one line on how its options were chosen, and with how many trials.
        text: The file as it was given.
    """

    name: str
    title: str
    rows: dict[str, dict[str, Any]]
    columns: dict[str, dict[str, Any]]
    common: dict[str, Any] = field(default_factory=dict)
    cell_options: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    seeds: int = 3
    first_seed: int = 0
    data_seeds: bool = False
    metric: str = "group_balanced"
    column_metrics: dict[str, str] = field(default_factory=dict)
    column_title: str = ""
    paper: dict[str, dict[str, float | list[float]]] = field(default_factory=dict)
    paper_title: str = "paper"
    figure: Any = None
    reference: str = ""
    tuning: dict[str, str] = field(default_factory=dict)
    text: str = ""

    @property
    def figures(self) -> list[dict[str, Any]]:
        """What ``figure`` asks for, each a ``kind`` and options; empty where it leaves that to the columns."""
        asked = self.figure if isinstance(self.figure, list) else [] if self.figure is None else [self.figure]
        return [one if isinstance(one, dict) else {"kind": one} for one in asked]

    def make_cells(self, out: Path) -> Iterator[Cell]:
        """Yield the runs, seed by seed, so that a stopped benchmark has whole rows early."""
        for seed in range(self.first_seed, self.first_seed + self.seeds):
            for column, variant in self.columns.items():
                for row, options in self.rows.items():
                    own = self.cell_options.get(row, {}).get(column, {})
                    drawn = {"data": {"seed": seed}} if self.data_seeds else {}
                    # A table holds runs that one rule has chosen; one more is shown beside it.
                    merged: dict[str, Any] = {"selection": "last", "also_select": ["valid_average"]}
                    for change in (self.common, variant, options, own, {"seed": seed, **drawn}):
                        merged = merge_options(merged, change)
                    yield Cell(
                        row,
                        column,
                        seed,
                        merged,
                        out / make_folder_name(row) / make_folder_name(column) / f"seed-{seed}",
                    )


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    row: str
    column: str
    seed: int
    options: dict[str, Any]
    folder: Path

    def build_config(self) -> RunConfig:
        """Return the run's complete config; ``InputError`` that names the cell if an option is wrong."""
        try:
            return complete_config({name: value for name, value in self.options.items() if name not in FOLLOWED})
        except InputError as error:
            raise InputError(f"row {self.row!r}, column {self.column!r}: {error}") from error

    def build_monitor(self) -> TrainingMonitor | None:
        """Return what follows the run's training; None if nothing is to be followed."""
        from logit_correction_lab.monitor import TrainingMonitor

        asked = {name: parse_names(self.options[name]) for name in FOLLOWED if self.options.get(name)}
        try:
            return TrainingMonitor(self.folder.absolute(), **asked) if asked else None
        except InputError as error:
            raise InputError(f"row {self.row!r}, column {self.column!r}: {error}") from error

    def __str__(self) -> str:
        return f"{self.row}, {self.column}, seed {self.seed}"


def read_shipped_titles() -> dict[str, str]:
    """Return the shipped grids, name -> title."""
    return {path.stem: read_yaml_file(path)["title"] for path in sorted(SHIPPED.glob("*.yaml"))}


def make_folder_name(name: str) -> str:
    """Return a name that may be a folder's.

    >>> make_folder_name("LC, no MixUp"), make_folder_name("LC+"), make_folder_name("0.5 %")
    ('lc-no-mixup', 'lc-plus', '0.5')
    """
    kept = "".join(c if c.isalnum() or c == "." else "-" for c in name.lower().replace("+", " plus "))
    return "-".join(part for part in kept.split("-") if part.strip("."))


def read_grid(name: str, seeds: int | None = None, rows: Path | None = None, reference: str | None = None) -> Benchmark:
    """Read a grid.

    Args:
        name: A shipped grid, or the path of a YAML file.
        seeds: Number of seeds in place of its own.
        rows: File of further rows: a mapping from names to options of a run, as ``rows`` of a grid, or one of the keys
            ``ADDED``. They stand in ``text`` too.
        reference: Row from which differences are taken, in place of its own.

    Raises:
        InputError: There is no such grid, or a file is not one, or a further row is in the grid already.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        path = Path(name)
    elif name in read_shipped_titles():
        path = SHIPPED / f"{name}.yaml"
    else:
        raise InputError(
            f"benchmark {name!r} is unknown: take one of {', '.join(read_shipped_titles())}, or a .yaml file"
        )
    known = [one.name.replace("cell_options", "cells") for one in fields(Benchmark) if one.name not in ("name", "text")]
    content = read_yaml_file(path, f"a grid: {', '.join(known)}")
    text = path.read_text("utf-8")
    _check_keys(content, known, f"benchmark {name}")
    try:
        content = _name_by_text(content)
        if missing := [key for key in ("rows", "columns") if not content[key]]:
            raise InputError(f"benchmark {name}: {' and '.join(missing)} are missing: give each a name and its options")
        if rows is not None or reference is not None:
            content = content if rows is None else _add_rows(content, rows, name)
            content = content if reference is None else content | {"reference": reference}
            text = _write_grid(content, path, rows)
        given = content if seeds is None else content | {"seeds": seeds}
        given["cell_options"] = given.pop("cells")
        grid = Benchmark(path.stem, **given, text=text)
        _check(grid, f"benchmark {name}")
        return grid
    except (TypeError, AttributeError) as error:
        raise InputError(f"benchmark {name}: it is no grid of rows and columns ({error})") from error


def _check_keys(content: Mapping[Any, Any], known: Iterable[str], where: str) -> None:
    """Raise ``InputError`` if a key is unknown."""
    for key in content:
        if key not in known:
            raise InputError(f"{where}: key {key!r} is unknown{suggest_name(str(key), known)}")


def _name_by_text(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a grid whose rows and columns are named by texts, with all keys that hold such names."""
    named = dict(content)
    for key in ("rows", "columns", "cells", "paper", "column_metrics", "tuning"):
        named[key] = _with_texts(named.get(key) or {}, 2 if key in ("cells", "paper") else 1)
    return named


def _add_rows(content: dict[str, Any], file: Path, name: str) -> dict[str, Any]:
    """Return the content of a grid with the rows of another file; ``InputError`` if one is there already."""
    added = read_yaml_file(file, "rows of a grid, such as `mine: {method: {name: my_method.Mine}}`")
    if "rows" in added:
        _check_keys(added, ADDED, str(file))
    else:
        added = {"rows": added}
    added = _name_by_text(added)
    for row, options in added["rows"].items():
        if row in content["rows"] and content["rows"][row] != options:
            raise InputError(f"{file}: benchmark {name} has a row {row!r} already: give yours another name")
    for key in ("cells", "tuning", "paper"):
        for row in added[key]:
            if row not in added["rows"]:
                raise InputError(f"{file}: row {row!r} of {key} is unknown{suggest_name(row, added['rows'])}")
    return content | {key: content[key] | added[key] for key in ADDED}


def _write_grid(content: Mapping[str, Any], path: Path, rows: Path | None) -> str:
    """Return a changed grid as the text of a file that can be run in its place."""
    kept = {key: value for key, value in content.items() if value != {}}
    origin = f"# {path.stem}" + ("" if rows is None else f", with the rows of {rows.name}") + "\n"
    return origin + yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def _check(grid: Benchmark, where: str) -> None:
    """Raise ``InputError`` for what would be ignored, or be found wrong only when all runs are trained."""
    from logit_correction.evaluation import report  # which `list` does without

    def known(what: str, given: Iterable[Any], names: Iterable[str]) -> None:
        for one in given:
            if one not in list(names):
                hint = suggest_name(str(one), names) or f": take one of {', '.join(names)}"
                raise InputError(f"{where}: {what} {one!r} is unknown{hint}")

    tables = [grid.rows, grid.columns, {"common": grid.common}, *grid.cell_options.values()]
    for name, own in [item for table in tables for item in table.items()]:
        if not isinstance(own, dict):
            raise InputError(f"{where}: {name!r} is {own!r}: give options of a run, such as {{method: {{name: LC}}}}")
    figures = grid.figures
    known("figure", [one.get("kind") for one in figures], FIGURES)
    of_kind = {"curves": ("kind", "metric"), "margins": ("kind", "margin", "over")}  # the last is of version 0.1
    for asked in figures:
        known(f"key of figure {asked['kind']},", asked, of_kind.get(asked["kind"], ("kind",)))
    if "accuracy" in [one["kind"] for one in figures]:
        try:
            [float(column.replace("%", "")) for column in grid.columns]
        except ValueError as error:
            raise InputError(f"{where}: figure accuracy needs columns that are numbers ({error}): take bars") from error
    known("margin of figure", [one["margin"] for one in figures if "margin" in one], ("least", "mean"))
    of_figures = [one["metric"] for one in figures if "metric" in one]
    accuracies = [name for name, one in report.get_metrics(report.GroupReport).items() if one.in_tables]
    known("metric", [grid.metric, *grid.column_metrics.values(), *of_figures], accuracies)
    known("row of cells", grid.cell_options, grid.rows)
    known("row of tuning", grid.tuning, grid.rows)
    known("reference", [grid.reference] if grid.reference else [], grid.rows)
    for row, line in grid.tuning.items():
        if not isinstance(line, str):
            raise InputError(f"{where}: tuning of {row!r} is {line!r}: say in one line how its options were chosen")
    for key, given in (("column_metrics", [grid.column_metrics]), ("cells", grid.cell_options.values()),
                       ("paper", grid.paper.values())):  # fmt: skip
        known(f"column of {key}", [column for columns in given for column in columns], grid.columns)
    for figure in [one for columns in grid.paper.values() for one in columns.values()]:
        parts = figure if isinstance(figure, list) and len(figure) == 2 else [figure]
        if not all(isinstance(one, int | float) for one in parts):
            raise InputError(f"{where}: paper has {figure!r}: give a figure in %, or [mean, standard deviation]")
    if not isinstance(grid.seeds, int) or isinstance(grid.seeds, bool) or grid.seeds < 1:
        raise InputError(f"{where}: seeds is {grid.seeds!r}: give how many there are, such as 3")
    if not isinstance(grid.first_seed, int) or isinstance(grid.first_seed, bool) or grid.first_seed < 0:
        raise InputError(f"{where}: first_seed is {grid.first_seed!r}: give a whole number from 0 on")
    for key, names in (("rows", grid.rows), ("columns", grid.columns)):
        folders: dict[str, str] = {}
        for one in names:
            if (other := folders.setdefault(make_folder_name(one), one)) != one:
                raise InputError(
                    f"{where}: {key} {other!r} and {one!r} share the folder {make_folder_name(one)!r}: rename one"
                )


def _with_texts(table: Mapping[Any, Any], deep: int) -> dict[str, Any]:
    """Return a table with names of text, as YAML takes ``5`` for a number, and nothing as an empty mapping."""
    return {str(name): {} if one is None else _with_texts(one, deep - 1) if deep > 1 and isinstance(one, dict) else one
            for name, one in table.items()}  # fmt: skip
