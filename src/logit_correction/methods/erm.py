"""Empirical risk minimization: ordinary training."""

from __future__ import annotations

from torch.nn.functional import cross_entropy

from logit_correction.methods.base import Algorithm
from logit_correction.types import Batch, Step


class ERM(Algorithm):
    """Minimizes the mean cross-entropy of the batch: the baseline, which relies on shortcuts where there are some.

    >>> import torch
    >>> from logit_correction import ERM, Batch, DataInfo
    >>> method = ERM(lambda: torch.nn.Linear(3, 2), DataInfo(num_labels=2, num_rows=4, input_shape=(3,)))
    >>> step = method(Batch(torch.ones(4, 3), torch.tensor([0, 0, 1, 1]), torch.arange(4)), epoch=0.0)
    >>> step.loss.shape, method.needs_attributes
    (torch.Size([]), False)
    """

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return the mean cross-entropy of the batch.

        Args: as in ``Algorithm.compute_loss``.
        """
        return Step(cross_entropy(self.network(batch.inputs), batch.label))
