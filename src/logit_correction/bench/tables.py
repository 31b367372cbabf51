"""The tables of a benchmark as Markdown and as LaTeX, with the rules of booktabs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from logit_correction.bench.checks import BY_GROUP
from logit_correction.training import RULES

if TYPE_CHECKING:
    from logit_correction.bench import Benchmark

_ESCAPES = {character: f"\\{character}" for character in "{}$&#%_"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


@dataclass(frozen=True)
class Table:
    """The table of one selection rule.

    Attributes:
        caption: What the figures are.
        columns: Whether the paper has figures for each of the columns, which have one of ours alone otherwise.
        lines: Row -> the splits whose attributes it read, and the cells.
        best: Rows and places in their lines, the name at 0, of the cells to print in bold.
    """

    caption: str
    columns: Mapping[str, bool]
    lines: Mapping[str, Sequence[str]]
    best: set[tuple[str, int]]

    def format_rows(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        """Return the lines with their names, escaped, the best set into ``bold`` in place of its ``%s``."""
        shown = [[escape(cell) for cell in (name, *cells)] for name, cells in self.lines.items()]
        for line, name in zip(shown, self.lines, strict=True):
            for place in range(1, len(line)):
                if (name, place) in self.best:
                    line[place] = bold % line[place]
        return shown


def markdown(benchmark: Benchmark, frame: pd.DataFrame, notes: Sequence[str] = ()) -> str:
    """Return the tables of a benchmark, one for each selection rule.

    Args:
        benchmark: The grid.
        frame: What ``benchmark.results`` returns: one row per finished run and selection rule.
        notes: What to say below, such as runs that contradict each other.
    """
    parts = [f"# {benchmark.title}\n", *(["No run is finished.\n"] if frame.empty else [])]
    for table in _tables(benchmark, frame):
        names = [name for column, paper in table.columns.items() for name in ([column, "paper"] if paper else [column])]
        head = ["", "group information", *names]
        lines = [head, *table.format_rows(str, "**%s**")]
        texts = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        parts.append("\n".join([table.caption + "\n", texts[0], "|" + "---|" * len(head), *texts[1:]]) + "\n")
    if not frame.empty:
        known = frame.fillna({"commit": "unknown"})
        values = [sorted(set(known[name].dropna().astype(str))) for name in ("machine", "commit", "version")]
        parts.append("Machine: {}; commit: {}; version {}.\n".format(*map(", ".join, values)))
        if notes:
            parts.append("\n".join(f"- {note}" for note in notes) + "\n")
    return "\n".join(parts)


def latex(benchmark: Benchmark, frame: pd.DataFrame) -> str:
    r"""Return a ``table`` environment for each selection rule; needs ``\usepackage{booktabs}``.

    Args:
        benchmark: The grid.
        frame: What ``benchmark.results`` returns: one row per finished run and selection rule.
    """
    head = "% Needs \\usepackage{booktabs}.\n" + ("% No run is finished.\n" if frame.empty else "")
    return head + "\n".join(_latex(benchmark.title, table) for table in _tables(benchmark, frame))


def escape(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    >>> print(escape("LC_1 & 5 %"))
    LC\_1 \& 5 \%
    """
    return "".join(_ESCAPES.get(character, character) for character in text)


def _latex(title: str, table: Table) -> str:
    names, rules, below = ["", "group information"], [], ["", ""]
    for column, paper in table.columns.items():
        place = len(below) + 1
        below += ["ours", "paper"] if paper else ["ours"]
        names.append(rf"\multicolumn{{2}}{{c}}{{{escape(column)}}}" if paper else escape(column))
        rules += [rf"\cmidrule(lr){{{place}-{place + 1}}}"] if paper else []
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(title)}. {escape(table.caption)}}}",
        rf"\begin{{tabular}}{{ll{'r' * (len(below) - 2)}}}",
        r"\toprule",
        " & ".join(names) + r" \\",
        *([" ".join(rules), " & ".join(below) + r" \\"] if rules else []),
        r"\midrule",
        *(" & ".join(cells) + r" \\" for cells in table.format_rows(escape, r"\textbf{%s}")),
    ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _tables(benchmark: Benchmark, frame: pd.DataFrame) -> list[Table]:
    """Return a table for each selection rule; where no run is finished, one with the paper's figures if it has any.

    A row whose runs did not ask for a rule has no line in its table.
    """
    rows = dict.fromkeys([*benchmark.rows, *benchmark.paper])
    if frame.empty:
        metrics = {benchmark.metric, *benchmark.column_metrics.values()}
        none = pd.DataFrame({name: [] for name in ("row", "column", "attributes_read", *metrics)})
        return [_table(benchmark, none, rows, f"{_figures(benchmark)} in the paper.")] if benchmark.paper else []
    tables, finished = [], set(frame["row"])
    for rule, chosen in frame.groupby("selection", sort=False):
        asked = [name for name in rows if name in set(chosen["row"]) or name not in finished]
        tables.append(_table(benchmark, chosen, asked, _caption(benchmark, chosen, str(rule))))
    return tables


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


def _table(benchmark: Benchmark, frame: pd.DataFrame, rows: Iterable[str], caption: str) -> Table:
    grouped = _scores(benchmark, frame)
    mean, deviation = (100 * grouped.mean()).dropna(), 100 * grouped.std()
    top = mean.groupby("column").max()
    columns = {column: any(column in cells for cells in benchmark.paper.values()) for column in benchmark.columns}
    lines, best, unnamed = {}, set(), _unnamed(frame)
    for name in rows:
        cells = lines[name] = [_information(frame[frame["row"] == name])]
        for column, paper in columns.items():
            place = name, column
            if place in mean.index:
                if len(benchmark.rows) > 1 and column not in unnamed and mean[place] == top[column]:
                    best.add((name, len(cells) + 1))
                spread = deviation[place]
                cells.append(f"{mean[place]:.1f}" + (f" ({spread:.1f})" if spread == spread else ""))
            else:
                cells.append("")
            if paper:
                cells.append(_printed(benchmark.paper.get(name, {}).get(column)))
    return Table(caption, columns, lines, best)


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
    epoch = RULES.get(rule, ("", "the epoch that it chose"))[1]
    caption = f"{_figures(benchmark)}, {over}. Selection rule: {rule}, the weights are those of {epoch}."
    columns = f" Columns: {benchmark.column_title}." if benchmark.column_title else ""
    information = " Group information: the splits whose attributes training or selection read."
    paper = " Beside: the figures of the paper." if benchmark.paper else ""
    return caption + columns + information + paper + _format_unnamed(frame)


def _format_unnamed(frame: pd.DataFrame) -> str:
    """Say which columns are judged by estimated groups, or by none."""
    unnamed = _unnamed(frame)
    if not unnamed:
        return ""
    sources = list(frame["estimated_by"].dropna().unique()) if "estimated_by" in frame else []
    how = f"groups are estimated, by {'; '.join(sources)}, and" if sources else "there are no groups, and"
    return f" In {', '.join(unnamed)} the test rows name no attributes: {how} nothing is in bold."


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
