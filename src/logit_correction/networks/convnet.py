"""A small convolutional network for images of 28 to 64 pixels, quick enough for a processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import nn

from logit_correction.errors import InputError, check_range
from logit_correction.networks.base import Network, check_images
from logit_correction.types import DataInfo

Norm = Literal["batch", "group", "none"]


class ConvNet(Network):
    """Blocks of 3x3 convolutions with ReLU, each halving the size, and a fully connected layer at the end.

    The default does 2.2 million multiply-adds for an image of 28x28 pixels.

    >>> import torch
    >>> info = DataInfo(num_labels=10, num_rows=1, input_shape=(3, 28, 28))
    >>> network = ConvNet(info)
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

        Raises:
            InputError: If the inputs are no images or too small for the blocks, or an option is out of range.
        """
        super().__init__()
        height, width = check_images(info, "ConvNet")[1:]
        if not channels or any(number < 1 for number in channels) or convolutions < 1:
            raise InputError(f"channels {list(channels)} and convolutions {convolutions} must be positive")
        check_range("hidden", hidden, 0)
        if min(height, width) < 2 ** len(channels):
            raise InputError(f"images of {height}x{width} are too small for {len(channels)} blocks: give less channels")
        check_range("dropout", dropout, 0, 1, open_end=True)
        layers: list[nn.Module] = []
        before = info.input_shape[0]
        for number in channels:
            for _ in range(convolutions):
                layers += [
                    nn.Conv2d(before, number, 3, padding=1, bias=norm == "none"),
                    *normalisation(norm, number),
                    nn.ReLU(inplace=True),
                ]
                before = number
            layers.append(nn.MaxPool2d(2))
        if hidden:
            pixels = (height >> len(channels)) * (width >> len(channels))
            layers += [nn.Flatten(), nn.Linear(before * pixels, hidden), nn.ReLU()]
        else:
            layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        before = hidden or before
        layers += [nn.Dropout(dropout)] if dropout else []
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(before, info.num_labels)


def normalisation(norm: Norm, channels: int) -> list[nn.Module]:
    """Return the layer that ``norm`` stands for, or none."""
    if norm == "batch":
        return [nn.BatchNorm2d(channels)]
    groups = max(number for number in (8, 4, 2, 1) if channels % number == 0)
    return [nn.GroupNorm(groups, channels)] if norm == "group" else []
