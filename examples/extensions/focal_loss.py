"""Focal loss: cross-entropy in which rows that are already right count less."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from logit_correction.errors import InputError
from logit_correction.methods.base import Algorithm
from logit_correction.types import Batch, DataInfo, NetworkFactory, Step


class FocalLoss(Algorithm):
    """Cross-entropy times (1 - p_y)^gamma."""

    def __init__(self, network: NetworkFactory, info: DataInfo, *, gamma: float = 2.0, seed: int = 0) -> None:
        """Build the network.

        Args:
            network: Builds the network.
            info: Sizes and names of the data.
            gamma: Exponent, 0 or more; 0 is ERM.
            seed: Seed of the initial weights.

        Raises:
            InputError: If gamma is negative.
        """
        if gamma < 0:
            raise InputError(f"gamma is {gamma}, but must not be negative; 0 is ERM")
        super().__init__(network, info, seed=seed)
        self.gamma = gamma

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return the mean focal loss (B,) -> ()."""
        plain = cross_entropy(self.network(batch.inputs), batch.label, reduction="none")
        return Step(((1 - torch.exp(-plain)) ** self.gamma * plain).mean())
