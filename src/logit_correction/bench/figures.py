"""The figures of a benchmark: accuracy over the columns, curves and margins over training, bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from logit_correction.bench.grid import Benchmark, slug
from logit_correction.pages import plots
from logit_correction.pages.plots import METHOD_COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Width of the axes in inches, and their height where it does not depend on the number of bars.
_WIDTH, _HEIGHT = 3.6, 2.3

_MARKERS, _DASHES = "osD^vPX*<>", ("-", "--", ":", "-.")
_SPARE = ("#b03a5b", "#6b8e23", "#3f4a5a", "#a0522d", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fa3")

_RATIOS = {"least": "train_margin_ratio", "mean": "train_mean_margin_ratio"}
_TITLES = {name: f"Majority margin / minority margin ({kind} of a group)" for kind, name in _RATIOS.items()}


@dataclass(frozen=True)
class Drawing:
    """A figure: the name of its file without the ending, and itself in two forms."""

    name: str
    svg: str
    png: bytes


def figures(benchmark: Benchmark, frame: pd.DataFrame, history: pd.DataFrame) -> Iterator[Drawing]:
    """Draw the figures that the benchmark asks for; what there are no figures for is left out.

    Args:
        benchmark: The grid.
        frame: What ``results`` returns; the runs' own selection rule is drawn.
        history: What ``history`` returns.
    """
    if frame.empty:
        return
    frame = frame[frame["selection"] == frame["selection"].iloc[0]]
    numbers, columns, colors = _numbers(benchmark), list(benchmark.columns), row_colors(benchmark, frame)
    bars_height = max(0.6, len(columns) * (0.2 * len(benchmark.rows) + 0.24))

    def drawn(name: str, title: str, height: float, paint: Callable[[Axes], None], column: str = "") -> Drawing:
        def titled(axes: Axes) -> None:
            paint(axes)
            axes.set_axisbelow(True)
            axes.spines["left"].set_visible(False)
            axes.set_title(title)

        description = f"{title}: {benchmark.title}" + (f", {column}" if column else "")
        given = (_WIDTH, height, description, titled)
        return Drawing(name + (f"-{slug(column)}" if column else ""), plots.draw(*given), plots.draw_png(*given))

    usual = ({"kind": "accuracy" if numbers is not None and len(columns) > 1 else "bars"},)
    for options in usual if benchmark.figures is None else benchmark.figures:
        kind = options["kind"]
        if kind in ("accuracy", "bars"):
            value = options.get("metric", benchmark.metric)
            if frame[value].isna().all():
                continue
            title, summary = _title(value), 100 * _summary(frame, value, ["row", "column"])
            if kind == "accuracy" and numbers is not None:
                yield drawn(kind, title, _HEIGHT, partial(_lines, benchmark, summary, colors, numbers))
                continue
            own = colors
            if len(columns) == 1:  # each bar has its name beside it
                methods = dict(zip(frame["row"], frame["method"], strict=True))
                own = {row: METHOD_COLORS.get(methods.get(row, ""), plots.MUTED) for row in benchmark.rows}
            yield drawn(kind, title, bars_height, partial(_bars, benchmark, summary, own, 100.0))
            continue
        is_ratio = kind == "margins"
        value = _RATIOS[options["margin"]] if is_ratio else f"test_{options['metric']}"
        name = "margins-mean" if options.get("margin") == "mean" else kind
        if value not in history or history[value].isna().all():
            continue
        known = history.dropna(subset=[value])
        if options.get("over") == "end":  # the ratio in the last epoch in which there is one
            ends = known.sort_values("epoch").groupby(["row", "column", "seed"], as_index=False).last()
            paint = partial(_bars, benchmark, _summary(ends, value, ["row", "column"]), colors, None)
            yield drawn(name, f"{_TITLES[value]}, last epoch", bars_height, paint)
            continue
        values = np.log(known[value].where(known[value] > 0)) if is_ratio else 100 * known[value]
        summary = _summary(known.assign(**{value: values}), value, ["column", "row", "epoch"])
        title = _TITLES.get(value) or _title(value.removeprefix("test_"))
        for column in [one for one in columns if one in summary.index.get_level_values("column")]:
            paint = partial(_curves, summary.loc[(column,), :], colors, is_ratio)
            yield drawn(name, title, _HEIGHT, paint, column if len(columns) > 1 else "")


def _title(metric: str) -> str:
    return f"{metric.replace('_', '-').capitalize()} test accuracy, %"


def row_colors(benchmark: Benchmark, frame: pd.DataFrame) -> dict[str, str]:
    """Return a colour for each row: its method's, or one that is still free if another row has that.

    Args:
        benchmark: The grid.
        frame: Results, which name the method of each row.
    """
    methods = dict(zip(frame["row"], frame["method"], strict=True))
    colors: dict[str, str] = {}
    # A row that is named as its method goes before others of that method.
    for row in sorted(benchmark.rows, key=lambda row: row != methods.get(row)):
        color = METHOD_COLORS.get(methods.get(row, ""))
        if color and color not in colors.values():
            colors[row] = color
    free = [color for color in _SPARE if color not in colors.values()]
    for row in benchmark.rows:
        if row not in colors:
            colors[row] = free.pop(0) if free else plots.MUTED
    return {row: colors[row] for row in benchmark.rows}


def _numbers(benchmark: Benchmark) -> list[float] | None:
    """Return the columns as numbers, if they are, such as ``0.5`` and ``5 %``."""
    try:
        return [float(column.replace("%", "")) for column in benchmark.columns]
    except ValueError:
        return None


def _summary(frame: pd.DataFrame, value: str, by: list[str]) -> pd.DataFrame:
    """Return mean and standard deviation over the seeds; the latter is 0 for a single one."""
    return frame.groupby(by)[value].agg(["mean", "std"]).fillna({"std": 0.0}).dropna(subset=["mean"])


def _lines(
    benchmark: Benchmark, summary: pd.DataFrame, colors: dict[str, str], numbers: list[float], axes: Axes
) -> None:
    """Paint a line a row over the columns, error bars one standard deviation each way."""
    logarithmic = min(numbers) > 0 and max(numbers) >= 5 * min(numbers)
    place = dict(zip(benchmark.columns, numbers, strict=True))
    rows = [row for row in benchmark.rows if row in summary.index.get_level_values("row")]
    width = max(numbers) - min(numbers)
    for order, row in enumerate(rows):
        of_row = summary.loc[row].reindex([c for c in benchmark.columns if (row, c) in summary.index])
        aside = order - (len(rows) - 1) / 2  # so that error bars do not hide each other
        x = np.array([place[column] for column in of_row.index])
        axes.errorbar(
            x * 1.012**aside if logarithmic else x + 0.006 * aside * width,
            of_row["mean"].to_numpy(float),
            yerr=of_row["std"].to_numpy(float),
            color=colors[row],
            marker=_MARKERS[order % len(_MARKERS)],
            markersize=4,
            linewidth=1.4,
            elinewidth=0.9,
            capsize=1.5,
            label=plots.shorten(row, 34),
        )
    if logarithmic:
        axes.set_xscale("log")
    axes.set_xticks(numbers, list(benchmark.columns))
    axes.minorticks_off()
    axes.set_xlabel(benchmark.column_title)
    axes.grid(axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=2.2)


def _curves(summary: pd.DataFrame, colors: dict[str, str], is_ratio: bool, axes: Axes) -> None:
    """Paint a line a row over the epochs, a band of one standard deviation around it; of ratios, by logarithms."""
    for order, (row, color) in enumerate(colors.items()):
        if row not in summary.index.get_level_values("row"):
            continue
        line = summary.loc[row]
        epoch, mean, spread = line.index.to_numpy(float), line["mean"].to_numpy(), line["std"].to_numpy()
        low, middle, high = (np.exp(v) if is_ratio else v for v in (mean - spread, mean, mean + spread))
        axes.fill_between(epoch, low, high, color=color, alpha=0.16, linewidth=0)
        dash = _DASHES[order % len(_DASHES)]
        axes.plot(epoch, middle, dash, color=color, linewidth=1.6, label=plots.shorten(row, 34))
    if is_ratio:
        plots.make_logarithmic(axes)
        axes.axhline(1.0, color=plots.MUTED, linewidth=0.8, linestyle=":")
    axes.set_xlabel("epoch")
    axes.grid(axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=2.2)


def _bars(benchmark: Benchmark, summary: pd.DataFrame, colors: dict[str, str], top: float | None, axes: Axes) -> None:
    """Paint a bar a row and column, the value beside it, the standard deviation as a line."""
    rows, columns = list(benchmark.rows), list(benchmark.columns)
    thickness, pitch, several = 0.2, 0.2 * len(rows) + 0.24, len(columns) > 1
    ends = (summary["mean"] + summary["std"]).max(), (summary["mean"] - summary["std"]).min()
    span = max(ends[0] if top is None else top, 0.0) - min(ends[1], 0.0)
    for row, column in [(row, column) for row in rows for column in columns if (row, column) in summary.index]:
        order, number = rows.index(row), columns.index(column)
        mean, spread = summary.loc[[(row, column)]].to_numpy(float)[0]
        y = number * pitch + order * thickness
        label = plots.shorten(row, 34) if several and number == 0 else None
        axes.barh(y, mean, 0.84 * thickness, color=colors[row], label=label)
        axes.hlines(y, mean - spread, mean + spread, color=plots.INK, linewidth=0.9)
        text = f"{mean:.1f}" if top else f"{mean:.2f}"
        axes.text(max(mean + spread, 0) + 0.015 * span, y, text, va="center", fontsize=7.5, color=plots.MUTED)
    if several:
        axes.set_yticks(np.arange(len(columns)) * pitch + (len(rows) - 1) * thickness / 2, columns)
        axes.set_ylabel(benchmark.column_title)
        axes.legend(loc="upper left", bbox_to_anchor=(1.06, 1.0), handlelength=0.9)
    else:
        axes.set_yticks(np.arange(len(rows)) * thickness, [plots.shorten(row, 50) for row in rows])
    axes.set_ylim((len(columns) - 1) * pitch + len(rows) * thickness - 0.08, -0.14)
    if top is not None:
        axes.set_xlim(0, top)
    axes.axvline(0, color=plots.RULE, linewidth=0.8)
    axes.grid(axis="x")
    axes.spines["bottom"].set_visible(False)
