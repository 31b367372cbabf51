"""Random changes of training images, each drawn from a seed alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from logit_correction.seeds import GOLDEN

AugmentationName = Literal["none", "crop-flip", "resized-crop-flip"]

#: Pixels of black border that crop-flip may shift an image into, as published for CIFAR-10 and BiasedFFHQ.
PADDING = 4

#: Smallest share of the area that resized-crop-flip keeps, as published for Waterbirds and CelebA.
LEAST_AREA = 0.7

#: Greatest ratio of width to height of that part, and of height to width, as torchvision draws it.
MOST_SHAPE = 4 / 3

#: Factors of SplitMix64, as the signed numbers with the same 64 bits.
STEP, FIRST, SECOND = (factor - 2**64 for factor in (GOLDEN, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

#: Changes images of unsigned bytes (B, C, H, W), each by its seed (B,): the same seed changes one in the same way.
Augmentation: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def named_augmentation(name: AugmentationName) -> Augmentation | None:
    """Return the augmentation of a published recipe; none for ``none``."""
    if name == "none":
        return None
    return CropFlip() if name == "crop-flip" else resized_crop_flip


@dataclass(frozen=True)
class CropFlip:
    """Shift by up to ``padding`` pixels into a black border, and mirror half of the time."""

    padding: int = PADDING
    mirror: bool = True

    def __call__(self, images: Tensor, seeds: Tensor) -> Tensor:
        count, channels, height, width = images.shape
        places = 2 * self.padding + 1
        device = images.device
        # All three draws by the same operations: on a GPU their number counts.
        draws = mixed_seeds(seeds, torch.arange(1, 4, device=device)[:, None])
        top, left = (draws[:2] % places).unbind(0)
        flip = (draws[2] % 2).bool()[:, None] & self.mirror
        rows = torch.arange(height, device=device) + top[:, None]
        across = torch.arange(width, device=device)
        columns = torch.where(flip, width - 1 - across, across) + left[:, None]
        padded = torch.nn.functional.pad(images, (self.padding,) * 4)
        flat = (rows[:, :, None] * (width + 2 * self.padding) + columns[:, None, :]).reshape(count, 1, -1)
        return padded.flatten(2).gather(2, flat.expand(-1, channels, -1)).reshape(images.shape)


def resized_crop_flip(images: Tensor, seeds: Tensor) -> Tensor:
    """Take 70 to 100 % of each image, resized to the whole, and mirror half of the time."""
    height, width = images.shape[2:]
    draws = mixed_seeds(seeds, torch.arange(1, 6, device=images.device)[:, None])
    area, shape, top, left = (draws[:4].float() / 2**63).unbind(0)
    area, shape = LEAST_AREA + (1 - LEAST_AREA) * area, (math.log(MOST_SHAPE) * (2 * shape - 1)).exp()
    down, across = (area / shape).sqrt().clamp(max=1), (area * shape).sqrt().clamp(max=1)
    # Where each row and column of the result lies in the image, whose edges are -1 and 1.
    y = ((1 - down) * (2 * top - 1))[:, None] + down[:, None] * _middles(height, images.device)
    across_or_back = torch.where(draws[4] % 2 == 0, across, -across)
    x = ((1 - across) * (2 * left - 1))[:, None] + across_or_back[:, None] * _middles(width, images.device)
    size = len(images), height, width
    grid = torch.stack([x[:, None, :].expand(size), y[:, :, None].expand(size)], dim=-1)
    changed = torch.nn.functional.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return changed.round().to(torch.uint8)


def _middles(count: int, device: torch.device) -> Tensor:
    """Return where the middles of so many pixels in a row lie between -1 and 1."""
    return (2 * torch.arange(count, device=device) + 1) / count - 1


def mixed_seeds(seeds: Tensor | int, *parts: Tensor | int) -> Tensor:
    """Mix whole numbers into seeds, elementwise and on any device: as ``derive_seed``, for many rows at once.

    The mixing is that of SplitMix64, so seeds in a row give unrelated results; they lie in 0..2^63 - 1.
    """
    state = seeds if isinstance(seeds, Tensor) else torch.tensor(seeds)
    for part in (*parts, 0):
        state = state + (torch.as_tensor(part) + 1) * STEP  # products of tensors keep the last 64 bits
        state = (state ^ _shifted(state, 30)) * FIRST
        state = (state ^ _shifted(state, 27)) * SECOND
        state = state ^ _shifted(state, 31)
    return _shifted(state, 1)


def _shifted(value: Tensor, places: int) -> Tensor:
    """Shift right as unsigned numbers are."""
    return (value >> places) & ((1 << (64 - places)) - 1)
