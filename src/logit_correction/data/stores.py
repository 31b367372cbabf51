"""Where the inputs of a data table live and how a batch of them is fetched, without a loop over samples."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from logit_correction.types import Inputs, ViewInputs

#: Inputs of more bytes may not all lie in memory: their batches are read ahead.
LARGE = 4 * 2**30


class InputStore(ABC):
    """Holds the inputs of all rows of a table."""

    holds_bytes = False  # whether the inputs are its images but for a factor, so that a quarter is to be moved
    holds_tokens = False  # whether the inputs are texts, dicts of token tensors
    holds_words = False  # whether they are texts as vectors of counted words
    scale = 1.0  # what inputs made of images in [0, 1] are multiplied by

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

    @property
    def row_bytes(self) -> int:
        """About how many bytes one fetched input takes, or its first activations where those are larger."""
        return 4 * math.prod(self.input_shape)

    def digest(self) -> str:
        """Return the SHA-256 of every input, in order: another row, column or pixel is another digest."""
        state = hashlib.sha256(f"{len(self)} {self.input_shape} {self.scale} ".encode())
        for rows in torch.arange(len(self)).split(max(1, 16 * 2**20 // self.row_bytes)):
            inputs = self.images(rows) if self.holds_bytes else self.fetch(rows)
            for name, part in inputs.items() if isinstance(inputs, dict) else [("", cast(Tensor, inputs))]:
                state.update(name.encode())
                state.update(part.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return state.hexdigest()


def as_views_see(store: InputStore, forms: Mapping[str, Any]) -> ViewInputs:
    """Return rows as views may look at them: the inputs, images, and other forms."""
    return ViewInputs(num_rows=len(store), inputs=store.fetch, images=store.images, **forms)


class ArrayStore(InputStore):
    """Feature vectors (M, F) or images (M, C, H, W), in memory or mapped from a file.

    Unsigned bytes are divided by 255 when a batch is fetched; floats are given as they are.
    """

    def __init__(self, values: Tensor, scale: float = 1.0) -> None:
        """Keep ``values``; ``scale`` multiplies every fetched batch."""
        self.values, self.scale = values, scale
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
            self._copies[device] = ArrayStore(self.values.to(device), self.scale)
        return self._copies[device]

    def fits(self, device: torch.device) -> bool:
        """Return whether the inputs lie on ``device``, or would in half of the memory that is free there."""
        if device.type != "cuda":
            return self.values.nbytes <= LARGE
        there = self.values.device == device or device in self._copies
        return there or self.values.nbytes <= torch.cuda.mem_get_info(device)[0] / 2
