"""A grid of runs, every row in every column with every seed, read from a YAML file.

A comparison of methods takes many runs whose options mostly agree. A grid names what differs: rows (methods), columns
(data sets or settings) and seeds. It is checked as a whole before the first run is trained.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from logit_correction.errors import InputError
from logit_correction.formatting import suggest_name
from logit_correction.registry import Options, parse_name_list
from logit_correction.runs.options import RunConfig, complete_config, merge_options
from logit_correction.yaml_files import read_yaml_file

if TYPE_CHECKING:
    from logit_correction_lab.monitor import TrainingMonitor

#: Folder of the grids that ship with the laboratory.
SHIPPED_FOLDER = Path(__file__).parent / "grids"

#: Options that a grid adds to those of a run; ``TrainingMonitor`` takes them.
MONITOR_OPTIONS = ("watch", "also_select")

#: Options of a run that the grid does not give. A table holds runs that one rule has chosen; one further rule is shown.
DEFAULT_OPTIONS: Options = {"selection": "last", "also_select": ["valid_average"]}

#: Keys of a grid that a file of further rows may hold.
ROW_KEYS = ("rows", "cells", "tuning", "paper")

#: Kind of figure -> its options. ``over`` was an option of version 0.1.
FIGURE_OPTIONS = {"accuracy": (), "bars": (), "curves": ("metric",), "margins": ("margin", "over"), "none": ()}


@dataclass(frozen=True)
class Benchmark:
    """A grid: every row in every column with every seed. All fields except ``name`` and ``text`` are keys of its file.

    Attributes:
        name: Its name.
        title: One line.
        rows: Name -> options of a run, such as ``{"method": {"name": "LC"}}``.
        columns: Name -> options of a run that differ between columns.
        common: Options of every run.
        cells: Row -> column -> options of these runs alone, over all others.
        seeds: Number of seeds, at least 1.
        first_seed: The first of them; the others follow it.
        data_seeds: Whether the data are drawn anew with each seed too.
        metric: Accuracy of the tables, such as group_balanced.
        column_metrics: Column -> its metric, where that is another one.
        column_title: What the columns are, such as ``minority ratio, %``.
        paper: Row -> column -> the paper's accuracy in per cent, or its mean and standard deviation.
        paper_title: Head of the columns with these figures.
        figure: Figures, each a ``kind``, or a mapping with it and options; None draws what suits the columns.
        reference: Row from which paired differences are taken; the best row of each column if empty.
        tuning: Row -> one line on how its options were chosen, and with how many trials.
        text: The text of its file.
    """

    name: str
    title: str
    rows: dict[str, Options]
    columns: dict[str, Options]
    common: Options = field(default_factory=dict)
    cells: dict[str, dict[str, Options]] = field(default_factory=dict)
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
    def figures(self) -> list[Options]:
        """The figures that ``figure`` lists, each a ``kind`` and options; empty without any."""
        if self.figure is None:
            return []
        figures = self.figure if isinstance(self.figure, list) else [self.figure]
        return [figure if isinstance(figure, dict) else {"kind": figure} for figure in figures]

    def get_column_metric(self, column: str) -> str:
        """Return the metric by which the runs of a column are compared."""
        return self.column_metrics.get(column, self.metric)

    def make_cells(self, out_dir: Path) -> Iterator[Cell]:
        """Yield the runs, whose folders are in ``out_dir``, seed by seed: a stopped grid has whole rows early."""
        for seed in range(self.first_seed, self.first_seed + self.seeds):
            seed_options = {"seed": seed, "data": {"seed": seed}} if self.data_seeds else {"seed": seed}
            for column, column_options in self.columns.items():
                for row, row_options in self.rows.items():
                    cell_options = self.cells.get(row, {}).get(column, {})
                    changes = (self.common, column_options, row_options, cell_options, seed_options)
                    folder = out_dir / make_folder_name(row) / make_folder_name(column) / f"seed-{seed}"
                    yield Cell(row, column, seed, reduce(merge_options, changes, DEFAULT_OPTIONS), folder)


@dataclass(frozen=True)
class Cell:
    """One run of a grid.

    Attributes:
        row: Name of its row.
        column: Name of its column.
        seed: Its seed.
        options: Options of the run, and those of ``MONITOR_OPTIONS``.
        folder: Folder of the run.
    """

    row: str
    column: str
    seed: int
    options: Options
    folder: Path

    def build_config(self) -> RunConfig:
        """Return the run's complete config; ``InputError`` that names the cell if an option is wrong."""
        with self._name_cell_in_errors():
            return complete_config({name: value for name, value in self.options.items() if name not in MONITOR_OPTIONS})

    def build_monitor(self) -> TrainingMonitor | None:
        """Return the ``after_epoch`` of the run's training; None if none of ``MONITOR_OPTIONS`` is given."""
        from logit_correction_lab.monitor import TrainingMonitor

        options = {name: parse_name_list(self.options[name]) for name in MONITOR_OPTIONS if self.options.get(name)}
        with self._name_cell_in_errors():
            return TrainingMonitor(self.folder.absolute(), **options) if options else None

    @contextmanager
    def _name_cell_in_errors(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            raise InputError(f"row {self.row!r}, column {self.column!r}: {error}") from error

    def __str__(self) -> str:
        return f"{self.row}, {self.column}, seed {self.seed}"


def read_shipped_titles() -> dict[str, str]:
    """Return the shipped grids, name -> title."""
    return {path.stem: read_yaml_file(path)["title"] for path in sorted(SHIPPED_FOLDER.glob("*.yaml"))}


def make_folder_name(name: str) -> str:
    """Return the name of a row or column in a form that may be a folder's name.

    >>> make_folder_name("LC, no MixUp"), make_folder_name("LC+"), make_folder_name("0.5 %")
    ('lc-no-mixup', 'lc-plus', '0.5')
    """
    letters = "".join(c if c.isalnum() or c == "." else "-" for c in name.lower().replace("+", " plus "))
    return "-".join(part for part in letters.split("-") if part.strip("."))


def read_grid(
    name: str, seeds: int | None = None, rows_file: Path | None = None, reference: str | None = None
) -> Benchmark:
    """Read a grid and check it.

    Args:
        name: A shipped grid, or the path of a YAML file.
        seeds: Number of seeds in place of its own.
        rows_file: File of further rows: a mapping from names to options of a run, as ``rows`` of a grid, or the keys
            ``ROW_KEYS``. They are added to ``text`` too.
        reference: Row from which differences are taken, in place of its own.

    Raises:
        InputError: The grid is unknown, a file is not a grid, or the grid has one of the further rows.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        path = Path(name)
    else:
        path = SHIPPED_FOLDER / f"{name}.yaml"
        titles = read_shipped_titles()
        if name not in titles:
            raise InputError(f"benchmark {name!r} is unknown: take one of {', '.join(titles)}, or a .yaml file")
    keys = [key.name for key in fields(Benchmark) if key.name not in ("name", "text")]
    content = read_yaml_file(path, f"a grid: {', '.join(keys)}")
    text = path.read_text("utf-8")
    try:
        _check_names("key", content, keys)
        content = _convert_names_to_texts(content)
        if rows_file is not None:
            content = _merge_rows_of_file(content, rows_file)
        if reference is not None:
            content["reference"] = reference
        if rows_file is not None or reference is not None:
            text = _write_grid(content, path, rows_file)
        if seeds is not None:
            content["seeds"] = int(seeds)  # the command line gives a type of its own
        grid = Benchmark(path.stem, **content, text=text)
        _check_grid(grid)
        return grid
    except InputError as error:
        raise InputError(f"benchmark {name}: {error}") from error
    except (TypeError, AttributeError) as error:
        raise InputError(f"benchmark {name}: it is not a grid of rows and columns ({error})") from error


def _convert_names_to_texts(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a grid with all names of rows and columns as texts; YAML reads ``5`` as a number."""
    converted = dict(content)
    for key in ("rows", "columns", "cells", "paper", "column_metrics", "tuning"):
        table = _convert_keys_to_texts(content.get(key) or {})
        if key in ("cells", "paper"):
            table = {row: _convert_keys_to_texts(columns) for row, columns in table.items()}
        converted[key] = table
    return converted


def _convert_keys_to_texts(table: Mapping[Any, Any]) -> dict[str, Any]:
    for name in table:
        if isinstance(name, bool):  # two of them would be one row
            raise InputError(f"YAML reads a name such as yes, no, on or off as {name}: quote it, such as 'no'")
    return {str(name): {} if value is None else value for name, value in table.items()}


def _merge_rows_of_file(content: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the content of a grid with the rows of ``file``; a row with equal options may be in both."""
    added = read_yaml_file(file, "rows of a grid, such as `mine: {method: {name: my_method.Mine}}`")
    if "rows" in added:
        _check_names(f"{file}: key", added, ROW_KEYS)
    else:
        added = {"rows": added}
    added = _convert_names_to_texts(added)
    rows = added["rows"]
    for row, options in rows.items():
        if content["rows"].get(row, options) != options:
            raise InputError(f"it has a row {row!r} already: give that of {file} another name")
    for key in ("cells", "tuning", "paper"):
        _check_names(f"{file}: row of {key}", added[key], rows)
    return content | {key: content[key] | added[key] for key in ROW_KEYS}


def _write_grid(content: Mapping[str, Any], path: Path, rows: Path | None) -> str:
    """Return a changed grid as the text of a file that can be run in its place."""
    filled = {key: value for key, value in content.items() if value != {}}
    origin = f"# {path.stem}" + ("" if rows is None else f", with the rows of {rows.name}") + "\n"
    return origin + yaml.safe_dump(filled, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def _check_grid(grid: Benchmark) -> None:
    """Refuse what would be ignored, or be found wrong only after all runs are trained."""
    tables: list[dict[str, Options]] = [grid.rows, grid.columns, {"common": grid.common}, *grid.cells.values()]
    for table in tables:
        for name, options in table.items():
            if not isinstance(options, dict):
                raise InputError(f"{name!r} is {options!r}: give options of a run, such as {{method: {{name: LC}}}}")
    _validate_figure_options(grid)
    _check_all_names(grid)
    _check_values(grid)
    for key, names in (("rows", grid.rows), ("columns", grid.columns)):
        if not names:
            raise InputError(f"{key} are missing: give each a name and its options")
        folders: dict[str, str] = {}
        for name in names:
            folder = make_folder_name(name)
            other = folders.setdefault(folder, name)
            if other != name:
                raise InputError(f"{key} {other!r} and {name!r} share the folder {folder!r}: rename one")


def _check_names(kind: str, names: Iterable[Any], known_names: Collection[str]) -> None:
    for name in names:
        if name not in known_names:
            hint = suggest_name(str(name), known_names) or f": take one of {', '.join(known_names)}"
            raise InputError(f"{kind} {name!r} is unknown{hint}")


def _validate_figure_options(grid: Benchmark) -> None:
    for figure in grid.figures:
        kind = figure.get("kind")
        _check_names("figure", [kind], FIGURE_OPTIONS)
        _check_names(f"key of figure {kind},", figure, ("kind", *FIGURE_OPTIONS[str(kind)]))
        _check_names("margin of figure", [figure.get("margin", "least")], ("least", "mean"))
        if kind == "accuracy":
            try:
                [float(column.replace("%", "")) for column in grid.columns]
            except ValueError as error:
                raise InputError(f"figure accuracy needs columns that are numbers ({error}): take bars") from error


def _check_all_names(grid: Benchmark) -> None:
    from logit_correction.evaluation import report  # not needed by `benchmark list`

    accuracies = [name for name, metric in report.get_metrics(report.GroupReport).items() if metric.in_tables]
    metrics = [grid.metric, *grid.column_metrics.values()]
    metrics += [figure["metric"] for figure in grid.figures if "metric" in figure]
    _check_names("metric", metrics, accuracies)
    _check_names("row of cells", grid.cells, grid.rows)
    _check_names("row of tuning", grid.tuning, grid.rows)
    _check_names("reference", [grid.reference] if grid.reference else [], grid.rows)
    _check_names("column of column_metrics", grid.column_metrics, grid.columns)
    for key, rows in (("cells", grid.cells), ("paper", grid.paper)):
        for columns in rows.values():
            _check_names(f"column of {key}", columns, grid.columns)


def _check_values(grid: Benchmark) -> None:
    tuning: Mapping[str, Any] = grid.tuning
    for row, line in tuning.items():
        if not isinstance(line, str):
            raise InputError(f"tuning of {row!r} is {line!r}: write in one line how its options were chosen")
    for columns in grid.paper.values():
        for figure in columns.values():
            numbers = figure if isinstance(figure, list) and len(figure) == 2 else [figure]
            if not all(isinstance(number, int | float) for number in numbers):
                raise InputError(f"paper has {figure!r}: give a figure in %, or [mean, standard deviation]")
    if type(grid.seeds) is not int or grid.seeds < 1:
        raise InputError(f"seeds is {grid.seeds!r}: give how many there are, such as 3")
    if type(grid.first_seed) is not int or grid.first_seed < 0:
        raise InputError(f"first_seed is {grid.first_seed!r}: give a whole number from 0 on")
