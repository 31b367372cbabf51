"""Random changes of training images, each made by random numbers of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

AugmentationName = Literal["none", "crop-flip", "resized-crop-flip"]

#: Pixels of black border that crop-flip may shift an image into, as published for CIFAR-10 and BiasedFFHQ.
PADDING = 4

#: Random whole numbers for each image: 0..``DRAWN`` - 1.
DRAWS, DRAWN = 5, 2**62

#: Changes images of unsigned bytes (B, C, H, W), each by its random numbers (B, ``DRAWS``).
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

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        count, channels, height, width = images.shape
        places = 2 * self.padding + 1
        device = images.device
        top, left = (draws[:, :2] % places).unbind(1)
        flip = (draws[:, 2] % 2).bool()[:, None] & self.mirror
        rows = torch.arange(height, device=device) + top[:, None]
        across = torch.arange(width, device=device)
        columns = torch.where(flip, width - 1 - across, across) + left[:, None]
        padded = torch.nn.functional.pad(images, (self.padding,) * 4)
        flat = (rows[:, :, None] * (width + 2 * self.padding) + columns[:, None, :]).reshape(count, 1, -1)
        return padded.flatten(2).gather(2, flat.expand(-1, channels, -1)).reshape(images.shape)


def resized_crop_flip(images: Tensor, draws: Tensor) -> Tensor:
    """Take 70 to 100 % of each image, resized to the whole, and mirror half of the time.

    As published for Waterbirds and CelebA; width is to height as 3 to 4 at least and 4 to 3 at most.
    """
    height, width = images.shape[2:]
    area, shape, top, left = (draws[:, :4].float() / DRAWN).unbind(1)
    area, shape = 0.7 + 0.3 * area, (math.log(4 / 3) * (2 * shape - 1)).exp()
    down, across = (area / shape).sqrt().clamp(max=1), (area * shape).sqrt().clamp(max=1)
    # Where each row and column of the result lies in the image, whose edges are -1 and 1.
    y = ((1 - down) * (2 * top - 1))[:, None] + down[:, None] * _middles(height, images.device)
    across_or_back = torch.where(draws[:, 4] % 2 == 0, across, -across)
    x = ((1 - across) * (2 * left - 1))[:, None] + across_or_back[:, None] * _middles(width, images.device)
    size = len(images), height, width
    grid = torch.stack([x[:, None, :].expand(size), y[:, :, None].expand(size)], dim=-1)
    changed = torch.nn.functional.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return changed.round().to(torch.uint8)


def _middles(count: int, device: torch.device) -> Tensor:
    """Return where the middles of so many pixels in a row lie between -1 and 1."""
    return (2 * torch.arange(count, device=device) + 1) / count - 1
