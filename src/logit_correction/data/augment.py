"""Random changes of training images, by the recipes that papers on spurious correlations train with.

All images of a batch are changed at once, on the device of the batch. The random numbers are arguments, one row of
them for each image, so that a resumed training, or one of several processes, changes each image as a single
uninterrupted one would.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from logit_correction.data.stores import InputStore, copy_to_device

AugmentationName = Literal["none", "crop-flip", "resized-crop-flip"]

#: Random whole numbers lie in 0..``DRAW_RANGE`` - 1.
DRAW_RANGE = 2**62

#: Of a resized crop: the smallest share of the area.
MIN_AREA = 0.7

#: Of a resized crop: the largest ratio of its sides.
MAX_ASPECT = 4 / 3


class Augmentation(ABC):
    """Changes training images at random.

    Attributes:
        num_draws: Random whole numbers that it needs for each image.
    """

    num_draws = 5

    @abstractmethod
    def __call__(self, images: Tensor, draws: Tensor, rows: Tensor) -> Tensor:
        """Return the changed images, unsigned bytes of the shape of the network's inputs.

        Args:
            images: (B, C, H, W) unsigned bytes, of the store that ``choose_store_to_augment`` returned.
            draws: (B, ``num_draws``) long, in 0..``DRAW_RANGE`` - 1.
            rows: (B,) long, the rows of the table that the images belong to.
        """

    def choose_store_to_augment(self, inputs: InputStore) -> InputStore:
        """Return the store whose images are changed; by default that of the table's inputs."""
        return inputs

    def to(self, device: torch.device) -> Augmentation:
        """Return the augmentation with its tensors on ``device``."""
        return copy_to_device(self, device)


@dataclass(frozen=True)
class CropFlip(Augmentation):
    """Shifts images within a black border, and mirrors half of them, as published for CIFAR-10 and BiasedFFHQ.

    Attributes:
        padding: Pixels of the border, and so of the largest shift.
        mirror: Whether images are mirrored; not where left and right mean something, as in digits.
    """

    padding: int = 4
    mirror: bool = True

    def __call__(self, images: Tensor, draws: Tensor, rows: Tensor) -> Tensor:
        count, channels, height, width = images.shape
        device = images.device
        shift_down, shift_right = (draws[:, :2] % (2 * self.padding + 1)).unbind(1)
        is_mirrored = (draws[:, 2] % 2).bool()[:, None] & self.mirror
        across = torch.arange(width, device=device)
        from_rows = torch.arange(height, device=device) + shift_down[:, None]
        from_columns = torch.where(is_mirrored, width - 1 - across, across) + shift_right[:, None]
        padded = torch.nn.functional.pad(images, (self.padding,) * 4)
        padded_width = width + 2 * self.padding
        flat = (from_rows[:, :, None] * padded_width + from_columns[:, None, :]).reshape(count, 1, -1)
        return padded.flatten(2).gather(2, flat.expand(-1, channels, -1)).reshape(images.shape)


class ResizedCropFlip(Augmentation):
    """Takes 70 to 100 % of each image, resized to the whole, and mirrors half of them.

    As published for Waterbirds, except that the part is taken from the resized image, not from the original photo.
    The ratio of its sides lies between 3/4 and 4/3.
    """

    def __call__(self, images: Tensor, draws: Tensor, rows: Tensor) -> Tensor:
        uniform = draws[:, :4].float() / DRAW_RANGE
        area = scale_to_crop_area(uniform[:, 0])
        aspect = scale_to_aspect_ratio(uniform[:, 1])
        part = torch.stack([(area / aspect).sqrt(), (area * aspect).sqrt()], dim=1).clamp(max=1)
        middle = (1 - part) * (2 * uniform[:, 2:] - 1)
        return resample_image_parts(images, middle, part, draws[:, 4] % 2 == 1, images.shape[2:])


def build_augmentation(name: AugmentationName) -> Augmentation | None:
    """Return the augmentation of a published recipe; None for ``none``."""
    if name == "none":
        return None
    return CropFlip() if name == "crop-flip" else ResizedCropFlip()


def scale_to_crop_area(uniform: Tensor) -> Tensor:
    """Return the share of the area of each crop, in [``MIN_AREA``, 1], by uniform numbers in [0, 1)."""
    return MIN_AREA + (1 - MIN_AREA) * uniform


def scale_to_aspect_ratio(uniform: Tensor) -> Tensor:
    """Return the width of each crop over its height, log-uniform in [1 / ``MAX_ASPECT``, ``MAX_ASPECT``]."""
    return (math.log(MAX_ASPECT) * (2 * uniform - 1)).exp()


def resample_image_parts(
    images: Tensor, part_middle: Tensor, part_size: Tensor, is_mirrored: Tensor, size: Sequence[int]
) -> Tensor:
    """Return a part of each image, resized bilinearly, as unsigned bytes (B, C, *size).

    Args:
        images: (B, C, H, W) unsigned bytes.
        part_middle: (B, 2) floats, the part's middle down and across; the edges of the image are -1 and 1.
        part_size: (B, 2) floats, the part's height and width; those of the image are 1.
        is_mirrored: (B,) bool, whether left and right are swapped.
        size: Height and width of the result.
    """
    down, across = part_size.unbind(1)
    across = torch.where(is_mirrored, -across, across)
    # Where each row and column of the result lies in the image.
    y = part_middle[:, :1] + down[:, None] * _pixel_middles(size[0], images.device)
    x = part_middle[:, 1:] + across[:, None] * _pixel_middles(size[1], images.device)
    shape = (len(images), *size)
    grid = torch.stack([x[:, None, :].expand(shape), y[:, :, None].expand(shape)], dim=-1)
    changed = torch.nn.functional.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return changed.round().to(torch.uint8)


def _pixel_middles(count: int, device: torch.device) -> Tensor:
    """Return where the middles of the pixels of a row lie between -1 and 1, (count,)."""
    return (2 * torch.arange(count, device=device) + 1) / count - 1
