"""Mixing that adds noise to the inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from logit_correction.errors import check_range
from logit_correction.methods.parts import Mixing, MixingContext


class Noise(Mixing):
    """Adds Gaussian noise to the inputs."""

    def __init__(self, deviation: float = 0.1) -> None:
        """Choose how much.

        Args:
            deviation: Standard deviation, 0 or more.
        """
        check_range("deviation", deviation, 0)
        self.deviation = deviation

    def __call__(self, network: nn.Module, context: MixingContext) -> tuple[Tensor, Tensor]:
        """Return the logits of noisy samples and each row's own log prior."""
        inputs = context.batch.inputs
        assert isinstance(inputs, Tensor)
        noise = torch.randn(inputs.shape, generator=context.generator, device=inputs.device)
        return network(inputs + self.deviation * noise), context.prior.log_for_attribute(context.attribute)
