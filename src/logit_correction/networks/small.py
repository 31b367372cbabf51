"""Small networks, which train on a processor in minutes: linear, fully connected and convolutional."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from logit_correction.errors import InputError
from logit_correction.networks.base import Network, check_image_shape, check_inputs_are_not_tokens
from logit_correction.types import DataInfo


class Linear(Network):
    """One linear layer on flattened inputs: a head for the features of an ``encoder``, or for a table of numbers."""

    def __init__(self, info: DataInfo) -> None:
        super().__init__()
        check_inputs_are_not_tokens(info, "Linear")
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
            info: Sizes of the data.
            hidden: Widths of the hidden layers; the paper has three on Colored MNIST, its published code 100, 100, 16.
        """
        super().__init__()
        check_inputs_are_not_tokens(info, "MLP")
        if min(hidden, default=0) < 1:
            raise InputError(f"hidden widths {list(hidden)} must be positive, such as [100, 100, 100]")
        widths = [math.prod(info.input_shape), *hidden]
        layers = [layer for before, after in pairwise(widths) for layer in (nn.Linear(before, after), nn.ReLU())]
        self.features = nn.Sequential(nn.Flatten(), *layers)
        self.head = nn.Linear(widths[-1], info.num_labels)


class ConvNet(Network):
    """Blocks of a 3x3 convolution, batch normalisation, ReLU and a maximum over 2x2 pixels, then a hidden layer.

    The default does 2.2 million multiply-adds for an image of 28x28 pixels.
    """

    def __init__(self, info: DataInfo, channels: Sequence[int] = (16, 32, 64), hidden: int = 100) -> None:
        """Build the layers.

        Args:
            info: Sizes of the data, which are images.
            channels: Channels of each block; each block halves height and width.
            hidden: Width of the fully connected layer with ReLU, the features.
        """
        super().__init__()
        before, height, width = check_image_shape(info, "ConvNet")
        pixels = (height >> len(channels)) * (width >> len(channels))
        if not pixels or min([*channels, hidden]) < 1:
            size = f"images of {height}x{width}, which each block halves"
            raise InputError(f"channels {list(channels)} and hidden {hidden} do not fit {size}: give fewer channels")
        layers: list[nn.Module] = []
        for number in channels:
            convolution = nn.Conv2d(before, number, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(number), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            before = number
        self.features = nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * pixels, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, info.num_labels)
