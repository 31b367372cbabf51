"""Where the inputs of a data table live and how a batch of them is fetched, without a loop over samples."""

from __future__ import annotations

import math
import mmap
from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from logit_correction.types import Inputs, ViewInputs


class InputStore(Protocol):
    """Holds the inputs of all rows of a table."""

    def __len__(self) -> int:
        """Return the number of rows."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    def fetch(self, rows: Tensor) -> Inputs:
        """Return the inputs of ``rows`` (B,), as the network takes them, on the store's device."""

    def images(self, rows: Tensor) -> Tensor | None:
        """Return ``rows`` as uint8 images (B, C, H, W) for a person to look at; None unless a store says otherwise."""
        return None

    def to(self, device: torch.device | str) -> InputStore:
        """Return a store whose tensors lie on ``device``."""


def as_views_see(store: InputStore, looks: Mapping[str, Any], encoded: InputStore | None = None) -> ViewInputs:
    """Return rows as views may look at them: the inputs (or what an encoder made of them), images, and other forms."""
    inputs = store if encoded is None else encoded
    return ViewInputs(num_rows=len(store), inputs=inputs.fetch, images=store.images, **looks)


def holds_bytes(store: InputStore) -> bool:
    """Return whether a store's images are what it gives but for the scale, so that a quarter is to be moved."""
    return isinstance(store, StreamedImages) or (isinstance(store, ArrayStore) and store.values.dtype == torch.uint8)


def row_bytes(store: InputStore) -> int:
    """Return about how many bytes one fetched input takes, or its first activations where those are larger."""
    return int(getattr(store, "row_bytes", 4 * math.prod(store.input_shape)))


def holds_tokens(store: InputStore) -> bool:
    """Return whether the inputs are texts, dicts of token tensors."""
    return isinstance(store.fetch(torch.arange(min(1, len(store)))), dict)


def location_of(store: InputStore) -> str | None:
    """Say where the inputs lie and by which rule, for images that were read from files; else None."""
    return getattr(store, "place", None)


class ArrayStore:
    """Feature vectors (M, F) or images (M, C, H, W), resident in memory.

    Unsigned bytes are divided by 255 when a batch is fetched; floats are given as they are.
    """

    def __init__(self, values: Tensor, scale: float = 1.0, place: str | None = None) -> None:
        """Keep ``values``; ``scale`` multiplies every fetched batch, ``place`` tells why they are in memory."""
        self.values, self.scale, self.place = values, scale, place
        self.always_finite = not values.is_floating_point()
        self._factor = scale / 255 if values.dtype == torch.uint8 else scale
        self._copies: dict[torch.device, ArrayStore] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all inputs."""
        return self.values.nbytes

    def __len__(self) -> int:
        return len(self.values)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.values.shape[1:])

    def fetch(self, rows: Tensor) -> Tensor:
        """Return the inputs of ``rows`` as float32."""
        batch = self.values.index_select(0, rows).float()
        return batch if self._factor == 1 else batch.mul_(self._factor)

    def images(self, rows: Tensor) -> Tensor | None:
        """Return ``rows`` as uint8 images, or None where the values are no images."""
        if self.values.dim() != 4:
            return None
        batch = self.values[rows]
        return batch if batch.dtype == torch.uint8 else batch.clamp(0, 1).mul(255).round().to(torch.uint8)

    def to(self, device: torch.device | str) -> ArrayStore:
        """Return the store on ``device``; all who ask share one copy."""
        device = torch.device(device)
        if self.values.device == device:
            return self
        if device not in self._copies:
            self._copies[device] = ArrayStore(self.values.to(device), self.scale, self.place)
        return self._copies[device]

    def lies_on(self, device: torch.device) -> bool:
        """Return whether the store or its copy lies on ``device``."""
        return self.values.device == device or device in self._copies

    def __getstate__(self) -> dict[str, Any]:
        """Leave the copies out; another process makes its own."""
        return vars(self) | {"_copies": {}}


class StreamedImages(InputStore):
    """Images that stay where they are and of which each batch is read anew, ahead of the step, by other processes."""

    always_finite = True
    device: torch.device | str = "cpu"

    @abstractmethod
    def images(self, rows: Tensor) -> Tensor:
        """Read ``rows`` as uint8 images (B, C, H, W), on the CPU."""

    def fetch(self, rows: Tensor) -> Tensor:
        """Return the inputs of ``rows`` as float32."""
        return self.images(rows).to(self.device).float().mul_(1 / 255)

    def to(self, device: torch.device | str) -> StreamedImages:
        """Return a store that puts batches on ``device``."""
        placed = copy(self)
        placed.device = device
        return placed


class StreamedStore(StreamedImages):
    """Images in a file of bytes, (M, C, H, W) as NumPy saves them."""

    def __init__(self, file: Path, place: str | None = None) -> None:
        """Open the file, ``.npy`` of unsigned bytes; ``place`` tells why it is streamed."""
        self.file, self.place = Path(file), place
        self._values = np.load(self.file, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._values)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self._values.shape[1:])

    def images(self, rows: Tensor) -> Tensor:
        """Read ``rows`` as uint8 images, on the CPU."""
        batch = torch.from_numpy(self._values[rows.cpu().numpy()])
        # What was read stays in the operating system's cache but not in this process, which would otherwise come to
        # hold the whole file.
        release = getattr(getattr(self._values, "_mmap", None), "madvise", None)
        if release is not None:
            release(mmap.MADV_DONTNEED)
        return batch

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open file out; another process opens it anew."""
        return {name: value for name, value in vars(self).items() if name != "_values"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._values = np.load(self.file, mmap_mode="r")


class ColoredStore:
    """Grey glyphs, coloured when a batch is fetched: one byte a pixel in memory instead of twelve.

    Row m shows glyph ``glyph_of_row[m]`` in colour ``color[m]``; several rows may share one glyph.
    """

    def __init__(self, glyphs: Tensor, glyph_of_row: Tensor, color: Tensor, scale: float = 1.0) -> None:
        """Keep the parts.

        Args:
            glyphs: (P, H, W) uint8, brightness of each pixel.
            glyph_of_row: (M,) long, 0..P-1.
            color: (M, 3) float in [0, 1].
            scale: Multiplies the pixels, which lie in [0, 1] before.
        """
        self.glyphs, self.glyph_of_row, self.color, self.scale = glyphs, glyph_of_row, color, scale
        self._factor = color * (scale / 255)

    def __len__(self) -> int:
        return len(self.glyph_of_row)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, (3, H, W)."""
        return (3, *self.glyphs.shape[1:])

    def fetch(self, rows: Tensor) -> Tensor:
        """Return the coloured images of ``rows``, (B, 3, H, W) float32."""
        # index_select copies whole rows, where plain indexing goes byte by byte: 5 us instead of 100.
        grey = self.glyphs.index_select(0, self.glyph_of_row.index_select(0, rows)).float()
        return grey[:, None] * self._factor.index_select(0, rows)[:, :, None, None]

    def images(self, rows: Tensor) -> Tensor:
        """Return the coloured images of ``rows`` as uint8, whatever the scale."""
        grey = self.glyphs[self.glyph_of_row[rows]].float()
        return (grey[:, None] * self.color[rows][:, :, None, None]).round().to(torch.uint8)

    def to(self, device: torch.device | str) -> ColoredStore:
        """Return the store on ``device``."""
        glyphs, glyph_of_row, color = (part.to(device) for part in (self.glyphs, self.glyph_of_row, self.color))
        return ColoredStore(glyphs, glyph_of_row, color, self.scale)
