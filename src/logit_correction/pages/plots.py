"""Draws what pages show: colours of methods, the curve of a training, and images as text inside HTML."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

#: Each method has one colour on all pages; every kind of colour vision can distinguish them (after Okabe and Ito).
METHOD_COLORS = {
    "ERM": "#8b909a",
    "LC": "#0072b2",
    "JTT": "#d55e00",
    "StagedLC": "#009e73",
    "GroupDRO": "#cc79a7",
    "LfF": "#e69f00",
    "DFA": "#56b4e9",
    "Reweighting": "#7a4fa3",
}
#: Colours of further series.
_SPARE_COLORS = (
    "#b03a5b",
    "#6b8e23",
    "#3f4a5a",
    "#a0522d",
    *list(METHOD_COLORS.values())[2:],
)


def assign_series_colors(method_by_series: Mapping[str, str]) -> dict[str, str]:
    """Return a colour for each series: that of its method, or a spare one if another series of the method has it.

    Args:
        method_by_series: Name of a series -> name of its method.
    """
    owners: dict[str, str] = {}  # colour -> series; one that is called like its method comes before others
    for name, method in sorted(method_by_series.items(), key=lambda item: item[0] not in METHOD_COLORS):
        color = METHOD_COLORS.get(name) or METHOD_COLORS.get(method)
        if color:
            owners.setdefault(color, name)
    colors = {name: color for color, name in owners.items()}
    spare_colors = (color for color in _SPARE_COLORS if color not in owners)
    return {name: colors.get(name) or next(spare_colors, METHOD_COLORS["ERM"]) for name in method_by_series}


def build_accuracy_curve(metrics: Mapping[str, pd.DataFrame], colors: Mapping[str, str]) -> dict[str, Any] | None:
    """Return how to draw the validation accuracy of series over the epochs of their last stage.

    Args:
        metrics: Series -> its ``metrics.csv``.
        colors: Series -> CSS colour.

    Returns:
        ``ticks``, epoch -> place on the horizontal axis, and ``lines`` with points ``(x, y)``, both in per cent from
        the left and from the top; None if no series has a validation accuracy.
    """
    curves = {name: average_metric_by_epoch(table, "valid_average") for name, table in metrics.items()}
    epochs = [epoch for curve in curves.values() for epoch in curve.index]
    if not epochs:
        return None
    first_epoch = min(epochs)
    num_epochs = max(1, max(epochs) - first_epoch)

    def scale(epoch: Any) -> float:
        return 100 * (epoch - first_epoch) / num_epochs

    ticks = range(math.ceil(first_epoch), int(max(epochs)) + 1, math.ceil(num_epochs / 8))
    lines = []
    for name, curve in curves.items():
        if len(curve):
            points = [(scale(epoch), 100 - 100 * accuracy) for epoch, accuracy in curve.items()]
            lines.append({"name": name, "color": colors[name], "points": points})
    return {"ticks": {epoch: scale(epoch) for epoch in ticks}, "lines": lines}


def average_metric_by_epoch(table: pd.DataFrame, column: str) -> pd.Series[float]:
    """Return the mean of a validation metric in each epoch of the last stage, without values that are not finite.

    Args:
        table: A run's ``metrics.csv``.
        column: Name of the metric, such as ``valid_average``.
    """
    if column not in table or table.empty:
        return pd.Series(dtype=float)
    last_stage = table[table["stage"] == table["stage"].max()]
    return last_stage[column].replace([np.inf, -np.inf], np.nan).groupby(last_stage["epoch"]).mean().dropna()


# -- Images of rows, as text that a page can hold

_IMAGE_URI = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/]+={0,2}")

#: Images whose longer side has at most so many pixels are kept exactly; larger ones are photos, which JPEG keeps small.
_MAX_EXACT_SIDE = 128


def encode_picture(pixels: NDArray[np.uint8], max_side: int = _MAX_EXACT_SIDE) -> str:
    """Encode a picture (1 or 3, H, W) as a data URI: small ones exactly, larger ones as JPEG.

    Args:
        pixels: The whole picture; nothing is cut off.
        max_side: Larger pictures are reduced until their longer side has so many pixels.
    """
    image_format = "png" if max(pixels.shape[1:]) <= _MAX_EXACT_SIDE else "jpeg"
    stream = io.BytesIO()
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    image.thumbnail((max_side, max_side))
    image.save(stream, image_format, optimize=True)
    return f"data:image/{image_format};base64,{base64.b64encode(stream.getvalue()).decode()}"


def is_image_uri(text: Any) -> bool:
    """Return whether ``text`` is a data URI of an image: a page loads nothing from elsewhere."""
    return isinstance(text, str) and _IMAGE_URI.fullmatch(text) is not None
