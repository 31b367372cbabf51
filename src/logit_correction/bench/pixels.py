"""Random numbers of its own for every image, and moving and blurring the pixels of a whole batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


class Streams:
    """N streams, each a counter-based generator keyed by (seed, number of the image).

    Everything is derived from the raw words of Philox, which NumPy keeps the same in all versions; its
    distributions it does not.
    """

    def __init__(self, seed: int, index: Integers) -> None:
        """Start the streams of a seed for images (N,) of these numbers."""
        key = np.array([seed, 0], np.uint64)
        self._words = []
        for number in index.astype(np.uint64):
            key[1] = number
            self._words.append(np.random.Philox(key=key))

    def __len__(self) -> int:
        return len(self._words)

    def uniform(self, *shape: int) -> Floats:
        """Return the next numbers of every stream, (N, *shape), uniform in the open interval (0, 1)."""
        count = int(np.prod(shape, dtype=np.int64))
        raw = np.empty((len(self), count), np.uint64)
        for row, words in enumerate(self._words):
            raw[row] = words.random_raw(count)
        return (((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(len(self), *shape)

    def symmetric(self, *shape: int) -> Floats:
        """Return numbers uniform in (-1, 1), (N, *shape)."""
        return 2 * self.uniform(*shape) - 1

    def normal(self, *shape: int) -> Floats:
        """Return standard normal numbers, (N, *shape)."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(*shape)), np.float64)


def gaussian_blur(images: Floats, sigma: float, mode: str = "nearest", truncate: float = 4.0) -> Floats:
    """Blur (N, H, W) or (N, H, W, C) over height and width by a kernel that ends after so many standard deviations."""
    from scipy.ndimage import gaussian_filter

    sigmas = (0, sigma, sigma, 0)[: images.ndim]
    return np.asarray(gaussian_filter(images, sigmas, mode=mode, truncate=truncate))


def motion_blur(images: Floats, radius: int, sigma: float, degrees: Floats) -> Floats:
    """Blur each image along a direction of its own (N,), as ImageMagick's motion blur does.

    The kernel is one-sided: pixel p takes pixels p, p + d, p + 2d, ... of falling Gaussian weight, 2 radius + 1 in all,
    rounded to whole pixels, edges repeated.
    """
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    angle = np.deg2rad(degrees)[:, None]
    across = np.ceil(steps * np.cos(angle) - 0.5).astype(np.int64)
    down = np.ceil(steps * np.sin(angle) - 0.5).astype(np.int64)
    height, width = images.shape[1:3]
    number = np.arange(len(images))[:, None, None]
    blurred = np.zeros_like(images)
    for step, weight in zip(steps, weights, strict=True):
        if weight < 1e-6:  # far below one grey level
            break
        rows = np.clip(np.arange(height) + down[:, step, None], 0, height - 1)
        columns = np.clip(np.arange(width) + across[:, step, None], 0, width - 1)
        blurred += weight * images[number, rows[:, :, None], columns[:, None, :]]
    return blurred


def zoom_matrix(size: int, factor: float) -> Floats:
    """Return the linear map (size, size) that zooms a line of pixels about its middle, by linear interpolation.

    The middle ``ceil(size / factor)`` pixels are stretched ``factor`` times and cut to ``size`` again.
    """
    kept = math.ceil(size / factor)
    stretched = round(kept * factor)
    start, cut = (size - kept) // 2, (stretched - size) // 2
    position = start + (cut + np.arange(size)) * ((kept - 1) / max(stretched - 1, 1))
    return np.clip(1 - np.abs(position[:, None] - np.arange(size)), 0, None)


def sample(images: Floats, rows: Floats, columns: Floats, half_sample: bool) -> Floats:
    """Read images (N, H, W, C) at real positions (N, H, W), bilinearly; beyond the edge they are mirrored.

    With ``half_sample`` at the pixel's outer edge, so that the edge pixel comes twice, rather than at its middle.
    """
    from scipy.ndimage import map_coordinates

    mode, number = "reflect" if half_sample else "mirror", np.arange(len(images))[:, None, None, None]
    places = np.broadcast_arrays(number, rows[..., None], columns[..., None], np.arange(images.shape[3]))
    return np.asarray(map_coordinates(images, places, order=1, mode=mode), np.float64)
