"""Mixing that adds noise to the inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from logit_correction.correlation import Correlation
from logit_correction.errors import check_range
from logit_correction.group_prior import GroupPrior
from logit_correction.methods.mixing import Mixing
from logit_correction.types import Batch


class Noise(Mixing):
    """Adds Gaussian noise to the inputs."""

    def __init__(self, deviation: float = 0.1) -> None:
        """Choose how much.

        Args:
            deviation: Standard deviation, 0 or more.
        """
        check_range("deviation", deviation, 0)
        self.deviation = deviation

    def __call__(
        self,
        network: nn.Module,
        batch: Batch,
        attribute: Tensor,
        prior: GroupPrior,
        correlation: Correlation,
        epoch: float,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of noisy samples and each row's own log prior."""
        assert isinstance(batch.inputs, Tensor)
        noise = torch.randn(batch.inputs.shape, generator=generator, device=batch.inputs.device)
        return network(batch.inputs + self.deviation * noise), prior.log(prior.for_attribute(attribute))
