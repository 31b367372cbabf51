"""The tables of a benchmark, for a Markdown file and for the console."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.bench.grid import Benchmark
from logit_correction.bench.results import find, history, results
from logit_correction.pages.console import say, table_of
from logit_correction.training import RULES

#: Accuracies of label x attribute; where nobody named attributes, estimated groups take the place of these.
BY_GROUP = ("group_balanced", "worst_group", "minority", "majority")


@dataclass(frozen=True)
class Table:
    """The table of one selection rule.

    Attributes:
        caption: What the figures are.
        head: Names of the columns.
        lines: The name of each row, the splits whose attributes it read, and its figures.
        best: Line and place of the cells to print in bold.
    """

    caption: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    best: set[tuple[int, int]]

    def cells(self, bold: str) -> list[list[str]]:
        """Return the lines, the best set into ``bold`` in place of its ``%s``."""
        return [
            [bold % cell if (number, place) in self.best else cell for place, cell in enumerate(line)]
            for number, line in enumerate(self.lines)
        ]


def markdown(benchmark: Benchmark, frame: pd.DataFrame, notes: Sequence[str] = ()) -> str:
    """Return the tables of a benchmark, one for each selection rule.

    Args:
        benchmark: The grid.
        frame: What ``results`` returns: one row per finished run and selection rule.
        notes: What to say below, such as runs that contradict each other.
    """
    parts = [f"# {benchmark.title}\n", *(["No run is finished.\n"] if frame.empty else [])]
    for table in tables(benchmark, frame):
        lines = [table.head, *table.cells("**%s**")]
        texts = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        parts.append("\n".join([table.caption + "\n", texts[0], "|" + "---|" * len(table.head), *texts[1:]]) + "\n")
    if not frame.empty:
        known = frame.fillna({"commit": "unknown"})
        values = [sorted(set(known[name].dropna().astype(str))) for name in ("machine", "commit", "version")]
        parts.append("Machine: {}; commit: {}; version {}.\n".format(*map(", ".join, values)))
        if notes:
            parts.append("\n".join(f"- {note}" for note in notes) + "\n")
    return "\n".join(parts)


def write_results(benchmark: Benchmark, out: Path, also: Sequence[Path] = (), seeds: int | None = None) -> None:
    """Write the tables and figures of the finished runs, and show the tables.

    Args:
        benchmark: The grid.
        out: Its folder.
        also: Further folders of the same grid.
        seeds: Number of seeds, where it is not the grid's own.
    """
    from rich.console import Console
    from rich.text import Text

    from logit_correction.bench.figures import figures
    from logit_correction.files import replacing, write_text

    found = find(benchmark, out, also)
    frame = results(found)
    with replacing(out / "table.csv") as temporary:
        frame.to_csv(temporary, index=False)
    write_text(out / "table.md", markdown(benchmark, frame, found.notes))
    changed = "" if seeds is None else f"# Run with --seeds {seeds}.\n"
    write_text(out / "benchmark.yaml", changed + benchmark.text)
    for figure in figures(benchmark, frame, history(found)):
        write_text(out / f"{figure.name}.svg", figure.svg + "\n")
        with replacing(out / f"{figure.name}.png") as temporary:
            temporary.write_bytes(figure.png)
    console = Console()
    for table in tables(benchmark, frame):
        say(console, table.caption)
        shown = table_of("", table.head[:2], table.head[2:])
        for number, line in enumerate(table.lines):
            best = [place for place in range(len(line)) if (number, place) in table.best]
            shown.add_row(*(Text(cell, "bold" if place in best else "") for place, cell in enumerate(line)))
        console.print(shown, "")
    if frame.empty:
        say(console, "No run is finished.")
    say(console, f"tables and figures: {out}")


def tables(benchmark: Benchmark, frame: pd.DataFrame) -> list[Table]:
    """Return a table for each selection rule; where no run is finished, one with the paper's figures if it has any.

    A row whose runs did not ask for a rule has no line in its table.
    """
    rows = dict.fromkeys([*benchmark.rows, *benchmark.paper])
    if frame.empty:
        metrics = {benchmark.metric, *benchmark.column_metrics.values()}
        none = pd.DataFrame({name: [] for name in ("row", "column", "attributes_read", *metrics)})
        return [_table(benchmark, none, rows, f"{_figures(benchmark)} in the paper.")] if benchmark.paper else []
    found, finished = [], set(frame["row"])
    for rule, chosen in frame.groupby("selection", sort=False):
        asked = [name for name in rows if name in set(chosen["row"]) or name not in finished]
        found.append(_table(benchmark, chosen, asked, _caption(benchmark, chosen, str(rule))))
    return found


def _table(benchmark: Benchmark, frame: pd.DataFrame, rows: Iterable[str], caption: str) -> Table:
    grouped = _scores(benchmark, frame)
    mean, deviation = (100 * grouped.mean()).dropna(), 100 * grouped.std()
    top, unnamed = mean.groupby("column").max(), _unnamed(frame)
    head, best = ["", "group information"], set()
    lines = [[name, _information(frame[frame["row"] == name])] for name in rows]
    for column in benchmark.columns:
        head.append(column)
        for number, line in enumerate(lines):
            place = line[0], column
            if place in mean.index:
                if len(benchmark.rows) > 1 and column not in unnamed and mean[place] == top[column]:
                    best.add((number, len(line)))
                spread = deviation[place]
                line.append(f"{mean[place]:.1f}" + (f" ({spread:.1f})" if spread == spread else ""))
            else:
                line.append("")
        if any(column in cells for cells in benchmark.paper.values()):
            head.append("paper")
            for line in lines:
                line.append(_printed(benchmark.paper.get(line[0], {}).get(column)))
    return Table(caption, head, lines, best)


def _scores(benchmark: Benchmark, frame: pd.DataFrame) -> Any:
    """Return the figures of the table, those of each column by its own metric, grouped by row and column."""
    score = _figure(frame, benchmark.metric)
    for column, metric in benchmark.column_metrics.items():
        score = score.where(frame["column"] != column, _figure(frame, metric))
    return score.groupby([frame["row"], frame["column"]])


def _figure(frame: pd.DataFrame, metric: str) -> pd.Series[Any]:
    """Return a figure of all runs; where nobody named attributes, that of the estimated groups."""
    found = pd.to_numeric(frame[metric])
    instead = f"estimated_{metric}"
    return found.fillna(pd.to_numeric(frame[instead])) if metric in BY_GROUP and instead in frame else found


def _unnamed(frame: pd.DataFrame) -> list[str]:
    """Return the columns whose test rows name no attributes."""
    if "worst_group" not in frame:
        return []
    return [str(column) for column, runs in frame.groupby("column", sort=False) if runs["worst_group"].isna().all()]


def _figures(benchmark: Benchmark) -> str:
    others = [f"{column}: {name.replace('_', '-')}" for column, name in benchmark.column_metrics.items()]
    own = f" ({', '.join(others)})" if others else ""
    return f"{benchmark.metric.replace('_', '-').capitalize()} test accuracy{own} in %"


def _caption(benchmark: Benchmark, frame: pd.DataFrame, rule: str) -> str:
    count = _scores(benchmark, frame).count()
    least, most = int(count.min()), int(count.max())
    seeds = f"{most}" if least == most else f"{least} to {most}"
    over = f"mean (standard deviation) over {seeds} seeds" if most > 1 else "one seed"
    epoch = RULES.get(rule, ("", "the epoch that it chose"))[1]
    caption = f"{_figures(benchmark)}, {over}. Selection rule: {rule}, the weights are those of {epoch}."
    if benchmark.column_title:
        caption += f" Columns: {benchmark.column_title}."
    caption += " Group information: the splits whose attributes training or selection read."
    if benchmark.paper:
        caption += " Beside: the figures of the paper."
    if unnamed := _unnamed(frame):
        sources = list(frame["estimated_by"].dropna().unique()) if "estimated_by" in frame else []
        how = f"groups are estimated, by {'; '.join(sources)}, and" if sources else "there are no groups, and"
        caption += f" In {', '.join(unnamed)} the test rows name no attributes: {how} nothing is in bold."
    return caption


def _information(frame: pd.DataFrame) -> str:
    """Name the splits whose attributes the runs of a row read."""
    read = {split for splits in frame["attributes_read"].fillna("") for split in str(splits).split()}
    return ", ".join(split for split in ("train", "valid") if split in read) or ("" if frame.empty else "none")


def _printed(figure: float | Sequence[float] | None) -> str:
    """Return the paper's figure as it is printed there.

    >>> _printed(62.9), _printed([71.25, 3.17]), _printed(None)
    ('62.90', '71.25 (3.17)', '')
    """
    if isinstance(figure, Sequence):
        return f"{figure[0]:.2f} ({figure[1]:.2f})"
    return "" if figure is None else f"{figure:.2f}"
