"""What a network of ours is: features and a head."""

from __future__ import annotations

from torch import Tensor, nn


class Network(nn.Module):
    """A network in two halves, so that features can be mixed, swapped or clustered.

    Subclasses set ``features`` (inputs -> (B, F)) and ``head`` ((B, F) -> logits (B, L)).
    """

    features: nn.Module
    head: nn.Module

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (B, L)."""
        logits: Tensor = self.head(self.features(inputs))
        return logits
