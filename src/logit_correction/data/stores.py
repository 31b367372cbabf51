"""Where the inputs of a data table live and how a batch of them is fetched, without a loop over samples."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from logit_correction.types import Inputs


class InputStore(Protocol):
    """Holds the inputs of all rows of a table."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        ...

    def fetch(self, rows: Tensor) -> Inputs:
        """Return the inputs of ``rows`` (B,), as the network takes them, on the store's device."""
        ...

    def pictures(self, rows: Tensor) -> Tensor | None:
        """Return ``rows`` as uint8 pictures (B, C, H, W) for a person to look at, or None."""
        ...

    def to(self, device: torch.device | str) -> InputStore:
        """Return a store whose tensors lie on ``device``."""
        ...


class ArrayStore:
    """Feature vectors (M, F) or pictures (M, C, H, W), resident in memory.

    Unsigned bytes are divided by 255 when a batch is fetched; floats are given as they are.
    """

    def __init__(self, values: Tensor, scale: float = 1.0) -> None:
        """Keep ``values``; ``scale`` multiplies every fetched batch."""
        self.values, self.scale = values, scale
        self._factor = scale / 255 if values.dtype == torch.uint8 else scale

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.values.shape[1:])

    def fetch(self, rows: Tensor) -> Tensor:
        """Return the inputs of ``rows`` as float32."""
        batch = self.values.index_select(0, rows).float()
        return batch if self._factor == 1 else batch.mul_(self._factor)

    def pictures(self, rows: Tensor) -> Tensor | None:
        """Return ``rows`` as uint8 pictures, or None where the values are no pictures."""
        if self.values.dim() != 4:
            return None
        batch = self.values[rows]
        return batch if batch.dtype == torch.uint8 else batch.clamp(0, 1).mul(255).round().to(torch.uint8)

    def to(self, device: torch.device | str) -> ArrayStore:
        """Return the store on ``device``."""
        return ArrayStore(self.values.to(device), self.scale)


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
        """Return the number of rows."""
        return len(self.glyph_of_row)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, (3, H, W)."""
        return (3, *self.glyphs.shape[1:])

    def fetch(self, rows: Tensor) -> Tensor:
        """Return the coloured pictures of ``rows``, (B, 3, H, W) float32."""
        # index_select copies whole rows, where plain indexing goes byte by byte: 5 us instead of 100.
        grey = self.glyphs.index_select(0, self.glyph_of_row.index_select(0, rows)).float()
        return grey[:, None] * self._factor.index_select(0, rows)[:, :, None, None]

    def pictures(self, rows: Tensor) -> Tensor:
        """Return the coloured pictures of ``rows`` as uint8, whatever the scale."""
        grey = self.glyphs[self.glyph_of_row[rows]].float()
        return (grey[:, None] * self.color[rows][:, :, None, None]).round().to(torch.uint8)

    def to(self, device: torch.device | str) -> ColoredStore:
        """Return the store on ``device``."""
        glyphs, glyph_of_row, color = (part.to(device) for part in (self.glyphs, self.glyph_of_row, self.color))
        return ColoredStore(glyphs, glyph_of_row, color, self.scale)
