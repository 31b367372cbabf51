"""The figures of a benchmark: accuracy over the columns, curves and margins over training, bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from logit_correction.pages import plots as style
from logit_correction.pages.plots import METHOD_COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from logit_correction.bench import Benchmark

#: Width of the axes in inches, and their height where it does not depend on the number of bars.
_WIDTH, _HEIGHT = 3.6, 2.3

_MARKERS, _DASHES = "osD^vPX*<>", ("-", "--", ":", "-.")
_SPARE = ("#b03a5b", "#6b8e23", "#3f4a5a", "#a0522d", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fa3")

_RATIOS = {"least": "train_margin_ratio", "mean": "train_mean_margin_ratio"}
_TITLES = {
    "train_margin_ratio": "Majority margin / minority margin (least of a group)",
    "train_mean_margin_ratio": "Majority margin / minority margin (mean of a group)",
}


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
    plots = _Plots(benchmark, frame[frame["selection"] == frame["selection"].iloc[0]], history)
    drawings: list[Drawing] = []
    for options in wanted:
        kind = options["kind"]
        if kind in ("accuracy", "bars"):
            drawings += plots.of_columns(kind, options.get("metric", benchmark.metric))
        elif kind == "curves":
            drawings += plots.over_training(kind, f"test_{options['metric']}")
        else:
            name = kind if options["margin"] == "least" else "margins-mean"
            draw = plots.over_training if options["over"] == "training" else plots.at_the_end
            drawings += draw(name, _RATIOS[options["margin"]])
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
            colors[row] = free.pop(0) if free else style.MUTED
    return {row: colors[row] for row in benchmark.rows}


def _numbers(columns: list[str]) -> list[float] | None:
    """The columns as numbers, if they are, such as ``0.5`` and ``5 %``."""
    try:
        return [float(column.replace("%", "")) for column in columns]
    except ValueError:
        return None


def _summary(frame: pd.DataFrame, value: str, by: list[str]) -> pd.DataFrame:
    """Mean and standard deviation over the seeds; the latter is 0 for a single one."""
    return frame.groupby(by)[value].agg(["mean", "std"]).fillna({"std": 0.0}).dropna(subset=["mean"])


class _Plots:
    """Draws the figures of one grid.

    Args:
        benchmark: The grid.
        frame: Results of one selection rule.
        history: Figures over the epochs.
    """

    def __init__(self, benchmark: Benchmark, frame: pd.DataFrame, history: pd.DataFrame) -> None:
        self.grid, self.frame, self.history = benchmark, frame, history
        self.rows, self.columns = list(benchmark.rows), list(benchmark.columns)
        self.colors = row_colors(benchmark, frame)

    def of_columns(self, kind: str, metric: str) -> Iterator[Drawing]:
        """Draw a figure of the ends of the runs."""
        if self.frame[metric].isna().all():
            return
        summary = 100 * _summary(self.frame, metric, ["row", "column"])
        title, numbers = f"{metric.replace('_', '-').capitalize()} test accuracy, %", _numbers(self.columns)
        if kind == "accuracy" and numbers is not None:
            yield self._draw(kind, title, _HEIGHT, partial(self._lines, summary, numbers))
            return
        colors = self.colors
        if len(self.columns) == 1:  # each bar has its name beside it
            methods = dict(zip(self.frame["row"], self.frame["method"], strict=True))
            colors = {row: METHOD_COLORS.get(methods.get(row, ""), style.MUTED) for row in self.rows}
        yield self._draw(kind, title, self._bars_height(), partial(self._bars, summary, colors, 100.0))

    def over_training(self, kind: str, value: str) -> Iterator[Drawing]:
        """Draw a figure for each column: a line a row over the epochs, a band of one standard deviation around it."""
        if value not in self.history:
            return
        is_ratio, known = value in _TITLES, self.history.dropna(subset=[value])
        title = _TITLES.get(value) or f"{value[5:].replace('_', '-').capitalize()} test accuracy, %"
        drawn = np.log(known[value].where(known[value] > 0)) if is_ratio else 100 * known[value]
        summary = _summary(known.assign(**{value: drawn}), value, ["column", "row", "epoch"])
        for column in [one for one in self.columns if one in summary.index.get_level_values("column")]:
            paint = partial(self._curves, summary.loc[(column,), :], is_ratio)
            yield self._draw(kind, title, _HEIGHT, paint, column if len(self.columns) > 1 else None)

    def at_the_end(self, kind: str, value: str) -> Iterator[Drawing]:
        """Draw a bar a row and column: the ratio in the last epoch in which there is one."""
        if value not in self.history or self.history[value].isna().all():
            return
        known = self.history.dropna(subset=[value]).sort_values("epoch")
        ends = known.groupby(["row", "column", "seed"], as_index=False).last()
        paint = partial(self._bars, _summary(ends, value, ["row", "column"]), self.colors, None)
        yield self._draw(kind, f"{_TITLES[value]}, last epoch", self._bars_height(), paint)

    def _draw(
        self, kind: str, title: str, height: float, paint: Callable[[Axes], None], column: str | None = None
    ) -> Drawing:
        def titled(axes: Axes) -> None:
            paint(axes)
            axes.set_axisbelow(True)
            axes.spines["left"].set_visible(False)
            axes.set_title(title)

        description = f"{title}: {self.grid.title}" + (f", {column}" if column else "")
        given = (_WIDTH, height, description, titled)
        return Drawing(kind, column, style.draw(*given), style.draw_png(*given))

    def _lines(self, summary: pd.DataFrame, numbers: list[float], axes: Axes) -> None:
        """Paint a line a row over the columns, error bars one standard deviation each way."""
        logarithmic = min(numbers) > 0 and max(numbers) >= 5 * min(numbers)
        place = dict(zip(self.columns, numbers, strict=True))
        rows = [row for row in self.rows if row in summary.index.get_level_values("row")]
        width = max(numbers) - min(numbers)
        for order, row in enumerate(rows):
            of_row = summary.loc[row].reindex([c for c in self.columns if (row, c) in summary.index])
            aside = order - (len(rows) - 1) / 2  # so that error bars do not hide each other
            x = np.array([place[column] for column in of_row.index])
            axes.errorbar(
                x * 1.012**aside if logarithmic else x + 0.006 * aside * width,
                of_row["mean"].to_numpy(float),
                yerr=of_row["std"].to_numpy(float),
                color=self.colors[row],
                marker=_MARKERS[order % len(_MARKERS)],
                markersize=4,
                linewidth=1.4,
                elinewidth=0.9,
                capsize=1.5,
                label=style.shorten(row, 34),
            )
        if logarithmic:
            axes.set_xscale("log")
        axes.set_xticks(numbers, self.columns)
        axes.minorticks_off()
        axes.set_xlabel(self.grid.column_title)
        axes.grid(axis="y")
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=2.2)

    def _curves(self, summary: pd.DataFrame, is_ratio: bool, axes: Axes) -> None:
        """Paint a line a row over the epochs, a band of one standard deviation around it; of ratios, by logarithms."""
        for order, row in enumerate(self.rows):
            if row not in summary.index.get_level_values("row"):
                continue
            line = summary.loc[row]
            epoch, mean, spread = line.index.to_numpy(float), line["mean"].to_numpy(), line["std"].to_numpy()
            dash, color = _DASHES[order % len(_DASHES)], self.colors[row]
            low, middle, high = (np.exp(v) if is_ratio else v for v in (mean - spread, mean, mean + spread))
            axes.fill_between(epoch, low, high, color=color, alpha=0.16, linewidth=0)
            axes.plot(epoch, middle, dash, color=color, linewidth=1.6, label=style.shorten(row, 34))
        if is_ratio:
            style.make_logarithmic(axes)
            axes.axhline(1.0, color=style.MUTED, linewidth=0.8, linestyle=":")
        axes.set_xlabel("epoch")
        axes.grid(axis="y")
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=2.2)

    def _bars_height(self) -> float:
        return max(0.6, len(self.columns) * (0.2 * len(self.rows) + 0.24))

    def _bars(self, summary: pd.DataFrame, colors: dict[str, str], top: float | None, axes: Axes) -> None:
        """Paint a bar a row and column, the value beside it, the standard deviation as a line."""
        thickness, pitch = 0.2, 0.2 * len(self.rows) + 0.24
        several = len(self.columns) > 1
        ends = (summary["mean"] + summary["std"]).max(), (summary["mean"] - summary["std"]).min()
        span = max(ends[0] if top is None else top, 0.0) - min(ends[1], 0.0)
        pairs = [(row, column) for row in self.rows for column in self.columns if (row, column) in summary.index]
        for row, column in pairs:
            order, number = self.rows.index(row), self.columns.index(column)
            mean, spread = summary.loc[[(row, column)]].to_numpy(float)[0]
            y = number * pitch + order * thickness
            label = style.shorten(row, 34) if several and number == 0 else None
            axes.barh(y, mean, 0.84 * thickness, color=colors[row], label=label)
            axes.hlines(y, mean - spread, mean + spread, color=style.INK, linewidth=0.9)
            text = f"{mean:.1f}" if top else f"{mean:.2f}"
            axes.text(max(mean + spread, 0) + 0.015 * span, y, text, va="center", fontsize=7.5, color=style.MUTED)
        if several:
            middle = (len(self.rows) - 1) * thickness / 2
            axes.set_yticks(np.arange(len(self.columns)) * pitch + middle, self.columns)
            axes.set_ylabel(self.grid.column_title)
            axes.legend(loc="upper left", bbox_to_anchor=(1.06, 1.0), handlelength=0.9)
        else:
            axes.set_yticks(np.arange(len(self.rows)) * thickness, [style.shorten(row, 50) for row in self.rows])
        axes.set_ylim((len(self.columns) - 1) * pitch + len(self.rows) * thickness - 0.08, -0.14)
        if top is not None:
            axes.set_xlim(0, top)
        axes.axvline(0, color=style.RULE, linewidth=0.8)
        axes.grid(axis="x")
        axes.spines["bottom"].set_visible(False)
