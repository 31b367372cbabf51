"""A stream of random numbers for every image, so that no image's numbers depend on its neighbours."""

from __future__ import annotations

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
        """Start the streams.

        Args:
            seed: Non-negative, below 2^64.
            index: (N,) numbers of the images, not negative.
        """
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
