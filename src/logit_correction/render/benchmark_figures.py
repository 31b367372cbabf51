"""The figures of a benchmark: accuracy over the columns, curves and margins over training, bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from logit_correction.render import canvas
from logit_correction.render.benchmark_painters import WIDTH, bar_size, paint_bars, paint_curves, paint_lines
from logit_correction.render.plots import METHOD_COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from logit_correction.benchmark import Benchmark

#: Height of the axes in inches where it does not depend on the number of bars.
_HEIGHT = 2.3

_SPARE = ("#b03a5b", "#6b8e23", "#3f4a5a", "#a0522d", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fa3")


@dataclass(frozen=True)
class Drawing:
    """A figure: its kind, the column that it is of (None for all of them), and itself in two forms."""

    kind: str
    column: str | None
    svg: str
    png: bytes


def figures(benchmark: Benchmark, frame: pd.DataFrame, history: pd.DataFrame) -> list[Drawing]:
    """Draw the figures that the benchmark asks for; what there are no figures for is left out.

    Args:
        benchmark: The grid.
        frame: What ``benchmark.results`` returns; the runs' own selection rule is drawn.
        history: What ``benchmark.history`` returns.
    """
    if frame.empty:
        return []
    wanted = benchmark.figures
    if wanted is None:
        numeric = _numbers(list(benchmark.columns)) is not None and len(benchmark.columns) > 1
        wanted = ({"kind": "accuracy" if numeric else "bars"},)
    own = frame[frame["selection"] == frame["selection"].iloc[0]]
    drawings: list[Drawing] = []
    for options in wanted:
        kind = options["kind"]
        if kind in ("accuracy", "bars"):
            found = _of_columns(benchmark, own, kind, options.get("metric", benchmark.metric))
        elif kind == "curves":
            found = _over_training(benchmark, own, history, kind, f"test_{options['metric']}")
        else:
            name = kind if options["margin"] == "least" else "margins-mean"
            over_training = options["over"] == "training"
            draw = _over_training if over_training else _margin_bars
            found = draw(benchmark, own, history, name, _RATIOS[options["margin"]])
        drawings += found
    return drawings


def row_colors(benchmark: Benchmark, frame: pd.DataFrame) -> dict[str, str]:
    """Return a colour for each row: its method's, or one that is still free if another row has that.

    Args:
        benchmark: The grid.
        frame: Results, which name the method of each row.
    """
    methods = dict(zip(frame["row"], frame["method"], strict=True))
    # A row that is named as its method goes before others of that method.
    ordered = sorted(benchmark.rows, key=lambda row: row != methods.get(row))
    colors: dict[str, str] = {}
    for row in ordered:
        color = METHOD_COLORS.get(methods.get(row, ""), "")
        if color and color not in colors.values():
            colors[row] = color
    free = [color for color in _SPARE if color not in colors.values()]
    for row in benchmark.rows:
        if row not in colors:
            colors[row] = free.pop(0) if free else canvas.MUTED
    return {row: colors[row] for row in benchmark.rows}


def _numbers(columns: list[str]) -> list[float] | None:
    """The columns as numbers, if they are, such as ``0.5`` and ``5 %``."""
    try:
        return [float(column.replace("%", "")) for column in columns]
    except ValueError:
        return None


def _drawing(
    kind: str, column: str | None, size: tuple[float, float], description: str, paint: Callable[[Axes], None]
) -> Drawing:
    return Drawing(kind, column, canvas.draw(*size, description, paint), canvas.draw_png(*size, description, paint))


def _summary(frame: pd.DataFrame, value: str, by: list[str]) -> pd.DataFrame:
    """Mean and standard deviation over the seeds; the latter is 0 for a single one."""
    return frame.groupby(by)[value].agg(["mean", "std"]).fillna({"std": 0.0}).dropna(subset=["mean"])


def _of_columns(benchmark: Benchmark, frame: pd.DataFrame, kind: str, metric: str) -> list[Drawing]:
    if frame[metric].isna().all():
        return []
    summary = 100 * _summary(frame, metric, ["row", "column"])
    title = f"{metric.replace('_', '-').capitalize()} test accuracy, %"
    colors = row_colors(benchmark, frame)
    numbers = _numbers(list(benchmark.columns))
    if kind == "accuracy" and numbers is not None:
        paint: Callable[[Axes], None] = partial(paint_lines, benchmark, summary, colors, numbers, title)
        size = (WIDTH, _HEIGHT)
    else:
        if len(benchmark.columns) == 1:  # each bar has its name beside it
            methods = dict(zip(frame["row"], frame["method"], strict=True))
            colors = {row: METHOD_COLORS.get(methods.get(row, ""), canvas.MUTED) for row in benchmark.rows}
        paint = partial(paint_bars, benchmark, summary, colors, title, 100.0)
        size = bar_size(benchmark)
    return [_drawing(kind, None, size, f"{title}: {benchmark.title}", paint)]


def _over_training(
    benchmark: Benchmark, frame: pd.DataFrame, history: pd.DataFrame, kind: str, value: str
) -> list[Drawing]:
    """A figure for each column: a line a row over the epochs, a band of one standard deviation around it."""
    if history.empty or value not in history or history[value].isna().all():
        return []
    colors = row_colors(benchmark, frame)
    drawings = []
    for column in benchmark.columns:
        of_column = history[history["column"] == column]
        if of_column.empty or of_column[value].isna().all():
            continue
        title = _TITLES.get(value) or f"{value[5:].replace('_', '-').capitalize()} test accuracy, %"
        scale = 1 if value in _TITLES else 100
        summary = scale * _summary(of_column, value, ["row", "epoch"])
        even = 1.0 if value in _TITLES else None
        paint = partial(paint_curves, benchmark, summary, colors, title, even)
        name = column if len(benchmark.columns) > 1 else None
        heading = f"{title}: {benchmark.title}" + (f", {name}" if name else "")
        drawings.append(_drawing(kind, name, (WIDTH, _HEIGHT), heading, paint))
    return drawings


_RATIOS = {"least": "train_margin_ratio", "mean": "train_mean_margin_ratio"}
_TITLES = {
    "train_margin_ratio": "Majority margin / minority margin (least of a group)",
    "train_mean_margin_ratio": "Majority margin / minority margin (mean of a group)",
}


def _margin_bars(
    benchmark: Benchmark, frame: pd.DataFrame, history: pd.DataFrame, kind: str, value: str
) -> list[Drawing]:
    """A bar a row and column: the ratio in the last epoch in which there is one."""
    if history.empty or value not in history:
        return []
    ends = history.dropna(subset=[value]).sort_values("epoch").groupby(["row", "column", "seed"], as_index=False).last()
    if ends.empty:
        return []
    title = f"{_TITLES[value]}, last epoch"
    summary = _summary(ends, value, ["row", "column"])
    paint = partial(paint_bars, benchmark, summary, row_colors(benchmark, frame), title, None)
    return [_drawing(kind, None, bar_size(benchmark), f"{title}: {benchmark.title}", paint)]
