"""The logit-corrected loss as a module, for training loops of your own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from logit_correction.functional import logit_corrected_cross_entropy
from logit_correction.group_prior import GroupPrior

#: The least log prior relative to a row's greatest one: no infinity may meet a row's own label, or strength 0.
LEAST_LOG = -30.0


class LogitCorrectedLoss(nn.Module):
    """Cross-entropy of the logits plus strength * log P(., a) of each row's attribute a (eq. 7).

    Args:
        prior: The group prior: a ``GroupPrior``, which may go on being updated, or a table (L, K) of counts or
            probabilities, 0 or more, such as ``functional.count_prior`` gives.
        strength: Factor of log P; 1 is the paper's.

    Raises:
        ValueError: The table is not (L, K), is negative or is not finite.

    >>> loss = LogitCorrectedLoss(torch.tensor([[45.0, 5.0], [5.0, 45.0]]))
    >>> logits, label, attribute = torch.zeros(3, 2), torch.tensor([0, 0, 0]), torch.tensor([0, 1, -1])
    >>> [round(float(loss(logits[i:i+1], label[i:i+1], attribute[i:i+1]).exp()), 4) for i in range(3)]
    [1.1111, 10.0, 2.0]
    """

    def __init__(self, prior: GroupPrior | Tensor, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength
        if isinstance(prior, GroupPrior):
            self.prior = prior
            return
        table = torch.as_tensor(prior)
        if table.dim() != 2:
            raise ValueError(f"A group prior needs the shape (labels, attribute values), not {tuple(table.shape)}.")
        self.prior = GroupPrior(*table.shape, averaging="fixed", floor=0.0)
        self.prior.set_table(table / table.sum())

    def forward(self, logits: Tensor, label: Tensor, attribute: Tensor) -> Tensor:
        """Return the mean loss, 0-d.

        Args:
            logits: (B, L), uncorrected; the ones to predict with.
            label: (B,) long, 0..L-1.
            attribute: (B,) long, 0..K-1, or -1 where unknown: such a row is not corrected.
        """
        log_prior = self.prior.log(self.prior.for_attribute(attribute))
        return corrected_losses(logits, label, log_prior, self.strength).mean()


def corrected_losses(logits: Tensor, label: Tensor, log_prior: Tensor, strength: float = 1.0) -> Tensor:
    """Return the corrected losses (B,) of logits (B, L) under log priors (B, L), which may hold -inf.

    What never occurs counts as very improbable, not as impossible: a row's own label may have the prior 0.
    """
    correction = shifted(log_prior)
    if strength != 1.0:
        correction = strength * correction
    return logit_corrected_cross_entropy(logits, label, correction)


def shifted(log_prior: Tensor) -> Tensor:
    """Return log priors (B, L) less each row's greatest one, none below ``LEAST_LOG``.

    The shift leaves the loss as it is, and makes a uniform prior correct by exactly nothing. It is finite also where
    nobody has a row's attribute.
    """
    greatest = log_prior.amax(1, keepdim=True).clamp_min(torch.finfo(log_prior.dtype).min)
    return (log_prior - greatest).clamp_min(LEAST_LOG)
