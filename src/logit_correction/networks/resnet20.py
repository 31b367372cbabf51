"""The residual networks of He et al., "Deep residual learning for image recognition" (2016), for 32x32 pixels."""

from __future__ import annotations

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from logit_correction.errors import InputError
from logit_correction.networks.base import Network, check_images
from logit_correction.networks.standardize import Standardize, standardized_channels
from logit_correction.types import DataInfo


class ResNet20(Network):
    """Three groups of residual blocks of 16, 32 and 64 channels at 32, 16 and 8 pixels; 0.27 million weights.

    Shortcuts have no weights: where a block halves the size they take every second pixel and fill new channels with
    zeros (option A of the paper). Inputs in [0, 1] are standardised inside.

    >>> import torch
    >>> network = ResNet20(DataInfo(num_labels=10, num_rows=1, input_shape=(3, 32, 32)))
    >>> network.features(torch.zeros(2, 3, 32, 32)).shape, sum(p.numel() for p in network.parameters())
    (torch.Size([2, 64]), 269722)
    """

    def __init__(self, info: DataInfo, depth: int = 20, width: int = 16) -> None:
        """Build the layers.

        Args:
            info: Input shape and number of labels.
            depth: Layers with weights, 6n + 2: 20, 32, 44, 56 or 110 in the paper.
            width: Channels of the first group; the others have two and four times as many.

        Raises:
            InputError: If the inputs are no images of at least 4 pixels a side, or an option is out of range.
        """
        super().__init__()
        channels, *size = check_images(info, "ResNet20")
        if min(size) < 4:
            raise InputError(f"images of {size[0]}x{size[1]} are too small for ResNet20: give at least 4x4")
        if depth < 8 or depth % 6 != 2:
            raise InputError(f"depth is {depth}, but must be 6n + 2, such as 20, 32, 44 or 56")
        if width < 1:
            raise InputError(f"width is {width}, but must be positive")
        colors = standardized_channels(channels)
        layers: list[nn.Module] = [Standardize()] if colors == 3 else []
        layers += [nn.Conv2d(colors, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        before = width
        for after in (width, 2 * width, 4 * width):
            for _ in range(depth // 6):
                layers.append(Block(before, after))
                before = after
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(before, info.num_labels)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut; at half the size if ``after`` is more than ``before``."""

    def __init__(self, before: int, after: int) -> None:
        """Build the block from ``before`` to ``after`` channels."""
        super().__init__()
        self.stride, self.new = (1 if before == after else 2), after - before
        self.layers = nn.Sequential(
            nn.Conv2d(before, after, 3, stride=self.stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
        )

    def forward(self, values: Tensor) -> Tensor:
        """Return (B, after, H / stride, W / stride)."""
        shortcut = values
        if self.new:
            shortcut = F.pad(values[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new))
        return F.relu(cast(Tensor, self.layers(values)) + shortcut)
