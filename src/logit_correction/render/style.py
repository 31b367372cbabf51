"""Figures that become SVG text: one look, no dates, the same bytes for the same data."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of text, secondary text, lines and ground. Each occurs in a figure for that purpose only, so that a
#: page can put its own theme in their place.
INK, MUTED, RULE, PAPER = "#1d2430", "#646d7a", "#d6dbe1", "#fffffe"

#: Ground of a cell without rows.
EMPTY = "#e9ebee"

#: Outline of a group that follows the correlation; seen on pale and on dark cells.
OUTLINE = "#e08a00"

#: Pale to deep, ordered by lightness alone, so that they hold in grey and for every kind of colour vision.
ACCURACY_COLORS = ("#f6efe3", "#cfd9e2", "#8fb3d3", "#3f82b8", "#0f4c81", "#0a2f52")
SHARE_COLORS = ("#faf3ee", "#f0d3c8", "#d99ab0", "#ac5f9f", "#6f3487", "#3b1259")

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
    """Return one axes of ``width`` x ``height`` inches, painted by ``paint``, as an SVG element.

    Args:
        width: Of the axes; labels and the title come on top.
        height: Of the axes.
        description: What a person who does not see the figure is told.
        paint: Draws on the axes.
    """
    return _finish(_saved(width, height, description, paint, "svg").decode(), description)


def draw_png(width: float, height: float, description: str, paint: Callable[[Axes], None], dpi: int = 200) -> bytes:
    """Return the figure that ``draw`` returns as a PNG image."""
    return _saved(width, height, description, paint, "png", dpi)


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
        settings.update(_SETTINGS)
        settings["svg.hashsalt"] = description
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer's font draws the text, not ours
        figure, stream = Figure(figsize=(width, height), dpi=dpi), io.BytesIO()
        paint(figure.add_axes((0, 0, 1, 1)))
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        # The box is measured here, since ``bbox_inches="tight"`` draws the whole figure once more for it.
        renderer = (
            RendererSVG(width, height, io.StringIO()) if kind == "svg" else FigureCanvasAgg(figure).get_renderer()
        )
        box = figure.get_tightbbox(renderer).padded(0.04)
        figure.savefig(stream, format=kind, dpi=dpi, metadata=metadata, bbox_inches=box)
    return stream.getvalue()


def _finish(svg: str, description: str) -> str:
    """The svg element alone, without metadata and ids that nothing refers to, with a description."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)


def readable_on(rgba: Sequence[float]) -> str:
    """Return the text colour that is read well on a ground."""
    red, green, blue = (channel**2.2 for channel in rgba[:3])
    return "#ffffff" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.32 else "#161c26"


def shorten(name: object, length: int = 22) -> str:
    """Return a name on one line, of at most ``length`` characters."""
    text = " ".join(str(name).split())
    return text if len(text) <= length else text[: length - 1] + "…"


def make_logarithmic(axes: Axes) -> None:
    """Let the y axis be logarithmic, with numbers as people write them: 1, 2, 5, 10."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
