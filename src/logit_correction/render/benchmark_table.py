"""The tables of a benchmark as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pandas as pd

from logit_correction.render.benchmark_summary import Entry, Table, tables

if TYPE_CHECKING:
    from logit_correction.benchmark import Benchmark


def markdown(benchmark: Benchmark, frame: pd.DataFrame, notes: Sequence[str] = ()) -> str:
    """Return the tables of a benchmark, one for each selection rule.

    Args:
        benchmark: The grid.
        frame: What ``benchmark.results`` returns: one row per finished run and selection rule.
        notes: What to say below, such as runs that contradict each other.
    """
    if frame.empty:
        return "\n".join([f"# {benchmark.title}\n\nNo run is finished.\n", *map(_markdown, tables(benchmark, frame))])
    parts = [f"# {benchmark.title}\n", *(_markdown(table) for table in tables(benchmark, frame))]
    machines = ", ".join(sorted(set(frame["machine"].dropna().astype(str))))
    commits = ", ".join(sorted(set(frame["commit"].fillna("unknown").astype(str))))
    versions = ", ".join(sorted(set(frame["version"].astype(str))))
    parts.append(f"Machine: {machines}; commit: {commits}; version {versions}.\n")
    if notes:
        parts.append("\n".join(f"- {note}" for note in notes) + "\n")
    return "\n".join(parts)


def _markdown(table: Table) -> str:
    headings = chain.from_iterable(
        (column, "paper") if paper else (column,) for column, paper in zip(table.columns, table.paper, strict=True)
    )
    head = ["", "group information", *headings]
    lines = [table.caption + "\n", _line(head), "|" + "---|" * len(head)]
    for line in table.lines:
        cells = chain.from_iterable(
            (_shown(entry), entry.paper) if paper else (_shown(entry),)
            for entry, paper in zip(line.entries, table.paper, strict=True)
        )
        lines.append(_line([line.name, line.information, *cells]))
    return "\n".join(lines) + "\n"


def _shown(entry: Entry) -> str:
    return f"**{entry.text}**" if entry.best else entry.text


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
