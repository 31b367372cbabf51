"""The tables of a benchmark, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.bench.grid import Benchmark
from logit_correction.bench.results import history, results
from logit_correction.training import RULES


def markdown(benchmark: Benchmark, frame: pd.DataFrame) -> str:
    """Return the tables of a benchmark, one for each selection rule; without runs one of the paper's figures.

    Args:
        benchmark: The grid.
        frame: What ``results`` returns: one row per finished run and selection rule. A row whose runs did not ask for
            a rule has no line in its table.
    """
    rows, parts = list(dict.fromkeys([*benchmark.rows, *benchmark.paper])), [f"# {benchmark.title}"]
    if frame.empty:
        parts.append("No run is finished.")
        if benchmark.paper:
            parts.append(f"{_measure(benchmark)} in the paper.")
            parts.append(_table(benchmark, frame, rows))
        return "\n\n".join(parts) + "\n"
    for rule, chosen in frame.groupby("selection", sort=False):
        known = set(chosen["row"])
        asked = [name for name in rows if name in known or name not in set(frame["row"])]
        parts += [_caption(benchmark, chosen, str(rule)), _table(benchmark, chosen, asked)]
    known_commits = frame.fillna({"commit": "unknown"})
    values = [sorted(set(known_commits[name].dropna().astype(str))) for name in ("machine", "commit", "version")]
    parts.append("Machine: {}; commit: {}; version {}.".format(*map(", ".join, values)))
    return "\n\n".join(parts) + "\n"


def write_results(benchmark: Benchmark, out: Path, seeds: int | None = None) -> None:
    """Write the tables and figures of the finished runs, and show the tables.

    Args:
        benchmark: The grid.
        out: Its folder.
        seeds: Number of seeds, where it is not the grid's own.
    """
    from rich.console import Console
    from rich.markdown import Markdown

    from logit_correction.bench.figures import figures
    from logit_correction.files import replacing, write_text

    frame = results(benchmark, out)
    with replacing(out / "table.csv") as temporary:
        frame.to_csv(temporary, index=False)
    text = markdown(benchmark, frame)
    write_text(out / "table.md", text)
    changed = "" if seeds is None else f"# Run with --seeds {seeds}.\n"
    write_text(out / "benchmark.yaml", changed + benchmark.text)
    for figure in figures(benchmark, frame, history(benchmark, out)):
        write_text(out / f"{figure.name}.svg", figure.svg + "\n")
        with replacing(out / f"{figure.name}.png") as temporary:
            temporary.write_bytes(figure.png)
    console = Console()
    console.print(Markdown(text))
    console.print(f"tables and figures: {out}", markup=False, highlight=False, soft_wrap=True)


def _table(benchmark: Benchmark, frame: pd.DataFrame, rows: Iterable[str]) -> str:
    """Return a line a row: the splits whose attributes it read, and for each column our figure and the paper's."""
    mean, deviation, _ = _scores(benchmark, frame)
    lines = {name: [name, _information(frame[frame["row"] == name]) if len(frame) else ""] for name in rows}
    head = ["", "group information"]
    for column in benchmark.columns:
        head.append(column)
        own = mean.xs(column, level="column") if column in mean.index.get_level_values("column") else pd.Series()
        for name, line in lines.items():
            if name not in own:
                line.append("")
                continue
            spread = deviation[name, column]
            shown = f"{own[name]:.1f}" + (f" ({spread:.1f})" if spread == spread else "")
            line.append(f"**{shown}**" if len(benchmark.rows) > 1 and own[name] == own.max() else shown)
        if any(column in cells for cells in benchmark.paper.values()):
            head.append("paper")
            for name, line in lines.items():
                line.append(_printed(benchmark.paper.get(name, {}).get(column)))
    texts = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in (head, *lines.values())]
    return "\n".join([texts[0], "|" + "---|" * len(head), *texts[1:]])


def _scores(benchmark: Benchmark, frame: pd.DataFrame) -> tuple[Any, Any, Any]:
    """Return mean, standard deviation and number of the figures in %, each column's by its own metric."""
    if frame.empty:
        none = pd.Series(dtype=float, index=pd.MultiIndex.from_arrays([[], []], names=["row", "column"]))
        return none, none, none
    score = 100 * pd.to_numeric(frame[benchmark.metric])
    for column, metric in benchmark.column_metrics.items():
        score = score.where(frame["column"] != column, 100 * pd.to_numeric(frame[metric]))
    grouped = score.groupby([frame["row"], frame["column"]])
    return grouped.mean().dropna(), grouped.std(), grouped.count()


def _measure(benchmark: Benchmark) -> str:
    others = [f"{column}: {name.replace('_', '-')}" for column, name in benchmark.column_metrics.items()]
    own = f" ({', '.join(others)})" if others else ""
    return f"{benchmark.metric.replace('_', '-').capitalize()} test accuracy{own} in %"


def _caption(benchmark: Benchmark, frame: pd.DataFrame, rule: str) -> str:
    count = _scores(benchmark, frame)[2]
    least, most = int(count.min()), int(count.max())
    seeds = f"{most}" if least == most else f"{least} to {most}"
    over = f"mean (standard deviation) over {seeds} seeds" if most > 1 else "one seed"
    epoch = RULES.get(rule, ("", "the epoch that it chose"))[1]
    caption = f"{_measure(benchmark)}, {over}. Selection rule: {rule}, the weights are those of {epoch}."
    if benchmark.column_title:
        caption += f" Columns: {benchmark.column_title}."
    caption += " Group information: the splits whose attributes training or selection read."
    return caption + (" Beside: the figures of the paper." if benchmark.paper else "")


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
