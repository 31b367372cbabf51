"""Figures of grids as SVG elements: one look, the same bytes for the same data."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

#: Colours of text, secondary text, lines and ground. Each occurs in a figure for that purpose only, so that a page can
#: put its own theme in their place.
INK, MUTED, RULE, PAPER = "#1d2430", "#646d7a", "#d6dbe1", "#fffffe"

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


def inline_svg(svg: str) -> Markup:
    """Return a figure of ours as part of an HTML page: in the page's colours, as wide as its place allows."""
    from markupsafe import Markup

    for name, colour in {"ink": INK, "muted": MUTED, "rule": RULE, "paper": PAPER}.items():
        svg = svg.replace(colour, f"var(--{name})")
    opening, rest = svg.split(">", 1)
    width = re.search(r' width="([\d.]+)pt"', opening)
    opening = re.sub(r' (?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", opening)
    # The text within was escaped when the figure was drawn.
    return Markup(f'{opening} style="--width: {float(width[1]) if width else 300:.0f}">{rest}')
