"""What is planted into images: each mark has K values, drawn into an image with a strength of its own."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

#: (N, 3, H, W) in 0..255.
Images = NDArray[np.float32]
Values = NDArray[np.int64]
Paint = Callable[[Images, Values, int, np.random.Generator], Images]


#: What K values of a mark mean: grey, width in pixels, standard deviation, quality.
LEVELS: dict[str, Callable[[int], NDArray[np.float64]]] = {
    "frame": lambda num_values: np.linspace(40, 215, num_values),
    "blur": lambda num_values: np.linspace(0, 1.2, num_values),
    "noise": lambda num_values: np.linspace(0, 18, num_values),
    "jpeg": lambda num_values: np.geomspace(92, 55, num_values).round(),
}


def _turns(num_values: int, whole: float) -> NDArray[np.float64]:
    """Return K angles in degrees, equally far apart in ``whole`` degrees."""
    return np.arange(num_values) * whole / num_values


def _cast(images: Images, values: Values, num_values: int, draw: np.random.Generator) -> Images:
    """Shift the mean of each channel; what the three channels gain sums to zero."""
    hue = np.deg2rad(_turns(num_values, 360))[values][:, None] + np.deg2rad([0.0, -120.0, 120.0])
    strength = 24 * draw.uniform(0.6, 1.4, (len(values), 1))
    return images + (strength * np.cos(hue)).astype(np.float32)[:, :, None, None]


PLACES = ("top left", "top right", "bottom left", "bottom right", "top", "bottom", "left", "right")


def _corner(images: Images, values: Values, num_values: int, draw: np.random.Generator) -> Images:
    """Draw a small bright square near a corner, or near the middle of a side from the fifth value on."""
    height, width = images.shape[2:]
    side, margin = max(2, height // 10), max(1, height // 32)
    for row, value in enumerate(values.tolist()):
        place = PLACES[value]
        top = margin if "top" in place else height - margin - side if "bottom" in place else (height - side) // 2
        left = margin if "left" in place else width - margin - side if "right" in place else (width - side) // 2
        images[row, :, top : top + side, left : left + side] = draw.uniform(225, 255)
    return images


def _frame(images: Images, values: Values, num_values: int, draw: np.random.Generator) -> Images:
    """Draw a grey border; brightness varies a little from image to image."""
    width = max(1, images.shape[2] // 16)
    grey = (LEVELS["frame"](num_values)[values] + draw.normal(0, 10, len(values))).astype(np.float32)
    for edge in (np.s_[:, :, :width], np.s_[:, :, -width:], np.s_[:, :, :, :width], np.s_[:, :, :, -width:]):
        images[edge] = grey[:, None, None, None]
    return images


def _blur(images: Images, values: Values, num_values: int, draw: np.random.Generator) -> Images:
    """Blur by a Gaussian; its width is in pixels of an image of 32 pixels."""
    from scipy.ndimage import gaussian_filter

    sigma = LEVELS["blur"](num_values)[values] * draw.uniform(0.85, 1.15, len(values)) * images.shape[2] / 32
    for row, width in enumerate(sigma.tolist()):
        if width > 0:
            images[row] = gaussian_filter(images[row], (0, width, width))
    return images


def _noise(images: Images, values: Values, num_values: int, draw: np.random.Generator) -> Images:
    """Add Gaussian noise to every pixel."""
    strength = LEVELS["noise"](num_values)[values] * draw.uniform(0.85, 1.15, len(values))
    return images + strength.astype(np.float32)[:, None, None, None] * draw.standard_normal(images.shape, np.float32)


def _jpeg(images: Images, values: Values, num_values: int, draw: np.random.Generator) -> Images:
    """Pack as JPEG and unpack."""
    quality = LEVELS["jpeg"](num_values)[values] + draw.integers(-3, 4, len(values))
    pixels = images.transpose(0, 2, 3, 1).astype(np.uint8)
    for row, level in enumerate(quality.tolist()):
        packed = io.BytesIO()
        Image.fromarray(pixels[row]).save(packed, "JPEG", quality=int(level))
        images[row] = np.asarray(Image.open(packed)).transpose(2, 0, 1)
    return images


def _across(images: Images, angle: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return for each image and pixel how far it lies along a direction (N, H, W), in pixels from the middle."""
    down, right = (np.arange(size) - (size - 1) / 2 for size in images.shape[2:])
    along = np.cos(angle)[:, None, None] * right[None, None, :] - np.sin(angle)[:, None, None] * down[None, :, None]
    return along.astype(np.float32)


def _texture(images: Images, values: Values, num_values: int, draw: np.random.Generator) -> Images:
    """Add faint stripes of any phase, about five pixels apart, whose direction is the value."""
    angle = np.deg2rad(_turns(num_values, 180))[values] + draw.normal(0, 0.05, len(values))
    period = draw.uniform(4.5, 5.5, len(values)) * images.shape[2] / 32
    phase = draw.uniform(0, 2 * np.pi, len(values))
    strength = 9 * draw.uniform(0.6, 1.4, len(values))
    turns = _across(images, angle) * (2 * np.pi / period)[:, None, None] + phase[:, None, None]
    return images + (strength[:, None, None] * np.sin(turns)).astype(np.float32)[:, None]


def _light(images: Images, values: Values, num_values: int, draw: np.random.Generator) -> Images:
    """Make one side brighter and the other darker; in the middle everything stays."""
    angle = np.deg2rad(_turns(num_values, 360))[values] + draw.normal(0, 0.1, len(values))
    strength = 0.35 * draw.uniform(0.6, 1.4, len(values))
    ramp = _across(images, angle) / (max(images.shape[2:]) / 2)
    return images * (1 + strength[:, None, None] * ramp).astype(np.float32)[:, None]


#: Name -> what paints it: images, values (N,) 0..K-1, K, random numbers; it may change its input.
MARKS: dict[str, Paint] = {
    "cast": _cast,
    "corner": _corner,
    "frame": _frame,
    "blur": _blur,
    "noise": _noise,
    "jpeg": _jpeg,
    "texture": _texture,
    "light": _light,
}
