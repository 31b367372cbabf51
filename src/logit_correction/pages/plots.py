"""Figures as SVG elements: one look, the same bytes for the same data. And images as text that a page can hold."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from PIL import Image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

#: Colours of text, secondary text, lines and ground. Each occurs in a figure for that purpose only, so that a page can
#: put its own theme in their place.
INK, MUTED, RULE, PAPER = "#1d2430", "#646d7a", "#d6dbe1", "#fffffe"

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
_SPARE = ("#b03a5b", "#6b8e23", "#3f4a5a", "#a0522d", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fa3")

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a label's name is a dollar sign
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so the layout is the same everywhere
    "font.size": 8,
    "text.color": INK,
    "axes.axisbelow": True,
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

    ``description`` is what a person who does not see the figure is told.
    """
    from matplotlib import style
    from matplotlib.backends.backend_svg import RendererSVG
    from matplotlib.figure import Figure

    # The salt keeps the ids of two figures on one page apart, and makes them the same in every run.
    settings: Any = ["default", _SETTINGS | {"svg.hashsalt": description}]  # no trace of a user's own
    with style.context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer's font draws the text, not ours
        figure, stream = Figure(figsize=(width, height), dpi=72), io.StringIO()
        paint(figure.add_axes((0, 0, 1, 1)))
        # The box is measured here, since ``bbox_inches="tight"`` draws the whole figure once more for it.
        box = figure.get_tightbbox(RendererSVG(width, height, io.StringIO())).padded(0.04)
        figure.savefig(stream, format="svg", metadata={"Date": None}, bbox_inches=box)
    text = stream.getvalue()
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :].strip(), flags=re.DOTALL)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)


def shorten(name: object, length: int = 22) -> str:
    """Return a name on one line, of at most ``length`` characters."""
    text = " ".join(str(name).split())
    return text if len(text) <= length else text[: length - 1] + "…"


def series_colors(methods: Mapping[str, str]) -> dict[str, str]:
    """Return a colour for each name, given its method: that of the method, or a spare one if another name has it."""
    own = {color: name for name, method in reversed([*methods.items()]) if (color := METHOD_COLORS.get(method))}
    own |= {METHOD_COLORS[name]: name for name in methods if name in METHOD_COLORS}  # whose name is its method's
    spare = (color for color in _SPARE if color not in own)
    first = {name: color for color, name in own.items()}
    return {name: first.get(name) or next(spare, MUTED) for name in methods}


def accuracy_curve(metrics: Mapping[str, pd.DataFrame], colors: Mapping[str, str]) -> str | None:
    """Draw the validation accuracy of runs, by their ``metrics.csv``, over the epochs of their last stage."""
    known = {name: 100 * per_epoch(table, "valid_average") for name, table in metrics.items()}
    lines = {name: line for name, line in known.items() if len(line)}

    def paint(axes: Axes) -> None:
        for name, line in lines.items():
            axes.plot(line.index, line, "o-", ms=2, lw=1.5, color=colors[name], label=shorten(name, 24))
        axes.set_ylim(0, 102)
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("epoch")
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=1.6)

    return draw(3.6, 1.5, f"Validation accuracy of {', '.join(lines)}, %", paint) if lines else None


def per_epoch(table: pd.DataFrame, column: str) -> pd.Series[float]:
    """Return a validation figure of ``metrics.csv`` after each epoch of the last stage, where it is finite."""
    if column not in table or table.empty:
        return pd.Series(dtype=float)
    last = table[table["stage"] == table["stage"].max()]
    return last[column].replace([np.inf, -np.inf], np.nan).groupby(last["epoch"]).mean().dropna()


# -- Images of rows, as text that a page can hold

_PNG = re.compile(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}")


def png_uris(images: Tensor, longest: int = 128) -> list[str]:
    """Encode images (N, 1 or 3, H, W) uint8 as PNG data URIs, their longer side at most ``longest`` pixels."""
    uris = []
    for pixels in images.cpu().permute(0, 2, 3, 1).numpy():
        stream, image = io.BytesIO(), Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
        image.thumbnail((longest, longest))
        image.save(stream, "png", optimize=True)
        uris.append("data:image/png;base64," + base64.b64encode(stream.getvalue()).decode())
    return uris


def is_picture(text: Any) -> bool:
    """Return whether ``text`` is a PNG data URI: a page loads nothing from elsewhere."""
    return isinstance(text, str) and _PNG.fullmatch(text) is not None
