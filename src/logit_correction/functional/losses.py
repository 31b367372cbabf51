"""Losses and margins, one value for each row of a batch."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

#: How losses of rows are reduced, as torch names it.
Reduction: TypeAlias = Literal["none", "mean", "sum"]

#: Label of a row that does not count, as in torch.
IGNORED = -100


def generalized_cross_entropy(logits: Tensor, label: Tensor, q: float = 0.7) -> Tensor:
    """Return the generalized cross-entropy (1 - p ** q) / q (eq. 3), which trusts easy rows and so learns shortcuts.

    It is computed from log p, since the gradient of p ** q with respect to p is infinite at p = 0. With respect to the
    logits the gradient is p ** q times that of cross-entropy, and vanishes there.

    Args:
        logits: (B, L).
        label: (B,) long, 0..L-1.
        q: 0 gives cross-entropy, 1 the mean absolute error; 0 <= q <= 1.

    Returns:
        (B,) losses.

    >>> loss = generalized_cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([0]), q=1.0)
    >>> round(loss.item(), 6)
    0.5
    """
    return generalize(cross_entropy(logits, label, reduction="none"), q)


def generalize(loss: Tensor, q: float = 0.7) -> Tensor:
    """Return the generalized cross-entropy (B,) from cross-entropies (B,); see ``generalized_cross_entropy``.

    >>> generalize(torch.tensor([0.5, 3.0]), q=1.0)  # 1 - p
    tensor([0.3935, 0.9502])
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"q must lie between 0 and 1, but it is {q}.")
    return torch.expm1(loss * -q) / -q if q else loss


def logit_corrected_cross_entropy(
    logits: Tensor,
    label: Tensor,
    log_prior: Tensor,
    reduction: Reduction = "none",
    *,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of the logits plus the logarithm of each row's group prior (eq. 7).

    It equals the pairwise margin loss of eq. 8. Predict with the uncorrected logits.

    Args:
        logits: (B, L).
        label: (B,) long, 0..L-1, or -100 for a row that does not count.
        log_prior: (B, L), log P(y, a_x) for every label y and the row's own attribute a_x; finite. A constant
            added to a row changes nothing, so log P(y | a_x) does as well.
        reduction: "none", or "mean" or "sum" over the rows.
        label_smoothing: In [0, 1], the share of a row's target that goes to all labels, in proportion to the row's
            prior. If it were spread evenly, a rare label would have more of the target than of the prior, and the
            uncorrected logits would predict it for every row of the attribute.

    Returns:
        (B,) losses, or their mean or sum, 0-d.

    >>> logits, label = torch.zeros(1, 2), torch.tensor([1])
    >>> log_prior = torch.log(torch.tensor([[0.45, 0.05]]))
    >>> round(logit_corrected_cross_entropy(logits, label, log_prior).exp().item(), 4)
    10.0
    """
    if logits.shape != log_prior.shape:  # broadcasting would hide the mistake
        raise ValueError(
            f"Logits have shape {tuple(logits.shape)} and log priors {tuple(log_prior.shape)}, but both need one value "
            "for each row and label. Two labels need two logits; a label that no row has is none of an estimate's."
        )
    corrected = logits + log_prior
    if not label_smoothing:
        return cross_entropy(corrected, label, reduction=reduction)
    loss = cross_entropy(corrected, label, reduction="none")
    spread = cross_entropy(corrected, log_prior.softmax(dim=1).to(corrected.dtype), reduction="none")
    counts = label != IGNORED if label.dim() == 1 else torch.ones_like(loss, dtype=torch.bool)
    loss = torch.where(counts, (1 - label_smoothing) * loss + label_smoothing * spread, 0.0)
    return loss if reduction == "none" else loss.sum() / (counts.sum() if reduction == "mean" else 1)


def margin(logits: Tensor, label: Tensor) -> Tensor:
    """Return the margin of each row (Appendix C): the label's logit minus the greatest other logit.

    Args:
        logits: (B, L) with at least two labels.
        label: (B,) long, 0..L-1.

    Returns:
        (B,) margins, positive where the prediction is right.

    >>> margin(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([1]))
    tensor([-2.])
    """
    column = label.unsqueeze(1)
    other = logits.scatter(1, column, float("-inf")).amax(dim=1)
    return logits.gather(1, column).squeeze(1) - other
