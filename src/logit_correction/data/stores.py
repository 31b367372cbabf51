"""Stores hold the inputs of all rows of a table and return those of a batch by the numbers of its rows.

Images lie in memory, or mapped from a file, as unsigned bytes, a quarter of the size of the numbers that a network
takes. A store therefore holds the bytes and makes floats of one batch at a time.
"""

from __future__ import annotations

import copy
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from logit_correction.types import Inputs, ViewInputs

#: Bytes of inputs above which they are not all held in memory: their batches are read ahead from a file.
LARGE = 4 * 2**30

#: Bytes of inputs that are hashed at a time.
DIGEST_BYTES = 16 * 2**20


Holder = TypeVar("Holder")


def copy_to_device(holder: Holder, device: torch.device | str) -> Holder:
    """Return a copy of an object, whose attributes that are tensors lie on ``device``."""
    moved = copy.copy(holder)
    tensors = {name: value for name, value in vars(holder).items() if isinstance(value, Tensor)}
    vars(moved).update({name: tensor.to(device) for name, tensor in tensors.items()})
    return moved


class InputStore(ABC):
    """Holds the inputs of all rows of a table."""

    holds_bytes = False  # whether inputs are the bytes of ``images`` times a factor: then bytes are moved, not floats
    holds_tokens = False  # whether inputs are dicts of token tensors
    holds_words = False  # whether inputs are vectors of counted words
    scale = 1.0  # multiplies inputs that were made of images in [0, 1]

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    @abstractmethod
    def fetch(self, row_indices: Tensor) -> Inputs:
        """Return the inputs of ``row_indices`` (B,), as the network takes them, on the store's device."""

    def to(self, device: torch.device | str) -> InputStore:
        """Return a store whose tensors lie on ``device``; by default those that are its attributes."""
        return copy_to_device(self, device)

    def images(self, row_indices: Tensor) -> Tensor | None:
        """Return rows (B,) as images for people, unsigned bytes (B, C, H, W); None if inputs are not images."""
        return None

    @property
    def row_bytes(self) -> int:
        """Approximate bytes of one fetched input, or of its first activations where those are larger."""
        return 4 * math.prod(self.input_shape)

    def digest(self) -> str:
        """Return the SHA-256 of all inputs in their order; it changes with any row, column or pixel."""
        state = hashlib.sha256(f"{len(self)} {self.input_shape} {self.scale} ".encode())
        for rows in torch.arange(len(self)).split(max(1, DIGEST_BYTES // self.row_bytes)):
            inputs = self.images(rows) if self.holds_bytes else self.fetch(rows)
            parts = inputs if isinstance(inputs, dict) else {"": cast(Tensor, inputs)}
            for name, part in parts.items():
                state.update(name.encode())
                state.update(part.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return state.hexdigest()


class ArrayStore(InputStore):
    """Feature vectors (M, F) or images (M, C, H, W), in memory or mapped from a file.

    Unsigned bytes are divided by 255 when a batch is fetched; floats are returned as they are.
    """

    def __init__(self, values: Tensor, scale: float = 1.0) -> None:
        """Keep the values.

        Args:
            values: (M, F) or (M, C, H, W), unsigned bytes or floats.
            scale: Multiplies every fetched batch.
        """
        self.values = values
        self.scale = scale
        self.holds_bytes = values.dtype == torch.uint8 and values.dim() == 4
        self._factor = scale / 255 if values.dtype == torch.uint8 else scale
        self._copies: dict[torch.device, ArrayStore] = {}

    def __len__(self) -> int:
        return len(self.values)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    def fetch(self, row_indices: Tensor) -> Tensor:
        batch = self.values.index_select(0, row_indices).float()
        return batch if self._factor == 1 else batch.mul_(self._factor)

    def images(self, row_indices: Tensor) -> Tensor | None:
        if self.values.dim() != 4:
            return None
        batch = self.values[row_indices]
        return batch if batch.dtype == torch.uint8 else batch.clamp(0, 1).mul(255).round().to(torch.uint8)

    def to(self, device: torch.device | str) -> ArrayStore:
        device = torch.device(device)
        if self.values.device == device:
            return self
        if device not in self._copies:  # the loaders of several splits share one copy
            self._copies[device] = ArrayStore(self.values.to(device), self.scale)
        return self._copies[device]

    def fits_on_device(self, device: torch.device) -> bool:
        """Return whether the inputs lie on ``device``, or would take at most half of the memory that is free there."""
        if device.type != "cuda":
            return self.values.nbytes <= LARGE
        is_there = self.values.device == device or device in self._copies
        return is_there or self.values.nbytes <= torch.cuda.mem_get_info(device)[0] / 2


def build_view_inputs(store: InputStore, forms: Mapping[str, Any]) -> ViewInputs:
    """Return rows as views look at them.

    Args:
        store: The inputs, and images if it has some.
        forms: Other fields of ``ViewInputs``: ``texts``, ``columns``, ``files`` or ``position``.
    """
    return ViewInputs(num_rows=len(store), inputs=store.fetch, images=store.images, **forms)
