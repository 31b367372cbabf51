"""The fully connected network of Colored MNIST."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn

from logit_correction.errors import InputError
from logit_correction.networks.base import Network, refuse_tokens
from logit_correction.types import DataInfo


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

        Raises:
            InputError: If a width is not positive, or the inputs are tokens.
        """
        super().__init__()
        refuse_tokens(info, "MLP")
        if not hidden or any(width < 1 for width in hidden):
            raise InputError(f"hidden widths {list(hidden)} must be positive, such as [100, 100, 100]")
        layers: list[nn.Module] = [nn.Flatten()]
        widths = [math.prod(info.input_shape), *hidden]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], info.num_labels)
        self.narrows = widths[1] < widths[0]

    def affine_start(self, inputs: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]] | None:
        """Return the first layer's values (B, H), if they are fewer than the inputs."""
        if not self.narrows:
            return None
        layers: list[nn.Module] = [*self.features.children(), self.head]
        start: Tensor = _through(layers[:2], inputs)
        return start, lambda values: _through(layers[2:], values)


def _through(layers: Sequence[nn.Module], values: Tensor) -> Tensor:
    for layer in layers:
        values = layer(values)
    return values
