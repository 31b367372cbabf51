"""A fully connected network with shortcuts around its layers."""

from __future__ import annotations

import math

from torch import Tensor, nn

from logit_correction.errors import check_range
from logit_correction.networks.base import Network, check_inputs_are_not_tokens
from logit_correction.types import DataInfo


class Block(nn.Module):
    """x + ReLU(W x + b)."""

    def __init__(self, width: int) -> None:
        """Build the layer."""
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (B, width) for (B, width)."""
        return inputs + self.layer(inputs).relu()


class ResidualMLP(Network):
    """Residual blocks of fully connected layers on flattened inputs."""

    def __init__(self, info: DataInfo, width: int = 64, blocks: int = 2) -> None:
        """Build the layers.

        Args:
            info: Input shape and number of labels.
            width: Width of every layer.
            blocks: Number of blocks, at least 1.

        Raises:
            InputError: If a number is not positive, or the inputs are tokens.
        """
        super().__init__()
        check_inputs_are_not_tokens(info, "ResidualMLP")
        check_range("width", width, 1)
        check_range("blocks", blocks, 1)
        first = nn.Linear(math.prod(info.input_shape), width)
        self.features = nn.Sequential(nn.Flatten(), first, nn.ReLU(), *(Block(width) for _ in range(blocks)))
        self.head = nn.Linear(width, info.num_labels)
