"""How the figures of a benchmark are painted: lines over the columns, bars, curves over the epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from logit_correction.render import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from logit_correction.benchmark import Benchmark

#: Width of the axes in inches.
WIDTH = 3.6

_MARKERS, _DASHES = "osD^vPX*<>", ("-", "--", ":", "-.")


def paint_lines(
    benchmark: Benchmark,
    summary: pd.DataFrame,
    colors: Mapping[str, str],
    numbers: list[float],
    title: str,
    axes: Axes,
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
        x = x * 1.012**aside if logarithmic else x + 0.006 * aside * width
        axes.errorbar(
            x,
            of_row["mean"].to_numpy(float),
            yerr=of_row["std"].to_numpy(float),
            color=colors[row],
            marker=_MARKERS[order % len(_MARKERS)],
            markersize=4,
            linewidth=1.4,
            elinewidth=0.9,
            capsize=1.5,
            label=canvas.shorten(row, 34),
        )
    if logarithmic:
        axes.set_xscale("log")
    axes.set_xticks(numbers, list(benchmark.columns))
    axes.minorticks_off()
    axes.set_xlabel(benchmark.column_title)
    _finish(axes, title)


def paint_bars(
    benchmark: Benchmark,
    summary: pd.DataFrame,
    colors: Mapping[str, str],
    title: str,
    top: float | None,
    axes: Axes,
) -> None:
    """Paint a bar a row and column, the value beside it, the standard deviation as a line."""
    thickness, pitch = 0.2, 0.2 * len(benchmark.rows) + 0.24
    several = len(benchmark.columns) > 1
    ends = (summary["mean"] + summary["std"]).max(), (summary["mean"] - summary["std"]).min()
    span = max(ends[0] if top is None else top, 0.0) - min(ends[1], 0.0)
    for order, row in enumerate(benchmark.rows):
        for number, column in enumerate(benchmark.columns):
            if (row, column) not in summary.index:
                continue
            mean, spread = summary.loc[[(row, column)]].to_numpy(float)[0]
            y = number * pitch + order * thickness
            label = canvas.shorten(row, 34) if several and number == 0 else None
            axes.barh(y, mean, 0.84 * thickness, color=colors[row], label=label)
            axes.hlines(y, mean - spread, mean + spread, color=canvas.INK, linewidth=0.9)
            text = f"{mean:.1f}" if top else f"{mean:.2f}"
            axes.text(max(mean + spread, 0) + 0.015 * span, y, text, va="center", fontsize=7.5, color=canvas.MUTED)
    middle = (len(benchmark.rows) - 1) * thickness / 2
    if several:
        axes.set_yticks(np.arange(len(benchmark.columns)) * pitch + middle, list(benchmark.columns))
        axes.set_ylabel(benchmark.column_title)
        axes.legend(loc="upper left", bbox_to_anchor=(1.06, 1.0), handlelength=0.9)
    else:
        axes.set_yticks(np.arange(len(benchmark.rows)) * thickness, [canvas.shorten(r, 50) for r in benchmark.rows])
    axes.set_ylim((len(benchmark.columns) - 1) * pitch + len(benchmark.rows) * thickness - 0.08, -0.14)
    if top is not None:
        axes.set_xlim(0, top)
    axes.axvline(0, color=canvas.RULE, linewidth=0.8)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.set_title(title)


def bar_size(benchmark: Benchmark) -> tuple[float, float]:
    """Return the size in inches that the bars of all rows and columns take."""
    rows, columns = len(benchmark.rows), len(benchmark.columns)
    return WIDTH, max(0.6, columns * (0.2 * rows + 0.24))


def paint_curves(
    benchmark: Benchmark,
    summary: pd.DataFrame,
    colors: Mapping[str, str],
    title: str,
    even: float | None,
    axes: Axes,
) -> None:
    """Paint a line a row over the epochs, a band of one standard deviation around it, and a line at ``even``."""
    for order, row in enumerate(benchmark.rows):
        if row not in summary.index.get_level_values("row"):
            continue
        line = summary.loc[row]
        epoch, mean, spread = line.index.to_numpy(float), line["mean"].to_numpy(), line["std"].to_numpy()
        dash = _DASHES[order % len(_DASHES)]
        axes.fill_between(epoch, mean - spread, mean + spread, color=colors[row], alpha=0.16, linewidth=0)
        axes.plot(epoch, mean, dash, color=colors[row], linewidth=1.6, label=canvas.shorten(row, 34))
    if even is not None:
        axes.axhline(even, color=canvas.MUTED, linewidth=0.8, linestyle=":")
    axes.set_xlabel("epoch")
    _finish(axes, title)


def _finish(axes: Axes, title: str) -> None:
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=2.2)
    axes.set_title(title)
