"""Figures of group accuracies and training curves, as SVG elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from logit_correction.render import style
from logit_correction.render.metrics import curve_points, stage_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The same colour for a method everywhere; told apart by every kind of colour vision (after Okabe and Ito).
METHOD_COLORS = {
    "ERM": "#8b909a",
    "LC": "#0072b2",
    "StagedLC": "#009e73",
    "GroupDRO": "#cc79a7",
    "LfF": "#e69f00",
    "JTT": "#d55e00",
    "DFA": "#56b4e9",
    "Reweighting": "#7a4fa3",
}
_OTHER_COLORS = ("#3f4a5a", "#a0522d", "#6b8e23", "#b03a5b")

#: What is drawn of metrics.csv, and how. The total of a method with two networks says little beside theirs.
_LINES: dict[str, tuple[str, str]] = {
    "loss": ("loss", "-"),
    "loss_robust": ("robust network", "-"),
    "loss_biased": ("biased network", ":"),
    "valid_average": ("average", "-"),
    "valid_group_balanced": ("group-balanced", "--"),
}


def method_color(name: str, order: int = 0) -> str:
    """Return the colour of a run whose name starts with its method, such as ``LC (q 0.8)``.

    Args:
        name: Name of the run.
        order: How many runs of unknown methods come before it.
    """
    return METHOD_COLORS.get(name.partition(" (")[0], _OTHER_COLORS[order % len(_OTHER_COLORS)])


def _colors(names: Sequence[str], colors: Mapping[str, str] | None) -> dict[str, str]:
    return {name: (colors or {}).get(name) or method_color(name, order) for order, name in enumerate(names)}


def group_bars(groups: Mapping[str, pd.DataFrame], colors: Mapping[str, str] | None = None) -> str:
    """Draw a bar per group and run with its interval; for about a dozen groups at most.

    Args:
        groups: For each run the groups as in ``GroupReport.groups``, the same groups in the same order.
        colors: Colour of each run; by method if left out.
    """
    palette = _colors(list(groups), colors)
    first = next(iter(groups.values()))
    thickness, pitch = 0.16, 0.16 * len(groups) + 0.22

    def paint(axes: Axes) -> None:
        for order, (name, frame) in enumerate(groups.items()):
            place = np.arange(len(frame)) * pitch + order * thickness
            value = 100 * frame["accuracy"].to_numpy(float)
            axes.barh(place, np.nan_to_num(value), 0.86 * thickness, color=palette[name], label=style.shorten(name, 30))
            _whiskers(axes, place, frame)
            for y, number, high in zip(place, value, 100 * frame["high"].to_numpy(float), strict=True):
                text = "no rows" if np.isnan(number) else f"{number:.0f}"
                right = np.nanmax([number, high, 0.0]) + 1.5
                axes.text(right, y, text, va="center", fontsize=7.5, color=style.MUTED)
        axes.set_xlim(0, 100)
        axes.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.spines[["bottom", "left"]].set_visible(False)
        middle = (len(groups) - 1) * thickness / 2
        axes.set_yticks(np.arange(len(first)) * pitch + middle, _group_names(first))
        axes.set_ylim(len(first) * pitch - 0.16, -0.18)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=min(3, len(groups)), handlelength=0.9)

    return style.draw(2.5, len(first) * pitch, f"Accuracy per group: {', '.join(groups)}", paint)


def _whiskers(axes: Axes, place: NDArray[Any], frame: pd.DataFrame) -> None:
    shown = frame["low"].notna().to_numpy() & frame["high"].notna().to_numpy()
    low, high = (100 * frame[end].to_numpy(float)[shown] for end in ("low", "high"))
    axes.hlines(place[shown], low, high, color=style.INK, linewidth=0.9)


def _group_names(frame: pd.DataFrame) -> list[str]:
    names = []
    for row in frame.to_dict("records"):
        name = style.shorten(row["label"], 18)
        if row["attribute"] is not None:
            name += f"\n{style.shorten(row['attribute'], 18)}"
        names.append(name + (" *" if row.get("minority") else ""))
    return names


def curves(metrics: Mapping[str, pd.DataFrame], colors: Mapping[str, str] | None = None) -> dict[str, str]:
    """Draw the training loss and the validation accuracy over the epochs.

    Args:
        metrics: For each run the table of its ``metrics.csv``.
        colors: Colour of each run; by method if left out.

    Returns:
        ``loss`` and ``accuracy``, each only where some run has recorded it.
    """
    parts = [name for name in ("loss_robust", "loss_biased") if any(name in table for table in metrics.values())]
    wanted = {"loss": ["loss", *parts], "accuracy": ["valid_average", "valid_group_balanced"]}
    titles = {"loss": "Training loss", "accuracy": "Validation accuracy, %"}
    figures = {}
    for kind, columns in wanted.items():
        lines = _curve_lines(metrics, columns, scale=100 if kind == "accuracy" else 1)
        if lines:
            figures[kind] = _curve_figure(titles[kind], lines, metrics, _colors(list(metrics), colors))
    return figures


def _curve_lines(
    metrics: Mapping[str, pd.DataFrame], columns: Sequence[str], scale: float
) -> list[tuple[str, str, pd.DataFrame]]:
    """Name of the run, column and points of every line there is."""
    lines = []
    for name, table in metrics.items():
        has_parts = "loss_robust" in table and table["loss_robust"].notna().any()
        for column in columns:
            if column == "loss" and has_parts:
                continue
            points = curve_points(table, column)
            if len(points):
                lines.append((name, column, points.assign(value=scale * points["value"])))
    return lines


def _curve_figure(
    title: str,
    lines: Sequence[tuple[str, str, pd.DataFrame]],
    metrics: Mapping[str, pd.DataFrame],
    palette: Mapping[str, str],
) -> str:
    def paint(axes: Axes) -> None:
        for name, column, points in lines:
            meaning, dash = _LINES[column]
            several = sum(name == other for other, _, _ in lines) > 1
            label = style.shorten(name, 24) + (f", {meaning}" if several else "")
            mark = "o" if len(points) == 1 else None
            axes.plot(
                points["epoch"], points["value"], dash, color=palette[name], label=label, linewidth=1.5, marker=mark
            )
        if len(metrics) == 1:
            for end in stage_ends(next(iter(metrics.values()))):
                axes.axvline(end, color=style.MUTED, linewidth=0.8, linestyle=":")
        accuracy = title.startswith("Validation")
        axes.set_ylim(0, 102 if accuracy else None)
        axes.set_xlim(0, max(points["epoch"].max() for _, _, points in lines))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("epoch")
        _, labels = axes.get_legend_handles_labels()
        rows = -(-len(labels) // 2)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=2, handlelength=1.6, columnspacing=1.2)
        axes.set_title(title, pad=8 + 12 * rows)

    return style.draw(3.15, 1.7, f"{title} of {', '.join(metrics)}", paint)
