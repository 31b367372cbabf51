"""Figures as SVG elements: bars and heat maps of groups, group priors, training curves.

One look, no dates, the same bytes for the same data.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of text, secondary text, lines, ground and cells without rows. Each occurs in a figure for that purpose
#: only, so that a page can put its own theme in their place.
INK, MUTED, RULE, PAPER, EMPTY = "#1d2430", "#646d7a", "#d6dbe1", "#fffffe", "#e9ebee"

#: Outline of a group that follows the correlation; seen on pale and on dark cells.
OUTLINE = "#e08a00"

#: Pale to deep, ordered by lightness alone, so that they hold in grey and for every kind of colour vision.
ACCURACY_COLORS = ("#f6efe3", "#cfd9e2", "#8fb3d3", "#3f82b8", "#0f4c81", "#0a2f52")
SHARE_COLORS = ("#faf3ee", "#f0d3c8", "#d99ab0", "#ac5f9f", "#6f3487", "#3b1259")

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

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a label's name is a dollar sign
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so the layout is the same everywhere
    "font.size": 8,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "figure.facecolor": PAPER,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "savefig.facecolor": PAPER,
}


def draw(width: float, height: float, description: str, paint: Callable[[Axes], None]) -> str:
    """Return one axes of ``width`` x ``height`` inches as an SVG element; labels and the title come on top.

    Args:
        width: Of the axes.
        height: Of the axes.
        description: What a person who does not see the figure is told.
        paint: Draws on the axes.
    """
    svg = _saved(width, height, description, paint, "svg").decode()
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg[svg.index("<svg") :].strip(), flags=re.DOTALL)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)


def draw_png(width: float, height: float, description: str, paint: Callable[[Axes], None]) -> bytes:
    """Return the figure that ``draw`` returns as a PNG image."""
    return _saved(width, height, description, paint, "png", dpi=200)


def _saved(
    width: float, height: float, description: str, paint: Callable[[Axes], None], kind: str, dpi: int = 72
) -> bytes:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import RendererSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # no trace of a user's own settings
        # The salt keeps the ids of two figures on one page apart, and makes them the same in every run.
        settings: Any = matplotlib.rcParams
        settings.update(_SETTINGS | {"svg.hashsalt": description})
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer's font draws the text, not ours
        figure, stream = Figure(figsize=(width, height), dpi=dpi), io.BytesIO()
        paint(figure.add_axes((0, 0, 1, 1)))
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        # The box is measured here, since ``bbox_inches="tight"`` draws the whole figure once more for it.
        svg = kind == "svg"
        renderer = RendererSVG(width, height, io.StringIO()) if svg else FigureCanvasAgg(figure).get_renderer()
        box = figure.get_tightbbox(renderer).padded(0.04)
        figure.savefig(stream, format=kind, dpi=dpi, metadata=metadata, bbox_inches=box)
    return stream.getvalue()


def shorten(name: object, length: int = 22) -> str:
    """Return a name on one line, of at most ``length`` characters."""
    text = " ".join(str(name).split())
    return text if len(text) <= length else text[: length - 1] + "…"


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
    names = []
    for row in first.to_dict("records"):
        attribute = "" if row["attribute"] is None else f"\n{shorten(row['attribute'], 18)}"
        names.append(shorten(row["label"], 18) + attribute + (" *" if row.get("minority") else ""))

    def paint(axes: Axes) -> None:
        for order, (name, frame) in enumerate(groups.items()):
            place = np.arange(len(frame)) * pitch + order * thickness
            value, low, high = (100 * frame[column].to_numpy(float) for column in ("accuracy", "low", "high"))
            axes.barh(place, np.nan_to_num(value), 0.86 * thickness, color=palette[name], label=shorten(name, 30))
            shown = ~np.isnan(low) & ~np.isnan(high)
            axes.hlines(place[shown], low[shown], high[shown], color=INK, linewidth=0.9)
            for y, number, end in zip(place, value, high, strict=True):
                text = "no rows" if np.isnan(number) else f"{number:.0f}"
                axes.text(np.nanmax([number, end, 0.0]) + 1.5, y, text, va="center", fontsize=7.5, color=MUTED)
        axes.set_xlim(0, 100)
        axes.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.spines[["bottom", "left"]].set_visible(False)
        axes.set_yticks(np.arange(len(first)) * pitch + (len(groups) - 1) * thickness / 2, names)
        axes.set_ylim(len(first) * pitch - 0.16, -0.18)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=min(3, len(groups)), handlelength=0.9)

    return draw(2.5, len(first) * pitch, f"Accuracy per group: {', '.join(groups)}", paint)


def group_heatmaps(groups: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Draw the accuracy of label x attribute, one figure per run, all on one colour scale from 0 to 100 %.

    Args:
        groups: For each run the groups as in ``GroupReport.groups``. Groups that follow the correlation are
            outlined, empty ones are grey.

    Returns:
        A figure under the name of each run.
    """
    from matplotlib.colors import Normalize

    figures = {}
    for name, frame in groups.items():
        rows, columns = list(dict.fromkeys(frame["label"])), list(dict.fromkeys(frame["attribute"]))
        value = np.full((len(rows), len(columns)), np.nan)
        outlined = np.zeros_like(value, dtype=bool)
        for group in frame.to_dict("records"):
            cell = rows.index(group["label"]), columns.index(group["attribute"])
            value[cell] = 100 * group["accuracy"]
            outlined[cell] = group.get("minority") is False
        norm, description = Normalize(0, 100), f"Accuracy of {name} by label and attribute"
        figures[name] = _heatmap(
            name, value, rows, columns, ACCURACY_COLORS, norm, "{:.0f}".format, description, outlined
        )
    return figures


def prior_heatmaps(
    estimated: ArrayLike,
    true: ArrayLike | None = None,
    label_names: Sequence[str] | None = None,
    attribute_names: Sequence[str] | None = None,
    of: str = "",
) -> dict[str, str]:
    """Draw group priors (L, K) on one logarithmic colour scale, columns brought to 100 %, see ``label_shares``.

    Args:
        estimated: (L, K).
        true: (L, K), where it is known.
        label_names: L names.
        attribute_names: K names.
        of: Name of the run, for those who do not see the figure.

    Returns:
        ``estimated`` and, where it is given, ``true``.
    """
    from matplotlib.colors import LogNorm

    def number(share: float) -> str:
        """As few digits as tell a share apart, since they stand in a small cell."""
        if share >= 99.95 or 9.95 <= share < 99.5 or share == 0:
            return f"{share:.0f}"
        return f"{share:.1f}" if share >= 0.95 else f"{share:.2f}".lstrip("0") if share >= 0.005 else "<.01"

    figures = {}
    for title, table in (("Estimated", estimated), ("True", true)):
        if table is not None:
            share = label_shares(table)
            rows = list(label_names or map(str, range(share.shape[0])))
            columns = list(attribute_names or map(str, range(share.shape[1])))
            description = f"{title} group prior{f' of {of}' if of else ''} by label and attribute"
            norm = LogNorm(0.01, 100, clip=True)
            figures[title.lower()] = _heatmap(title, share, rows, columns, SHARE_COLORS, norm, number, description)
    return figures


def label_shares(prior: ArrayLike) -> NDArray[np.float64]:
    """Return P(y | a) in per cent from a group prior (L, K); NaN for an attribute value that never occurs.

    A factor common to all labels of an attribute value shifts all logits of a row alike. So only the shares of the
    labels within an attribute value matter, and only those can be compared between estimators.

    >>> label_shares([[0.4, 0.1], [0.1, 0.4]])
    array([[80., 20.],
           [20., 80.]])
    """
    table = np.asarray(prior, dtype=np.float64)
    total = table.sum(axis=0, keepdims=True)
    return np.asarray(100 * table / np.where(total > 0, total, np.nan))


def _heatmap(
    title: str,
    value: NDArray[Any],
    rows: Sequence[object],
    columns: Sequence[object],
    colors: Sequence[str],
    norm: Any,
    number: Callable[[float], str],
    description: str,
    outlined: NDArray[np.bool_] | None = None,
) -> str:
    """Draw a table of numbers (NaN: no rows), as wide as a phone however many columns there are."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba
    from matplotlib.patches import Rectangle

    (height, width), numbered = value.shape, max(value.shape) <= 16
    ground = LinearSegmentedColormap.from_list("ours", list(colors))(norm(np.nan_to_num(value, nan=100)))
    ground[np.isnan(value)] = to_rgba(EMPTY)

    def paint(axes: Axes) -> None:
        edges = np.arange(width + 1) - 0.5, np.arange(height + 1) - 0.5
        line = 0.8 if numbered else 0
        axes.pcolormesh(*edges, ground, edgecolor=PAPER, linewidth=line, rasterized=value.size > 2500)
        for (y, x), one in np.ndenumerate(value) if numbered else ():
            red, green, blue = (channel**2.2 for channel in ground[y, x, :3])
            readable = "#ffffff" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.32 else "#161c26"
            text, color = ("–", MUTED) if np.isnan(one) else (number(one), readable)
            axes.text(x, y, text, ha="center", va="center", fontsize=7, color=color)
        for y, x in np.argwhere(outlined) if outlined is not None else ():
            axes.add_patch(Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, fill=False, edgecolor=OUTLINE, linewidth=1.5))
        axes.set_ylim(height - 0.5, -0.5)
        turned = max(len(str(name)) for name in columns) > 2
        turn: dict[str, Any] = {"rotation": 50, "ha": "right", "rotation_mode": "anchor"} if turned else {}
        every = max(1, -(-max(height, width) // 24))
        axes.set_xticks(range(0, width, every), [shorten(name, 14) for name in columns[::every]], **turn)
        axes.set_yticks(range(0, height, every), [shorten(name, 14) for name in rows[::every]])
        axes.tick_params(pad=2)
        axes.spines[:].set_visible(False)
        axes.set(xlabel="attribute", ylabel="label", title=shorten(title, 40))

    size = min(0.42, 2.85 / max(width, 1))
    return draw(size * width, size * height, description, paint)


def curves(metrics: Mapping[str, pd.DataFrame], colors: Mapping[str, str] | None = None) -> dict[str, str]:
    """Draw the training loss and the validation accuracy over the epochs, each only where some run has recorded it.

    Of a method that trains other networks first, the last stage is drawn.

    Args:
        metrics: For each run the table of its ``metrics.csv``.
        colors: Colour of each run; by method if left out.

    Returns:
        ``loss`` and ``accuracy``.
    """
    accuracy = {"valid_average": ("average", "-"), "valid_group_balanced": ("group-balanced", "--")}
    figures, palette = {}, _colors(list(metrics), colors)
    for kind, title, scale in (("loss", "Training loss", 1), ("accuracy", "Validation accuracy, %", 100)):
        drawn: list[tuple[pd.DataFrame, str, str, str]] = []
        for name, table in metrics.items():
            # The total of a method with two networks says little beside theirs.
            parts = {"loss_robust": ("robust network", "-"), "loss_biased": ("biased network", ":")}
            losses = parts if "loss_robust" in table else {"loss": ("loss", "-")}
            lines = accuracy if kind == "accuracy" else losses
            known = [(curve_points(table, column), *how) for column, how in lines.items()]
            known = [one for one in known if len(one[0])]
            for points, meaning, dash in known:
                label = shorten(name, 24) + (f", {meaning}" if len(known) > 1 else "")
                drawn.append((points.assign(value=scale * points["value"]), label, dash, palette[name]))
        if drawn:
            figures[kind] = _curve_figure(title, ", ".join(metrics), drawn, 102 if kind == "accuracy" else None)
    return figures


def _curve_figure(
    title: str, names: str, lines: Sequence[tuple[pd.DataFrame, str, str, str]], top: float | None
) -> str:
    """Draw lines, each of points, label, dash and colour."""

    def paint(axes: Axes) -> None:
        for points, label, dash, color in lines:
            mark = "o" if len(points) == 1 else None
            axes.plot(points["epoch"], points["value"], dash, color=color, label=label, linewidth=1.5, marker=mark)
        axes.set_ylim(0, top)
        axes.set_xlim(0, max(points["epoch"].max() for points, *_ in lines))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("epoch")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=2, handlelength=1.6, columnspacing=1.2)
        axes.set_title(title, pad=8 + 12 * -(-len(lines) // 2))

    return draw(3.15, 1.7, f"{title} of {names}", paint)


def curve_points(table: pd.DataFrame, column: str, most: int = 120) -> pd.DataFrame:
    """Return a curve of the last stage, at most ``most`` points, each the mean over an equal stretch.

    Args:
        table: ``metrics.csv`` with the columns step, epoch and stage; a missing value is an empty cell.
        column: The column to draw.
        most: Largest number of points.

    Returns:
        Frame with the columns ``epoch`` (epochs done, with fractions) and ``value``; empty where the column is missing
        or holds no finite number.

    >>> table = pd.DataFrame({"step": range(1, 7), "epoch": [0, 0, 0, 1, 1, 1], "loss": [6.0, 5, 4, 3, 2, 1]})
    >>> curve_points(table, "loss", most=2)
       epoch  value
    0    1.0    5.0
    1    2.0    2.0
    """
    if column not in table or table.empty:
        return pd.DataFrame({"epoch": [], "value": []})
    stage = table["stage"].fillna(0).to_numpy() if "stage" in table else np.zeros(len(table))
    own, step = stage == stage.max(), table["step"].ffill().fillna(0).to_numpy(float)
    before = step[~own].max() if (~own).any() and step[~own].max() < step[own].min() else 0.0
    # A row of the validation counts the epochs that are done, that of a step those before it.
    done = table["epoch"][own & table.filter(regex="^valid_").notna().any(axis=1).to_numpy()].max()
    epochs = table["epoch"][own].max() + 1 if pd.isna(done) else done
    value = pd.to_numeric(table[column], errors="coerce").to_numpy(float)
    epoch = (step - before) / max(step[own].max() - before, 1) * epochs
    points = pd.DataFrame({"epoch": epoch, "value": value})[own & np.isfinite(value)]
    if len(points) > most:
        stretch = np.ceil(points["epoch"] * most / points["epoch"].max()).astype(int)
        points = points.groupby(stretch).agg({"epoch": "max", "value": "mean"})
    return points.reset_index(drop=True)


def make_logarithmic(axes: Axes) -> None:
    """Let the y axis be logarithmic, with numbers as people write them: 1, 2, 5, 10."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
