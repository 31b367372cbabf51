"""Bringing images in [0, 1] to the scale that pretrained networks were trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

#: Mean and standard deviation of the three channels over ImageNet's training images in [0, 1].
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Standardize(nn.Module):
    """Subtracts a mean from each channel and divides by a standard deviation; grey images come out with all channels.

    >>> Standardize((0.5, 0.5), (0.1, 0.5))(torch.ones(1, 1, 1, 1)).flatten()
    tensor([5., 1.])
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD) -> None:
        """Keep both as buffers, (C, 1, 1)."""
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("factor", 1 / torch.tensor(std).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return images (B, C, H, W) from (B, C or 1, H, W)."""
        return (images - self.mean) * self.factor


def standardized_channels(channels: int) -> int:
    """Return the channels that a network sees behind ``Standardize``: grey images become three alike."""
    return 3 if channels == 1 else channels
