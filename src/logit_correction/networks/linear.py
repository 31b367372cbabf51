"""A linear layer alone, for features that need no further network."""

from __future__ import annotations

import math

from torch import nn

from logit_correction.networks.base import Network, refuse_tokens
from logit_correction.types import DataInfo


class Linear(Network):
    """One linear layer on flattened inputs: a head for the features of an ``encoder``, or for a table of numbers.

    >>> import torch
    >>> Linear(DataInfo(num_labels=2, num_rows=1, input_shape=(512,)))(torch.zeros(3, 512)).shape
    torch.Size([3, 2])
    """

    def __init__(self, info: DataInfo) -> None:
        """Build the layer.

        Args:
            info: Input shape and number of labels.

        Raises:
            InputError: If the inputs are tokens.
        """
        super().__init__()
        refuse_tokens(info, "Linear")
        self.features = nn.Flatten()
        self.head = nn.Linear(math.prod(info.input_shape), info.num_labels)
