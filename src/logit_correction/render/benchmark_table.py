"""The table of a benchmark: mean and spread over the seeds, the paper's figure beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from logit_correction.benchmark import Benchmark


def markdown(benchmark: Benchmark, frame: pd.DataFrame) -> str:
    """Return the tables of a benchmark as Markdown, one for each selection rule.

    Args:
        benchmark: The grid.
        frame: What ``benchmark.results`` returns: one row per finished run and selection rule.
    """
    if frame.empty:
        return f"# {benchmark.title}\n\nNo run is finished.\n"
    parts = [f"# {benchmark.title}\n"]
    for rule, chosen in frame.groupby("selection", sort=False):
        parts.append(_table(benchmark, chosen, str(rule)))
    machines = ", ".join(sorted(set(frame["machine"].dropna().astype(str))))
    commits = ", ".join(sorted(set(frame["commit"].fillna("unknown").astype(str))))
    parts.append(f"Machine: {machines}; commit: {commits}; version {frame['version'].iloc[0]}.\n")
    return "\n".join(parts)


def _table(benchmark: Benchmark, frame: pd.DataFrame, rule: str) -> str:
    grouped = frame.groupby(["row", "column"])[benchmark.metric]
    mean, deviation, count = 100 * grouped.mean(), 100 * grouped.std(), grouped.count()
    best = {
        c: mean.xs(c, level="column").max() for c in benchmark.columns if c in mean.index.get_level_values("column")
    }
    least, most = int(count.min()), int(count.max())
    seeds = f"{most}" if least == most else f"{least} to {most}"
    lines = [
        f"{benchmark.metric.replace('_', '-').capitalize()} test accuracy in %, mean (standard deviation) "
        f"over {seeds} seeds; weights: {rule}.\n",
        "| | " + " | ".join(benchmark.columns) + " |",
        "|---|" + "---|" * len(benchmark.columns),
    ]
    for row in benchmark.rows:
        cells = []
        for column in benchmark.columns:
            if (row, column) not in mean.index:
                cells.append("")
                continue
            value, spread = mean[row, column], deviation[row, column]
            text = f"{value:.1f}" + (f" ({spread:.1f})" if spread == spread else "")
            cells.append(f"**{text}**" if len(benchmark.rows) > 1 and value == best[column] else text)
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    for row, cells_of in benchmark.paper.items():
        lines.append(f"| the paper's {row} | " + " | ".join(str(cells_of.get(c, "")) for c in benchmark.columns) + " |")
    return "\n".join(lines) + "\n"
