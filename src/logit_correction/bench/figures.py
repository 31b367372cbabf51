"""The figures of a benchmark: accuracy over the columns, curves and margins over training, bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from logit_correction.bench.grid import Benchmark, slug
from logit_correction.pages import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Width of the axes in inches, and their height where it does not depend on the number of bars.
_WIDTH, _HEIGHT = 3.6, 2.3

_MARKERS, _DASHES = "osD^vPX*<>", ("-", "--", ":", "-.")

#: Which margin of a group's rows -> the column of ``metrics.csv`` that holds its ratio.
_RATIOS = {"least": "train_margin_ratio", "mean": "train_mean_margin_ratio"}


def figures(benchmark: Benchmark, frame: pd.DataFrame, history: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Draw the figures that the benchmark asks for: the name of each file without the ending, and the SVG.

    What there are no figures for is left out.
    """
    if frame.empty:
        return
    frame = frame[frame["selection"] == frame["selection"].iloc[0]]
    columns, methods = list(benchmark.columns), dict(zip(frame["row"], frame["method"], strict=True))
    colors = plots.series_colors({row: methods.get(row, "") for row in benchmark.rows})
    places = pd.to_numeric(pd.Series(columns, index=columns).str.replace("%", ""), errors="coerce")

    asked = benchmark.figure or ("accuracy" if places.notna().all() and len(columns) > 1 else "bars")
    for one in asked if isinstance(asked, list) else [asked]:
        options = {"kind": one} if isinstance(one, str) else one
        kind, margin = options["kind"], options.get("margin", "least")
        of_ends, ratio = kind in ("accuracy", "bars"), kind == "margins"
        value = _RATIOS[margin] if ratio else f"test_{options.get('metric', 'group_balanced')}"
        value, known = (benchmark.metric, frame) if of_ends else (value, history)
        if kind == "none" or value not in known or known[value].isna().all():
            continue
        title = f"{value.removeprefix('test_').replace('_', '-').capitalize()} test accuracy, %"
        if of_ends:
            summary, height = _summary(100 * frame[value], frame, "row", "column"), _HEIGHT
            paint = partial(_lines, benchmark, summary, colors, places)
            if kind == "bars":
                height = max(0.6, len(columns) * (0.18 * len(benchmark.rows) + 0.22))
                paint = partial(_bars, benchmark, summary, colors)
            yield kind, _drawn(f"{title}: {benchmark.title}", title, height, paint)
            continue
        title = f"Majority margin / minority margin ({margin} of a group)" if ratio else title
        name = "margins-mean" if ratio and margin == "mean" else kind
        values = np.log(known[value].where(known[value] > 0)) if ratio else 100 * known[value]
        curves = _summary(values, known, "column", "row", "epoch")
        for column in [one for one in columns if one in curves.index.get_level_values("column")]:
            paint = partial(_curves, curves.loc[(column,), :], colors, ratio)
            file, of_column = (f"{name}-{slug(column)}", f", {column}") if len(columns) > 1 else (name, "")
            yield file, _drawn(f"{title}: {benchmark.title}{of_column}", title, _HEIGHT, paint)


def _drawn(description: str, title: str, height: float, paint: Callable[[Axes], None]) -> str:
    def titled(axes: Axes) -> None:
        paint(axes)
        axes.spines["left"].set_visible(False)
        axes.set_title(title)

    return plots.draw(_WIDTH, height, description, titled)


def _summary(values: pd.Series, frame: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Return mean and standard deviation over the seeds; the latter is 0 for a single one."""
    grouped = values.groupby([frame[name] for name in by])
    return grouped.agg(["mean", "std"]).fillna({"std": 0.0}).dropna(subset=["mean"])


def _lines(
    benchmark: Benchmark, summary: pd.DataFrame, colors: Mapping[str, str], place: pd.Series[float], axes: Axes
) -> None:
    """Paint a line a row over the columns, error bars one standard deviation each way."""
    low, high = place.min(), place.max()
    logarithmic = low > 0 and high >= 5 * low
    rows = [row for row in benchmark.rows if row in summary.index.get_level_values("row")]
    for order, row in enumerate(rows):
        of_row = summary.loc[row].reindex([c for c in benchmark.columns if (row, c) in summary.index])
        aside = order - (len(rows) - 1) / 2  # so that error bars do not hide each other
        x = place[of_row.index].to_numpy()
        axes.errorbar(
            x * 1.012**aside if logarithmic else x + 0.006 * aside * (high - low),
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
    axes.set_xticks(place.tolist(), list(place.index))
    axes.minorticks_off()
    axes.set_xlabel(benchmark.column_title)
    axes.grid(axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=2.2)


def _curves(summary: pd.DataFrame, colors: Mapping[str, str], is_ratio: bool, axes: Axes) -> None:
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
        from matplotlib.ticker import LogLocator, NullLocator

        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))  # numbers as people write them
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")
        axes.axhline(1.0, color=plots.MUTED, linewidth=0.8, linestyle=":")
    axes.set_xlabel("epoch")
    axes.grid(axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=2.2)


def _bars(benchmark: Benchmark, summary: pd.DataFrame, colors: Mapping[str, str], axes: Axes) -> None:
    """Paint a bar a row and column, the value in % beside it, the standard deviation as a line.

    A unit of the y axis is an inch.
    """
    columns, mean, spread = list(benchmark.columns), summary["mean"], summary["std"]
    ends = pd.DataFrame({"value": mean, "low": mean - spread, "high": mean + spread})
    rows = [row for row in benchmark.rows if row in ends.index.get_level_values("row")]
    series = {row: ends.loc[[row]].droplevel("row").reindex(columns) for row in rows}
    names, color, gap = columns, dict[str, Any](colors), 0.22
    if len(columns) == 1:  # then a series of all rows
        series, names, gap = {"": ends.droplevel("column").loc[rows]}, [plots.shorten(row, 50) for row in rows], 0.04
        color = {"": [colors[row] for row in rows]}
    thickness, pitch = 0.16, 0.16 * len(series) + gap
    for order, (name, frame) in enumerate(series.items()):
        place = np.arange(len(names)) * pitch + order * thickness
        value, low, high = (frame[column].to_numpy(float) for column in ("value", "low", "high"))
        label = plots.shorten(name, 34)
        axes.barh(place, np.nan_to_num(value), 0.86 * thickness, color=color[name], label=label)
        known = ~np.isnan(value)
        axes.hlines(place[known], low[known], high[known], color=plots.INK, linewidth=0.9)
        for y, number, end in zip(place, value, np.nan_to_num(high), strict=True):
            text = "–" if np.isnan(number) else f"{number:.1f}"
            axes.text(end + 1.5, y, text, va="center", fontsize=7.5, color=plots.MUTED)
    axes.set_yticks(np.arange(len(names)) * pitch + (len(series) - 1) * thickness / 2, names)
    axes.set_ylim(len(names) * pitch - gap / 2 - 0.05, -0.18)
    axes.set_xlim(0, 100)
    axes.grid(axis="x")
    axes.spines[["bottom", "left"]].set_visible(False)
    if len(columns) > 1:
        axes.set_ylabel(benchmark.column_title)
        axes.legend(loc="upper left", bbox_to_anchor=(1.06, 1.0), handlelength=0.9)
