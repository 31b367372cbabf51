"""Small networks: fully connected, convolutional, and the residual one for images of 32 pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, cast

import torch.nn.functional as F
from torch import Tensor, nn

from logit_correction.errors import InputError, check_range
from logit_correction.networks.base import Network, check_images, refuse_tokens
from logit_correction.networks.pretrained import Standardize
from logit_correction.types import DataInfo

Norm = Literal["batch", "group", "none"]


class Linear(Network):
    """One linear layer on flattened inputs: a head for the features of an ``encoder``, or for a table of numbers.

    >>> import torch
    >>> Linear(DataInfo(num_labels=2, num_rows=1, input_shape=(512,)))(torch.zeros(3, 512)).shape
    torch.Size([3, 2])
    """

    def __init__(self, info: DataInfo) -> None:
        """Build the layer for inputs and labels of ``info``."""
        super().__init__()
        refuse_tokens(info, "Linear")
        self.features = nn.Flatten()
        self.head = nn.Linear(math.prod(info.input_shape), info.num_labels)


class MLP(Network):
    """Fully connected network with ReLU on flattened inputs.

    >>> import torch
    >>> info = DataInfo(num_labels=10, num_rows=1, input_shape=(3, 28, 28))
    >>> MLP(info)(torch.zeros(2, 3, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(self, info: DataInfo, hidden: Sequence[int] = (100, 100, 100)) -> None:
        """Build the layers.

        Args:
            info: Input shape and number of labels.
            hidden: Widths of the hidden layers; the paper's Colored MNIST network has three of 100, the
                published codes have 100, 100, 16.
        """
        super().__init__()
        refuse_tokens(info, "MLP")
        if not hidden or any(width < 1 for width in hidden):
            raise InputError(f"hidden widths {list(hidden)} must be positive, such as [100, 100, 100]")
        widths = [math.prod(info.input_shape), *hidden]
        layers = [layer for before, after in pairwise(widths) for layer in (nn.Linear(before, after), nn.ReLU())]
        self.features = nn.Sequential(nn.Flatten(), *layers)
        self.head = nn.Linear(widths[-1], info.num_labels)
        self.narrows = widths[1] < widths[0]

    def affine_start(self, inputs: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]] | None:
        """Return the first layer's values (B, H), if they are fewer than the inputs."""
        if not self.narrows:
            return None
        flatten, first, *rest = self.features.children()

        def finish(values: Tensor) -> Tensor:
            for layer in (*rest, self.head):
                values = layer(values)
            return values

        return first(flatten(inputs)), finish


class ConvNet(Network):
    """Blocks of 3x3 convolutions with ReLU, each halving the size, and a fully connected layer at the end.

    The default does 2.2 million multiply-adds for an image of 28x28 pixels.

    >>> import torch
    >>> network = ConvNet(DataInfo(num_labels=10, num_rows=1, input_shape=(3, 28, 28)))
    >>> network.features(torch.zeros(2, 3, 28, 28)).shape, network(torch.zeros(2, 3, 28, 28)).shape
    (torch.Size([2, 100]), torch.Size([2, 10]))
    """

    def __init__(
        self,
        info: DataInfo,
        channels: Sequence[int] = (16, 32, 64),
        convolutions: int = 1,
        hidden: int = 100,
        norm: Norm = "batch",
        dropout: float = 0.0,
    ) -> None:
        """Build the layers.

        Args:
            info: Input shape and number of labels.
            channels: Channels of each block; after each block the largest of 2x2 pixels is kept.
            convolutions: Convolutions of each block.
            hidden: Width of the fully connected layer with ReLU, the features; 0 takes the average of the last block's
                pixels instead, which needs more convolutions to tell shapes.
            norm: What follows each convolution: ``group`` normalises the channels of each image by itself, in
                training as in prediction; ``batch`` over the batch in training and by running statistics in
                prediction; ``none`` leaves values as they are.
            dropout: Probability with which a feature is left out in training, in [0, 1).
        """
        super().__init__()
        before, height, width = check_images(info, "ConvNet")
        if not channels or any(number < 1 for number in channels) or convolutions < 1:
            raise InputError(f"channels {list(channels)} and convolutions {convolutions} must be positive")
        check_range("hidden", hidden, 0)
        if min(height, width) < 2 ** len(channels):
            raise InputError(f"images of {height}x{width} are too small for {len(channels)} blocks: give less channels")
        check_range("dropout", dropout, 0, 1, open_end=True)
        layers: list[nn.Module] = []
        for number in channels:
            for _ in range(convolutions):
                layers.append(nn.Conv2d(before, number, 3, padding=1, bias=norm == "none"))
                if norm == "batch":
                    layers.append(nn.BatchNorm2d(number))
                elif norm == "group":
                    layers.append(nn.GroupNorm(max(n for n in (8, 4, 2, 1) if number % n == 0), number))
                layers.append(nn.ReLU(inplace=True))
                before = number
            layers.append(nn.MaxPool2d(2))
        if hidden:
            pixels = (height >> len(channels)) * (width >> len(channels))
            layers += [nn.Flatten(), nn.Linear(before * pixels, hidden), nn.ReLU()]
        else:
            layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        layers += [nn.Dropout(dropout)] if dropout else []
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(hidden or before, info.num_labels)


class ResNet20(Network):
    """Three groups of residual blocks of 16, 32 and 64 channels at 32, 16 and 8 pixels; 0.27 million weights.

    The network of He et al., "Deep residual learning for image recognition" (2016). Shortcuts have no weights: where a
    block halves the size they take every second pixel and fill new channels with zeros (option A of the paper). Inputs
    in [0, 1] are standardised inside.

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
        """
        super().__init__()
        channels, *size = check_images(info, "ResNet20")
        if min(size) < 4:
            raise InputError(f"images of {size[0]}x{size[1]} are too small for ResNet20: give at least 4x4")
        if depth < 8 or depth % 6 != 2 or width < 1:
            raise InputError(f"depth {depth} must be 6n + 2, such as 20, 32, 44 or 56, and width {width} positive")
        colors, before = 3 if channels == 1 else channels, width
        layers: list[nn.Module] = [Standardize()] if colors == 3 else []
        layers += [nn.Conv2d(colors, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
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
    """Two 3x3 convolutions beside a shortcut; at half the size if ``after`` is more than ``before`` channels."""

    def __init__(self, before: int, after: int) -> None:
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
