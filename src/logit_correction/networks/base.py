"""What a network of ours is: features and a head."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from logit_correction.types import InputError, Inputs


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


def check_mixing_place(network: nn.Module, place: str) -> None:
    """Return if ``network`` can mix at ``place``, ``inputs`` or ``features``.

    Raises:
        InputError: If its features are asked for and it has no halves.
    """
    if place == "features" and not (hasattr(network, "features") and hasattr(network, "head")):
        raise InputError("mixup_on=features needs a network with `features` and `head`: give one, or mix inputs")


def mixing_place(network: nn.Module, inputs: Inputs, place: str) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return the values to mix at ``place`` and what turns the mixed values into logits.

    Raises:
        InputError: If the inputs themselves are to be mixed and are tokens.
    """
    if place == "features":
        halves = cast(Network, network)
        return halves.features(inputs), halves.head
    if isinstance(inputs, Tensor):
        return inputs, network
    raise InputError("tokens cannot be mixed: give mixup_on=features, or mix nothing")
