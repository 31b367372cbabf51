"""Noise: Gaussian, shot, impulse and speckle."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from logit_correction.bench.corruptions.streams import Floats, Streams

GAUSSIAN = (0.04, 0.06, 0.08, 0.09, 0.10)
SHOT = (500, 250, 100, 75, 50)
IMPULSE = (0.01, 0.02, 0.03, 0.05, 0.07)
SPECKLE = (0.06, 0.1, 0.12, 0.16, 0.2)


def gaussian_noise(images: Floats, severity: int, streams: Streams) -> Floats:
    """Add s n to x, with n standard normal and s = 0.04, 0.06, 0.08, 0.09, 0.10."""
    return images + GAUSSIAN[severity - 1] * streams.normal(*images.shape[1:])


def shot_noise(images: Floats, severity: int, streams: Streams) -> Floats:
    """Poisson(c x) / c with c = 500, 250, 100, 75, 50 photons at full brightness."""
    photons = SHOT[severity - 1]
    table, lengths = _poisson_table(photons)
    level = np.rint(images * 255).astype(np.int64)
    # Level and probability make one ascending number, so that one search looks in all 256 tables at once.
    found = np.searchsorted(table, level + streams.uniform(*images.shape[1:]), side="left")
    return np.asarray((found - lengths[level]) / photons)


@cache
def _poisson_table(photons: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return level + cumulative probabilities of all grey levels in one line, and where each level begins."""
    from scipy.special import pdtr

    level = np.arange(256.0)
    mean = photons * level / 255
    counts = np.arange(int(photons + 12 * photons**0.5) + 2)
    cumulative = pdtr(counts, np.maximum(mean, 1e-300)[:, None])
    cumulative[:, -1] = 1.0
    return (level[:, None] + cumulative).reshape(-1), level.astype(np.int64) * len(counts)


def impulse_noise(images: Floats, severity: int, streams: Streams) -> Floats:
    """Each of the three values of a pixel becomes 0 or 1 with probability p / 2 each, p = 0.01 ... 0.07."""
    amount = IMPULSE[severity - 1]
    drawn = streams.uniform(*images.shape[1:])
    return np.where(drawn < amount / 2, 0.0, np.where(drawn < amount, 1.0, images))


def speckle_noise(images: Floats, severity: int, streams: Streams) -> Floats:
    """Add s x n to x, with n standard normal and s = 0.06, 0.1, 0.12, 0.16, 0.2."""
    return images * (1 + SPECKLE[severity - 1] * streams.normal(*images.shape[1:]))
