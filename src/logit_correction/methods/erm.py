"""Empirical risk minimization."""

from __future__ import annotations

from torch.nn.functional import cross_entropy

from logit_correction.methods.base import Algorithm
from logit_correction.types import Batch, Step


class ERM(Algorithm):
    """Mean cross-entropy over the batch; the baseline that leans on shortcuts."""

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Return the mean cross-entropy."""
        loss = cross_entropy(self.network(batch.inputs), batch.label)
        return Step(loss, {"loss": loss.detach()})
