"""What pages draw: colours of methods, the curve of a training, and images as text that a page can hold."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

if TYPE_CHECKING:
    from torch import Tensor

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


def assign_colors(methods: Mapping[str, str]) -> dict[str, str]:
    """Return a colour for each name, given its method: that of the method, or a spare one if another name has it."""
    own = {color: name for name, method in reversed([*methods.items()]) if (color := METHOD_COLORS.get(method))}
    own |= {METHOD_COLORS[name]: name for name in methods if name in METHOD_COLORS}  # whose name is its method's
    spare = (color for color in _SPARE if color not in own)
    first = {name: color for color, name in own.items()}
    return {name: first.get(name) or next(spare, METHOD_COLORS["ERM"]) for name in methods}


def build_accuracy_curve(metrics: Mapping[str, pd.DataFrame], colors: Mapping[str, str]) -> dict[str, Any] | None:
    """Return how to draw the validation accuracy of runs, by their ``metrics.csv``; None where there is none.

    Lines go over the epochs of the last stage. Points are in per cent of the width and of the height, from the top.
    """
    known = {name: select_metric_by_epoch(table, "valid_average") for name, table in metrics.items()}
    lines = {name: line for name, line in known.items() if len(line)}
    if not lines:
        return None
    epochs = [epoch for line in lines.values() for epoch in line.index]
    first, length = min(epochs), max(1, max(epochs) - min(epochs))

    def place(epoch: Any) -> float:
        return 100 * (epoch - first) / length

    ticks = range(math.ceil(first), int(max(epochs)) + 1, math.ceil(length / 8))
    return {
        "ticks": {epoch: place(epoch) for epoch in ticks},
        "lines": [
            {"name": name, "color": colors[name], "points": [(place(x), 100 - 100 * y) for x, y in line.items()]}
            for name, line in lines.items()
        ],
    }


def select_metric_by_epoch(table: pd.DataFrame, column: str) -> pd.Series[float]:
    """Return a validation figure of ``metrics.csv`` after each epoch of the last stage, where it is finite."""
    if column not in table or table.empty:
        return pd.Series(dtype=float)
    last = table[table["stage"] == table["stage"].max()]
    return last[column].replace([np.inf, -np.inf], np.nan).groupby(last["epoch"]).mean().dropna()


# -- Images of rows, as text that a page can hold

_IMAGE_URI = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/]+={0,2}")

#: Images whose longer side has at most so many pixels are kept exactly; larger ones are photos, which JPEG keeps small.
_MAX_EXACT_SIDE = 128


def encode_png_uris(images: Tensor, longest: int = 128) -> list[str]:
    """Encode images (N, 1 or 3, H, W) uint8 as PNG data URIs, their longer side at most ``longest`` pixels."""
    return [_encode_image(pixels, longest, "png") for pixels in images.cpu().permute(0, 2, 3, 1).numpy()]


def encode_picture(pixels: NDArray[np.uint8], max_side: int) -> str:
    """Encode a picture (3, H, W) as a data URI: small ones exactly, larger ones as JPEG.

    Args:
        pixels: The whole picture; nothing is cut off.
        max_side: Larger pictures are reduced until their longer side has so many pixels.
    """
    is_small = max(pixels.shape[1:]) <= _MAX_EXACT_SIDE
    return _encode_image(pixels.transpose(1, 2, 0), max_side, "png" if is_small else "jpeg")


def _encode_image(pixels: NDArray[np.uint8], max_side: int, image_format: str) -> str:
    """Encode pixels (H, W, 1 or 3) as a data URI."""
    stream = io.BytesIO()
    image = Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
    image.thumbnail((max_side, max_side))
    image.save(stream, image_format, optimize=True)
    content = base64.b64encode(stream.getvalue()).decode()
    return f"data:image/{image_format};base64,{content}"


def is_image_uri(text: Any) -> bool:
    """Return whether ``text`` is a data URI of an image: a page loads nothing from elsewhere."""
    return isinstance(text, str) and _IMAGE_URI.fullmatch(text) is not None
