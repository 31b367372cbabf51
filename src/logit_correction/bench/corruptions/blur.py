"""Blur: Gaussian, defocus, glass, motion and zoom."""

from __future__ import annotations

import numpy as np

from logit_correction.bench.corruptions import geometry
from logit_correction.bench.corruptions.streams import Floats, Streams

GAUSSIAN = (0.4, 0.6, 0.7, 0.8, 1.0)
#: Radius of the disk, and the standard deviation of the blur of its edge.
DEFOCUS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
#: Standard deviation of the blur before and after, and how often pixels are exchanged with neighbours.
GLASS = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))
#: Radius and standard deviation of the kernel.
MOTION = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))
#: Number of images, zoomed 1, 1.01, 1.02, ... times.
ZOOM = (7, 12, 16, 21, 26)


def gaussian_blur(images: Floats, severity: int, streams: Streams) -> Floats:
    """A Gaussian kernel of standard deviation 0.4, 0.6, 0.7, 0.8, 1 pixels."""
    return geometry.gaussian_blur(images, GAUSSIAN[severity - 1])


def defocus_kernel(severity: int) -> Floats:
    """Return the disk (5, 5) that a point becomes out of focus; sums to one."""
    from scipy.ndimage import correlate1d

    radius, edge = DEFOCUS[severity - 1]
    away = np.arange(-2, 3)
    disk = (away[:, None] ** 2 + away**2 <= radius**2).astype(np.float64)
    soft = np.exp(-(np.arange(-1, 2) ** 2) / (2 * edge**2))
    kernel = disk / disk.sum()
    for axis in (0, 1):
        kernel = correlate1d(kernel, soft / soft.sum(), axis, mode="constant")
    return kernel


def defocus_blur(images: Floats, severity: int, streams: Streams) -> Floats:
    """A disk-shaped kernel with a softened edge."""
    from scipy.ndimage import correlate

    kernel = defocus_kernel(severity)[None, :, :, None]
    return np.asarray(correlate(images, kernel, mode="mirror"))


def glass_blur(images: Floats, severity: int, streams: Streams) -> Floats:
    """Blur, let pixels take the colour of a neighbour above or to the left, or their own, and blur again.

    The published images were made by a walk from the lower right to the upper left whose exchange leaves
    the neighbour as it is. No pixel is then read after it was written, so the walk is one gather.
    """
    sigma, rounds = GLASS[severity - 1]
    height, width = images.shape[1:3]
    result = np.floor(geometry.gaussian_blur(images, sigma) * 255 + 1e-9) / 255
    number = np.arange(len(images))[:, None, None]
    for _ in range(rounds):
        back = (streams.uniform(2, height - 2, width - 2) < 0.5).astype(np.int64)
        rows = np.arange(2, height)[:, None] - back[:, 0]
        columns = np.arange(2, width) - back[:, 1]
        result[:, 2:, 2:] = result[number, rows, columns]
    return geometry.gaussian_blur(result, sigma)


def motion_blur(images: Floats, severity: int, streams: Streams) -> Floats:
    """A one-sided Gaussian along a direction drawn from -45 to 45 degrees."""
    radius, sigma = MOTION[severity - 1]
    return geometry.motion_blur(images, radius, sigma, 45 * streams.symmetric(1)[:, 0])


def zoom_blur(images: Floats, severity: int, streams: Streams) -> Floats:
    """The mean of the image and of images zoomed 1, 1.01, ... times, up to 1.06, 1.11, 1.15, 1.20, 1.25."""
    lines = np.moveaxis(images, 3, 1)
    total = lines.copy()
    for step in range(ZOOM[severity - 1]):
        rows, columns = (geometry.zoom_matrix(size, 1 + 0.01 * step) for size in lines.shape[2:])
        total += rows @ lines @ columns.T
    return np.moveaxis(total / (ZOOM[severity - 1] + 1), 1, 3)
