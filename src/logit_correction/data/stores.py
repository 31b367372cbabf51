"""Where the inputs of a data table live and how a batch of them is fetched, without a loop over samples."""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.types import Inputs, ViewInputs


class InputStore(ABC):
    """Holds the inputs of all rows of a table."""

    always_finite = False
    holds_bytes = False  # whether the inputs are its images but for a factor, so that a quarter is to be moved
    holds_tokens = False  # whether the inputs are texts, dicts of token tensors
    scale = 1.0  # what inputs made of images in [0, 1] are multiplied by
    place: str | None = None  # where inputs that were read from files lie, for people

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    @abstractmethod
    def fetch(self, rows: Tensor) -> Inputs:
        """Return the inputs of ``rows`` (B,), as the network takes them, on the store's device."""

    @abstractmethod
    def to(self, device: torch.device | str) -> InputStore:
        """Return a store whose tensors lie on ``device``."""

    def images(self, rows: Tensor) -> Tensor | None:
        """Return ``rows`` as uint8 images (B, C, H, W) for a person to look at; None unless a store says otherwise."""
        return None

    def classes(self, rows: Tensor) -> Tensor | None:
        """Return how likely each class of ImageNet is in ``rows`` (B, 1000); None unless a store says otherwise."""
        return None

    @property
    def row_bytes(self) -> int:
        """About how many bytes one fetched input takes, or its first activations where those are larger."""
        return 4 * math.prod(self.input_shape)


def as_views_see(store: InputStore, looks: Mapping[str, Any], encoded: InputStore | None = None) -> ViewInputs:
    """Return rows as views may look at them: the inputs (or what an encoder made of them), images, and other forms."""
    inputs = store if encoded is None else encoded
    return ViewInputs(num_rows=len(store), inputs=inputs.fetch, images=store.images, classes=inputs.classes, **looks)


class ArrayStore(InputStore):
    """Feature vectors (M, F) or images (M, C, H, W), resident in memory.

    Unsigned bytes are divided by 255 when a batch is fetched; floats are given as they are.
    """

    def __init__(self, values: Tensor, scale: float = 1.0, place: str | None = None) -> None:
        """Keep ``values``; ``scale`` multiplies every fetched batch, ``place`` tells why they are in memory."""
        self.values, self.scale, self.place = values, scale, place
        self.always_finite = not values.is_floating_point()
        self.holds_bytes = values.dtype == torch.uint8 and values.dim() == 4
        self._factor = scale / 255 if values.dtype == torch.uint8 else scale
        self._copies: dict[torch.device, ArrayStore] = {}

    def __len__(self) -> int:
        return len(self.values)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    def fetch(self, rows: Tensor) -> Tensor:
        batch = self.values.index_select(0, rows).float()
        return batch if self._factor == 1 else batch.mul_(self._factor)

    def images(self, rows: Tensor) -> Tensor | None:
        if self.values.dim() != 4:
            return None
        batch = self.values[rows]
        return batch if batch.dtype == torch.uint8 else batch.clamp(0, 1).mul(255).round().to(torch.uint8)

    def to(self, device: torch.device | str) -> ArrayStore:
        device = torch.device(device)
        if self.values.device == device:
            return self
        if device not in self._copies:  # all who ask share one copy
            self._copies[device] = ArrayStore(self.values.to(device), self.scale, self.place)
        return self._copies[device]

    def lies_on(self, device: torch.device) -> bool:
        """Return whether the store or its copy lies on ``device``."""
        return self.values.device == device or device in self._copies

    def __getstate__(self) -> dict[str, Any]:
        """Leave the copies out; another process makes its own."""
        return vars(self) | {"_copies": {}}


class StreamedStore(InputStore):
    """Images in a file of bytes, (M, C, H, W) as NumPy saves them; each batch is read anew, by other processes."""

    always_finite = True
    holds_bytes = True

    def __init__(self, file: Path, place: str | None = None) -> None:
        """Open the file, ``.npy`` of unsigned bytes; ``place`` tells why it is streamed."""
        self.file, self.place, self.device = Path(file), place, torch.device("cpu")
        self._values = np.load(self.file, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._values)

    @property
    def input_shape(self) -> tuple[int, ...]:
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

    def fetch(self, rows: Tensor) -> Tensor:
        return self.images(rows).to(self.device).float().mul_(1 / 255)

    def to(self, device: torch.device | str) -> StreamedStore:
        """Return a store that puts batches on ``device``."""
        placed = copy(self)
        placed.device = torch.device(device)
        return placed

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open file out; another process opens it anew."""
        return {name: value for name, value in vars(self).items() if name != "_values"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._values = np.load(self.file, mmap_mode="r")
