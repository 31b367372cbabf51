"""Heat maps of label by attribute: accuracies of groups, and group priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from logit_correction.render import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Cells carry their numbers up to this many rows or columns, and are vector graphics up to this many cells.
_MOST_NUMBERS, _MOST_SHAPES = 16, 2500


def group_heatmaps(groups: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Draw the accuracy of label x attribute, one figure per run, all on one colour scale from 0 to 100 %.

    Args:
        groups: For each run the groups as in ``GroupReport.groups``. Groups that follow the correlation are
            outlined, empty ones are grey.

    Returns:
        A figure under the name of each run.
    """
    figures = {}
    for name, frame in groups.items():
        rows, columns = list(dict.fromkeys(frame["label"])), list(dict.fromkeys(frame["attribute"]))
        value = np.full((len(rows), len(columns)), np.nan)
        outlined = np.zeros_like(value, dtype=bool)
        for group in frame.to_dict("records"):
            cell = rows.index(group["label"]), columns.index(group["attribute"])
            value[cell] = 100 * group["accuracy"]
            outlined[cell] = group.get("minority") is False
        heatmap = _Heatmap(name, value, rows, columns, style.ACCURACY_COLORS, (0, 100), "{:.0f}".format, outlined)
        figures[name] = heatmap.draw(f"Accuracy of {name} by label and attribute")
    return figures


def prior_heatmaps(
    estimated: ArrayLike,
    true: ArrayLike | None = None,
    label_names: Sequence[str] | None = None,
    attribute_names: Sequence[str] | None = None,
    of: str = "",
) -> dict[str, str]:
    """Draw group priors (L, K) on one logarithmic colour scale.

    A factor common to all labels of an attribute value shifts all logits of a row alike, so only the shares
    of the labels within an attribute value matter, and only those can be compared between estimators: columns
    are brought to 100 %.

    Args:
        estimated: (L, K).
        true: (L, K), where it is known.
        label_names: L names.
        attribute_names: K names.
        of: Name of the run, for those who do not see the figure.

    Returns:
        ``estimated`` and, where it is given, ``true``.
    """
    figures = {}
    for title, table in (("Estimated", estimated), ("True", true)):
        if table is None:
            continue
        share = label_shares(table)
        rows = list(label_names or map(str, range(share.shape[0])))
        columns = list(attribute_names or map(str, range(share.shape[1])))
        heatmap = _Heatmap(title, share, rows, columns, style.SHARE_COLORS, (0.01, 100), _short_share)
        run = f" of {of}" if of else ""
        figures[title.lower()] = heatmap.draw(f"{title} group prior{run} by label and attribute")
    return figures


def label_shares(prior: ArrayLike) -> NDArray[np.float64]:
    """Return P(y | a) in per cent from a group prior (L, K); NaN for an attribute value that never occurs.

    >>> label_shares([[0.4, 0.1], [0.1, 0.4]])
    array([[80., 20.],
           [20., 80.]])
    """
    table = np.asarray(prior, dtype=np.float64)
    total = table.sum(axis=0, keepdims=True)
    return np.asarray(100 * table / np.where(total > 0, total, np.nan))


def _short_share(number: float) -> str:
    """As few digits as tell a share apart, since they stand in a small cell."""
    if number >= 99.95 or 9.95 <= number < 99.5 or number == 0:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 0.95 else f"{number:.2f}".lstrip("0") if number >= 0.005 else "<.01"


@dataclass(frozen=True)
class _Heatmap:
    """A table of numbers (NaN: no rows) with named rows and columns; limits from 0 mean a linear scale."""

    title: str
    value: NDArray[Any]
    rows: Sequence[object]
    columns: Sequence[object]
    colors: Sequence[str]
    limits: tuple[float, float]
    number: Callable[[float], str]
    outlined: NDArray[np.bool_] | None = None

    def draw(self, description: str) -> str:
        """Return the figure, as wide as a phone however many columns there are."""
        size = min(0.42, 2.85 / max(len(self.columns), 1))
        return style.draw(size * len(self.columns), size * len(self.rows), description, self._paint)

    def _paint(self, axes: Axes) -> None:
        height, width = self.value.shape
        ground = self._ground()
        numbered = max(height, width) <= _MOST_NUMBERS
        axes.pcolormesh(
            np.arange(width + 1) - 0.5,
            np.arange(height + 1) - 0.5,
            ground,
            edgecolor=style.PAPER,
            linewidth=0.8 if numbered else 0,
            rasterized=self.value.size > _MOST_SHAPES,
        )
        if numbered:
            self._paint_numbers(axes, ground)
        self._paint_outlines(axes)
        axes.set_ylim(height - 0.5, -0.5)
        turn: dict[str, Any] = {}
        if max(len(str(name)) for name in self.columns) > 2:
            turn = {"rotation": 50, "ha": "right", "rotation_mode": "anchor"}
        every = max(1, -(-max(height, width) // 24))
        axes.set_xticks(range(0, width, every), [style.shorten(name, 14) for name in self.columns[::every]], **turn)
        axes.set_yticks(range(0, height, every), [style.shorten(name, 14) for name in self.rows[::every]])
        axes.tick_params(pad=2)
        axes.spines[:].set_visible(False)
        axes.set(xlabel="attribute", ylabel="label", title=style.shorten(self.title, 40))

    def _ground(self) -> NDArray[Any]:
        """(rows, columns, 4), the colour of each cell."""
        from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize, to_rgba

        norm = Normalize(*self.limits) if self.limits[0] == 0 else LogNorm(*self.limits, clip=True)
        colors = LinearSegmentedColormap.from_list("ours", list(self.colors))
        ground = colors(norm(np.nan_to_num(self.value, nan=self.limits[1])))
        ground[np.isnan(self.value)] = to_rgba(style.EMPTY)
        return np.asarray(ground)

    def _paint_numbers(self, axes: Axes, ground: NDArray[Any]) -> None:
        for (y, x), number in np.ndenumerate(self.value):
            empty = bool(np.isnan(number))
            text = "–" if empty else self.number(number)
            color = style.MUTED if empty else style.readable_on(ground[y, x].tolist())
            axes.text(x, y, text, ha="center", va="center", fontsize=7, color=color)

    def _paint_outlines(self, axes: Axes) -> None:
        from matplotlib.patches import Rectangle

        for y, x in np.argwhere(self.outlined) if self.outlined is not None else ():
            corner = (x - 0.44, y - 0.44)
            axes.add_patch(Rectangle(corner, 0.88, 0.88, fill=False, edgecolor=style.OUTLINE, linewidth=1.5))
