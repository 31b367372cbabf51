"""The tables of a benchmark as plain data: what Markdown and LaTeX both show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from logit_correction.benchmark import Benchmark

#: Rule -> whose weights it takes.
SELECTIONS = {
    "last": "those of the last epoch",
    "valid_average": "those of the epoch with the best average accuracy on validation rows",
    "valid_worst_class": "those of the epoch with the best worst-class accuracy on validation rows",
    "valid_group_balanced": "those of the epoch with the best group-balanced accuracy on validation rows",
    "valid_worst_group": "those of the epoch with the best worst-group accuracy on validation rows",
}


@dataclass(frozen=True)
class Entry:
    """A cell: the mean in per cent and the standard deviation over the seeds, and the paper's figure."""

    text: str = ""
    best: bool = False
    paper: str = ""


@dataclass(frozen=True)
class Line:
    """A row: its name, the splits whose attributes it read, and its cells."""

    name: str
    information: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Table:
    """The table of one selection rule.

    Attributes:
        caption: What the figures are.
        columns: Their names.
        paper: Whether the paper has figures for each of them.
        lines: The rows.
    """

    caption: str
    columns: tuple[str, ...]
    paper: tuple[bool, ...]
    lines: tuple[Line, ...]


def tables(benchmark: Benchmark, frame: pd.DataFrame) -> list[Table]:
    """Return a table for each selection rule.

    Args:
        benchmark: The grid.
        frame: What ``benchmark.results`` returns: one row per finished run and selection rule.
    """
    if frame.empty:
        if not benchmark.paper:
            return []
        metrics = {benchmark.metric, *benchmark.column_metrics.values()}
        none = pd.DataFrame({name: [] for name in ("row", "column", "attributes_read", *metrics)})
        return [_table(benchmark, none, f"{_figures(benchmark)} in the paper.")]
    of_rules = frame.groupby("selection", sort=False)
    return [_table(benchmark, chosen, _caption(benchmark, chosen, str(rule))) for rule, chosen in of_rules]


def _scores(benchmark: Benchmark, frame: pd.DataFrame) -> Any:
    """Return the figures of the table, those of each column by its own metric, grouped by row and column."""
    score = pd.to_numeric(frame[benchmark.metric])
    for column, metric in benchmark.column_metrics.items():
        score = score.where(frame["column"] != column, pd.to_numeric(frame[metric]))
    return score.groupby([frame["row"], frame["column"]])


def _table(benchmark: Benchmark, frame: pd.DataFrame, caption: str) -> Table:
    grouped = _scores(benchmark, frame)
    mean, deviation = 100 * grouped.mean(), 100 * grouped.std()
    best = mean.groupby("column").max()
    names = [*benchmark.rows, *(name for name in benchmark.paper if name not in benchmark.rows)]
    lines = []
    for name in names:
        entries = []
        for column in benchmark.columns:
            paper = paper_text(benchmark.paper.get(name, {}).get(column))
            value = mean.get((name, column))
            if value is None or value != value:
                entries.append(Entry(paper=paper))
                continue
            spread = deviation[name, column]
            text = f"{value:.1f}" + (f" ({spread:.1f})" if spread == spread else "")
            entries.append(Entry(text, len(benchmark.rows) > 1 and value == best[column], paper))
        lines.append(Line(name, _information(frame[frame["row"] == name]), tuple(entries)))
    paper_columns = {column for cells in benchmark.paper.values() for column in cells}
    has_paper = tuple(column in paper_columns for column in benchmark.columns)
    return Table(caption, tuple(benchmark.columns), has_paper, tuple(lines))


def _figures(benchmark: Benchmark) -> str:
    """Say what the figures are."""
    others = [f"{column}: {name.replace('_', '-')}" for column, name in benchmark.column_metrics.items()]
    own = f" ({', '.join(others)})" if others else ""
    return f"{benchmark.metric.replace('_', '-').capitalize()} test accuracy{own} in %"


def _caption(benchmark: Benchmark, frame: pd.DataFrame, rule: str) -> str:
    count = _scores(benchmark, frame).count()
    least, most = int(count.min()), int(count.max())
    seeds = f"{most}" if least == most else f"{least} to {most}"
    over = f"mean (standard deviation) over {seeds} seeds" if most > 1 else "one seed"
    weights = SELECTIONS.get(rule, "those it chose")
    caption = f"{_figures(benchmark)}, {over}. Selection rule: {rule}, the weights are {weights}."
    columns = f" Columns: {benchmark.column_title}." if benchmark.column_title else ""
    information = " Group information: the splits whose attributes training or selection read."
    paper = " Beside: the figures of the paper." if benchmark.paper else ""
    return caption + columns + information + paper


def _information(frame: pd.DataFrame) -> str:
    """Name the splits whose attributes the runs of a row read."""
    if frame.empty:
        return ""
    read = {split for splits in frame["attributes_read"].fillna("") for split in str(splits).split()}
    return ", ".join(split for split in ("train", "valid") if split in read) or "none"


def paper_text(figure: float | Sequence[float] | None) -> str:
    """Return the paper's figure as it is printed there.

    >>> paper_text(62.9), paper_text([71.25, 3.17]), paper_text(None)
    ('62.90', '71.25 (3.17)', '')
    """
    if figure is None:
        return ""
    if isinstance(figure, Sequence):
        return f"{figure[0]:.2f} ({figure[1]:.2f})"
    return f"{figure:.2f}"
