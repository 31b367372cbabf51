"""Figures of a grid as SVG: accuracy over its columns as lines or bars, and the course of accuracy or margins.

The same results give the same bytes, so that a figure under version control changes only with its data. Text stays
text, and each colour has one purpose, so that a page can replace the colours by those of its theme.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from logit_correction.pages.plots import assign_series_colors
from logit_correction_lab.grid import Benchmark, make_folder_name
from logit_correction_lab.results import (
    aggregate_scores_over_seeds,
    describe_differing_rules,
    describe_grid_metric,
    select_rows_by_own_rule,
)

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

#: Purpose of a colour -> the colour, as in the style file.
COLORS = {"ink": "#1d2430", "muted": "#646d7a", "rule": "#d6dbe1", "paper": "#fffffe"}

#: Width of the axes in inches.
WIDTH = 3.6

#: Height of the axes in inches, where it does not depend on the number of bars.
HEIGHT = 2.3

#: Thickness of a bar in inches, with the space to the next.
BAR = 0.16

DASHES = ("-", "--", ":", "-.")

#: Margin of a group's rows -> name of its figures, and the column of ``metrics.csv`` that holds its ratio.
MARGINS = {"least": ("margins", "train_margin_ratio"), "mean": ("margins-mean", "train_mean_margin_ratio")}


def draw_figures(benchmark: Benchmark, results_table: pd.DataFrame, history: pd.DataFrame) -> dict[str, str]:
    """Return the figures that a grid asks for, name -> SVG; those without data are left out.

    Args:
        benchmark: The grid.
        results_table: Its ``build_results_table``.
        history: Its ``build_history_table``.
    """
    if results_table.empty:
        return {}
    results_table = select_rows_by_own_rule(results_table)
    methods = dict(zip(results_table["row"], results_table["method"], strict=True))
    colors = assign_series_colors({row: methods.get(row, "") for row in benchmark.rows})
    positions = pd.to_numeric(pd.Series({name: name.replace("%", "") for name in benchmark.columns}), errors="coerce")
    default = {"kind": "accuracy" if positions.notna().all() and len(positions) > 1 else "bars"}
    figures = {}
    for options in benchmark.figures or [default]:
        kind = options["kind"]
        if kind in ("accuracy", "bars"):
            figures.update(_draw_accuracy_figure(benchmark, results_table, colors, kind, positions))
        elif kind != "none":
            figures.update(_draw_epoch_figures(benchmark, history, colors, options))
    return figures


def _draw_accuracy_figure(
    benchmark: Benchmark, results_table: pd.DataFrame, colors: Mapping[str, str], kind: str, positions: pd.Series[float]
) -> dict[str, str]:
    bands = _compute_deviation_bands(aggregate_scores_over_seeds(benchmark, results_table))
    if bands.empty:
        return {}
    title = f"{describe_grid_metric(benchmark)}{describe_differing_rules(results_table)}"
    description = f"{title}: {benchmark.title}"
    if kind == "bars":
        height = max(0.6, len(positions) * ((BAR + 0.02) * len(benchmark.rows) + 0.22))
        return {kind: _draw_svg(description, title, height, _plot_bars, benchmark, bands, colors)}
    bands = bands.rename(index=positions.to_dict(), level="column")
    painted = (bands, colors, benchmark.column_title, positions)
    return {kind: _draw_svg(description, title, HEIGHT, _plot_lines_and_bands, *painted)}


def _draw_epoch_figures(
    benchmark: Benchmark, history: pd.DataFrame, colors: Mapping[str, str], options: Mapping[str, str]
) -> dict[str, str]:
    """Return a figure for each column of the grid, over the epochs."""
    margin = options.get("margin", "least")
    metric = options.get("metric", "group_balanced")
    is_ratio = options["kind"] == "margins"
    if is_ratio:
        name, source = MARGINS[margin]
        title = f"Majority margin / minority margin ({margin} of a group)"
    else:
        name = "curves"
        source = f"test_{metric}"
        title = f"{metric.replace('_', '-').capitalize()} test accuracy in %"
    if source not in history or history[source].isna().all():
        return {}
    values = np.log(history[source].where(history[source] > 0)) if is_ratio else 100 * history[source]
    summary = values.groupby([history[key] for key in ("column", "row", "epoch")]).agg(["mean", "std"])
    bands = _compute_deviation_bands(summary, np.exp if is_ratio else float)
    figures = {}
    for column in benchmark.columns:
        if column in bands.index.unique("column"):
            file = name
            description = f"{title}: {benchmark.title}"
            if len(benchmark.columns) > 1:
                file = f"{name}-{make_folder_name(column)}"
                description = f"{description}, {column}"
            painted = (bands.loc[column], colors, "epoch", None, is_ratio)
            figures[file] = _draw_svg(description, title, HEIGHT, _plot_lines_and_bands, *painted)
    return figures


def _compute_deviation_bands(summary: pd.DataFrame, scale: Callable[[float], float] = float) -> pd.DataFrame:
    """Return the mean, and the ends of one standard deviation about it, scaled; of a single run the deviation is 0."""
    mean = summary["mean"].dropna()
    deviation = summary["std"].fillna(0.0)
    return pd.DataFrame({"low": mean - deviation, "mean": mean, "high": mean + deviation}).dropna().map(scale)


# -- Axes


def _plot_lines_and_bands(
    axes: Axes,
    bands: pd.DataFrame,
    colors: Mapping[str, str],
    label: str,
    ticks: pd.Series[float] | None,
    is_ratio: bool = False,
) -> None:
    """Paint a line and its band for each row; ``ticks`` are names of places on the x axis, None for whole numbers."""
    rows = [row for row in colors if row in bands.index.unique("row")]
    for order, row in enumerate(rows):
        band = bands.loc[row].sort_index()
        if ticks is not None:
            band = band.reindex(sorted(set(ticks)))  # a line ends at a column that was not measured
        x = band.index.to_numpy(float)
        if band["mean"].isna().any():  # a column without neighbours has no band
            axes.vlines(x, band["low"], band["high"], color=colors[row], alpha=0.4, linewidth=1.6)
        axes.fill_between(x, band["low"], band["high"], color=colors[row], alpha=0.16, linewidth=0)
        style: dict[str, Any] = {"color": colors[row], "linewidth": 1.6, "markersize": 4}
        style["marker"] = "" if ticks is None else "o"
        axes.plot(x, band["mean"], DASHES[order % len(DASHES)], label=shorten_name(row, 34), **style)
    if is_ratio:
        from matplotlib.ticker import LogLocator, NullLocator

        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")
        axes.axhline(1.0, color=COLORS["muted"], linewidth=0.8, linestyle=":")
    if ticks is None:
        axes.locator_params(axis="x", integer=True)
    else:
        if ticks.min() > 0 and ticks.max() >= 5 * ticks.min():
            axes.set_xscale("log")
        axes.set_xticks(ticks.tolist(), list(ticks.index))
        axes.minorticks_off()
    axes.set_xlabel(label)
    axes.grid(axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=2.2)


def _plot_bars(axes: Axes, benchmark: Benchmark, bands: pd.DataFrame, colors: Mapping[str, str]) -> None:
    """Paint a bar for each row and column, its value in %, and its deviation."""
    from matplotlib.container import BarContainer

    rows = [row for row in benchmark.rows if row in bands.index.unique("row")]
    mean, high = (bands[name].unstack("row").reindex(list(benchmark.columns))[rows] for name in ("mean", "high"))
    deviation = (high - mean).fillna(0.0).to_numpy().T
    style: dict[str, Any] = {"width": 0.8, "legend": False, "error_kw": {"ecolor": COLORS["ink"], "elinewidth": 0.9}}
    painted: Any = mean.rename(columns=lambda row: shorten_name(row, 34))
    if len(mean) == 1:  # then all rows are one series
        painted = mean.iloc[0].rename(lambda row: shorten_name(row, 50))
        deviation = deviation[:, 0]
    painted.plot.barh(ax=axes, xerr=deviation, color=[colors[row] for row in rows], **style)
    bars = [container for container in axes.containers if isinstance(container, BarContainer)]
    for container, values in zip(bars, mean.to_numpy() if len(mean) == 1 else mean.to_numpy().T, strict=True):
        labels = ["–" if np.isnan(value) else f"{value:.1f}" for value in values]
        axes.bar_label(container, labels, padding=3, fontsize=7.5, color=COLORS["muted"])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_ylabel("")
    axes.grid(axis="x")
    axes.spines["bottom"].set_visible(False)
    if len(mean) > 1:
        axes.set_ylabel(benchmark.column_title)
        axes.legend(loc="upper left", bbox_to_anchor=(1.06, 1.0), handlelength=0.9)


def shorten_name(name: str, max_length: int) -> str:
    """Return a name on one line, of at most ``max_length`` characters."""
    text = " ".join(name.split())
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


# -- SVG


def _draw_svg(description: str, title: str, height: float, paint: Callable[..., None], *painted: Any) -> str:
    """Return axes of ``height`` inches as an SVG element; ``description`` is its text for screen readers."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # The salt makes the ids of two figures on one page differ, and those of one figure equal in every run.
    settings: Any = ["default", Path(__file__).with_suffix(".mplstyle"), {"svg.hashsalt": description}]
    stream = io.StringIO()
    with style.context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer's font draws the text
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.add_axes((0, 0, 1, 1))
        paint(axes, *painted)
        axes.set_title(title)
        figure.savefig(stream, format="svg", metadata={"Date": None}, bbox_inches="tight", pad_inches=0.04)
    svg = stream.getvalue().partition("<svg")[2].rstrip()
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    used_ids = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used_ids else "", svg)
    return f'<svg role="img" aria-label="{escape(description)}"{svg}'


def inline_svg(svg: str) -> Markup:
    """Return a figure of ``draw_figures`` as part of an HTML page, in the page's colours and width."""
    from markupsafe import Markup

    for name, color in COLORS.items():
        svg = svg.replace(color, f"var(--{name})")
    opening, content = svg.split(">", 1)
    width = re.search(r' width="([\d.]+)pt"', opening)
    opening = re.sub(r' (?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", opening)
    # The text in it was escaped when the figure was drawn.
    return Markup(f'{opening} style="--width: {float(width[1]) if width else 300:.0f}">{content}')
