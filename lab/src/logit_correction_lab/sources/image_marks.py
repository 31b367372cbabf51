"""Marks that are planted into images as shortcuts: each has K values and is drawn with a strength that varies by image.

A mark may be as plain as a border or as faint as a shift of colour. What the value of a mark means is a level, a number
for each value (grey, width, quality or angle); a function draws the mark at these levels.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import gaussian_filter

#: (N, 3, H, W) in 0..255.
Images = NDArray[np.float32]

#: (N,) the level of each image's mark.
Levels = NDArray[np.float64]

#: Names of the levels of the mark ``corner``.
PLACES = ("top left", "top right", "bottom left", "bottom right", "top", "bottom", "left", "right")


def plant_mark(
    images: Images, name: str, values: NDArray[np.int64], num_values: int, rng: np.random.Generator
) -> Images:
    """Return images with a mark.

    Args:
        images: (N, 3, H, W) in 0..255; may be changed.
        name: A key of ``MARKS``.
        values: (N,) 0..K-1, the value of each image's mark.
        num_values: K.
        rng: Random numbers of strengths, places and noise.
    """
    make_levels, paint = MARKS[name]
    return paint(images, make_levels(num_values)[values], rng)


def _make_equal_angles(num_values: int) -> Levels:
    """Return K angles in [0, 2 pi), equally far apart."""
    return np.deg2rad(np.arange(num_values) * 360.0 / num_values)


def _broadcast_per_image(values: NDArray[np.float64]) -> Images:
    """Return a number for each image (N,) in the shape (N, 1, 1, 1)."""
    return values.astype(np.float32)[:, None, None, None]


def _shift_color(images: Images, hue: Levels, rng: np.random.Generator) -> Images:
    """Shift the mean of each channel; the shifts of the three channels sum to zero."""
    angle = hue[:, None] + np.deg2rad([0.0, -120.0, 120.0])
    strength = 24 * rng.uniform(0.6, 1.4, (len(hue), 1))
    return images + (strength * np.cos(angle)).astype(np.float32)[:, :, None, None]


def _draw_square(images: Images, place: Levels, rng: np.random.Generator) -> Images:
    """Draw a small bright square near a corner, or near the middle of a side from the fifth place on."""
    height, width = images.shape[2:]
    side = max(2, height // 10)
    margin = max(1, height // 32)
    starts = {"top": margin, "left": margin, "bottom": height - margin - side, "right": width - margin - side}
    for row, number in enumerate(place.astype(int).tolist()):
        words = PLACES[number].split()
        top = next((starts[word] for word in words if word in ("top", "bottom")), (height - side) // 2)
        left = next((starts[word] for word in words if word in ("left", "right")), (width - side) // 2)
        images[row, :, top : top + side, left : left + side] = rng.uniform(225, 255)
    return images


def _draw_border(images: Images, grey: Levels, rng: np.random.Generator) -> Images:
    """Draw a grey border; its brightness varies a little from image to image."""
    width = max(1, images.shape[2] // 16)
    color = _broadcast_per_image(grey + rng.normal(0, 10, len(grey)))
    for edge in (np.s_[:, :, :width], np.s_[:, :, -width:], np.s_[:, :, :, :width], np.s_[:, :, :, -width:]):
        images[edge] = color
    return images


def _blur_images(images: Images, sigma: Levels, rng: np.random.Generator) -> Images:
    """Blur by a Gaussian; its width is in pixels of an image of 32 pixels."""
    widths = sigma * rng.uniform(0.85, 1.15, len(sigma)) * images.shape[2] / 32
    for row, width in enumerate(widths.tolist()):
        if width > 0:
            images[row] = gaussian_filter(images[row], (0, width, width))
    return images


def _add_noise(images: Images, deviation: Levels, rng: np.random.Generator) -> Images:
    """Add Gaussian noise to every pixel."""
    strength = _broadcast_per_image(deviation * rng.uniform(0.85, 1.15, len(deviation)))
    return images + strength * rng.standard_normal(images.shape, np.float32)


def _compress_images(images: Images, quality: Levels, rng: np.random.Generator) -> Images:
    """Write and read as JPEG."""
    qualities = quality + rng.integers(-3, 4, len(quality))
    pixels = images.transpose(0, 2, 3, 1).astype(np.uint8)
    for row, value in enumerate(qualities.tolist()):
        images[row] = np.asarray(compress_as_jpeg(Image.fromarray(pixels[row]), int(value))).transpose(2, 0, 1)
    return images


def compress_as_jpeg(image: Image.Image, quality: int) -> Image.Image:
    """Return an image as it is after it was written as JPEG, at a quality of 0 to 100."""
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return Image.open(stream)


def _project_pixels_on_direction(images: Images, angle: NDArray[np.float64]) -> Images:
    """Return for each image and pixel how far it lies along a direction (N, H, W), in pixels from the middle."""
    down, right = (np.arange(size) - (size - 1) / 2 for size in images.shape[2:])
    angle = angle[:, None, None]
    return (np.cos(angle) * right - np.sin(angle) * down[:, None]).astype(np.float32)


def _add_stripes(images: Images, direction: Levels, rng: np.random.Generator) -> Images:
    """Add faint stripes of any phase, about five pixels apart."""
    num_images = len(direction)
    angle = direction + rng.normal(0, 0.05, num_images)
    period = rng.uniform(4.5, 5.5, num_images) * images.shape[2] / 32
    phase = rng.uniform(0, 2 * np.pi, num_images)
    strength = 9 * rng.uniform(0.6, 1.4, num_images)
    turns = _project_pixels_on_direction(images, angle) * (2 * np.pi / period)[:, None, None] + phase[:, None, None]
    return images + (strength[:, None, None] * np.sin(turns)).astype(np.float32)[:, None]


def _light_from_side(images: Images, direction: Levels, rng: np.random.Generator) -> Images:
    """Make one side brighter and the other darker."""
    angle = direction + rng.normal(0, 0.1, len(direction))
    strength = 0.35 * rng.uniform(0.6, 1.4, len(direction))
    ramp = _project_pixels_on_direction(images, angle) / (max(images.shape[2:]) / 2)
    return images * (1 + strength[:, None, None] * ramp).astype(np.float32)[:, None]


#: Name -> the levels of K values, and the function that draws the mark at them.
MARKS: dict[str, tuple[Callable[[int], Levels], Callable[[Images, Levels, np.random.Generator], Images]]] = {
    "cast": (_make_equal_angles, _shift_color),
    "corner": (np.arange, _draw_square),
    "frame": (lambda num_values: np.linspace(40, 215, num_values), _draw_border),
    "blur": (lambda num_values: np.linspace(0, 1.2, num_values), _blur_images),
    "noise": (lambda num_values: np.linspace(0, 18, num_values), _add_noise),
    "jpeg": (lambda num_values: np.geomspace(92, 55, num_values).round(), _compress_images),
    "texture": (lambda num_values: np.deg2rad(np.arange(num_values) * 180.0 / num_values), _add_stripes),
    "light": (_make_equal_angles, _light_from_side),
}
