"""What biased networks share: generalized cross-entropy whose exponent rises, and inputs of which a part is hidden."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from logit_correction.errors import InputError
from logit_correction.networks.base import frozen_statistics, has_running_statistics
from logit_correction.types import Inputs


def ramped_q(q: float, epoch: float, length: float) -> float:
    """The exponent q after ``epoch`` epochs, risen from 0 over ``length``.

    >>> ramped_q(0.8, 0.5, 2.0), ramped_q(0.8, 5.0, 2.0), ramped_q(0.8, 0.0, 0.0)
    (0.2, 0.8, 0.8)
    """
    return q * min(1.0, epoch / length) if length else q


def hide(inputs: Inputs, probability: float, generator: torch.Generator) -> Tensor:
    """Hide places of inputs (B, C, H, W) or (B, F), all channels of a pixel together, and scale to the same mean."""
    if not isinstance(inputs, Tensor):
        raise InputError("tokens cannot be hidden from a biased network: give input_dropout=0")
    shape = (len(inputs), 1, *inputs.shape[2:]) if inputs.dim() > 2 else inputs.shape
    kept = torch.rand(shape, generator=generator, device=inputs.device) >= probability
    return inputs * (kept / (1 - probability))


def hidden_logits(network: nn.Module, inputs: Inputs, probability: float, generator: torch.Generator) -> Tensor:
    """Return logits (B, L) of inputs of which a part is hidden; running statistics are those of whole inputs."""
    with frozen_statistics(network):
        logits: Tensor = network(hide(inputs, probability, generator))
    if has_running_statistics(network):
        # After the step's own pass: some versions of autocast keep the weights as they were first cast, and those
        # cast here have no gradient.
        with torch.no_grad():
            network(inputs)
    return logits
