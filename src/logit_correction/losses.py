"""The logit-corrected loss as a module, for training loops of your own."""

from __future__ import annotations

from typing import get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from logit_correction.errors import InputError, check_range
from logit_correction.functional import logit_corrected_cross_entropy
from logit_correction.functional.losses import IGNORED, Reduction
from logit_correction.prior import GroupPrior


class LogitCorrectedLoss(nn.Module):
    """Cross-entropy of the logits plus strength * log P(., a) of each row's attribute a (eq. 7).

    Args:
        prior: The group prior: a ``GroupPrior``, which may still be updated, or a table (L, K) of counts or
            probabilities, 0 or more, such as ``functional.count_prior`` gives.
        strength: Factor of log P; 1 is the paper's.
        label_smoothing: In [0, 1]; spread in proportion to the row's prior, not evenly;
            see ``functional.logit_corrected_cross_entropy``.
        weight: (L,) of each label, as that of ``torch.nn.CrossEntropyLoss``. To weigh single rows, take
            ``reduction="none"`` and weigh what it returns.
        reduction: none, mean or sum over the rows.

    >>> loss = LogitCorrectedLoss(torch.tensor([[45.0, 5.0], [5.0, 45.0]]))
    >>> logits, label, attribute = torch.zeros(3, 2), torch.tensor([0, 0, 0]), torch.tensor([0, 1, -1])
    >>> [round(float(loss(logits[i:i+1], label[i:i+1], attribute[i:i+1]).exp()), 4) for i in range(3)]
    [1.1111, 10.0, 2.0]
    """

    def __init__(
        self,
        prior: GroupPrior | Tensor | ArrayLike,
        strength: float = 1.0,
        *,
        label_smoothing: float = 0.0,
        weight: Tensor | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.weight: Tensor | None
        self.register_buffer("weight", weight)
        check_range("strength", strength, 0)
        check_range("label_smoothing", label_smoothing, 0, 1)
        if reduction not in get_args(Reduction):
            raise InputError(f"reduction is {reduction!r}, but must be one of {', '.join(get_args(Reduction))}")
        self.strength, self.label_smoothing, self.reduction = strength, label_smoothing, reduction
        if isinstance(prior, GroupPrior):
            self.prior = prior
            return
        table = prior if isinstance(prior, Tensor) else torch.from_numpy(np.array(prior, dtype=np.float64))
        if table.dim() != 2:
            raise ValueError(f"A group prior needs the shape (labels, attribute values), not {tuple(table.shape)}.")
        self.prior = GroupPrior(*table.shape, averaging="fixed", floor=0.0)
        self.prior.set_table(table)  # its scale corrects nothing

    def forward(self, logits: Tensor, label: Tensor, attribute: Tensor) -> Tensor:
        """Return the mean loss, 0-d, or what ``reduction`` asks for.

        Args:
            logits: (B, L), uncorrected; the ones to predict with.
            label: (B,) whole numbers, 0..L-1; or (B, L) shares of each label, without ``weight``.
            attribute: (B,) whole numbers, 0..K-1, or -1 where unknown: such a row is not corrected.

        Raises:
            TypeError: The labels or the attributes are no such tensor.
        """
        shares = label.is_floating_point() and label.shape == logits.shape and self.weight is None
        if not shares and (label.is_floating_point() or label.dim() != 1):
            raise TypeError(
                "label must be a tensor of whole numbers (B,): give label.long(), or label.squeeze(1).long()"
            )
        label, reduction = label if shares else label.long(), self.reduction if self.weight is None else "none"
        loss = logit_corrected_cross_entropy(
            logits, label, self.offset(attribute), reduction, label_smoothing=self.label_smoothing
        )
        if self.weight is None:
            return loss
        weight = torch.where(label == IGNORED, 0.0, self.weight[label.clamp_min(0)])
        loss = loss * weight
        return loss if self.reduction == "none" else loss.sum() / (weight.sum() if self.reduction == "mean" else 1)

    def offset(self, attribute: Tensor) -> Tensor:
        """Return what the loss adds to the logits (B, L) of rows of these attributes (B,), for losses of your own.

        A network for two labels with a single logit takes the difference of the two columns:

        >>> loss = LogitCorrectedLoss(torch.tensor([[45.0, 5.0], [5.0, 45.0]]))
        >>> offset = loss.offset(torch.tensor([0, 1, -1]))
        >>> (offset[:, 1] - offset[:, 0]).exp().round(decimals=4)
        tensor([0.1111, 9.0000, 1.0000])

        Raises:
            TypeError: The attributes are no tensor of whole numbers.
        """
        whole = isinstance(attribute, Tensor) and not (attribute.is_floating_point() or attribute.is_complex())
        if not whole or attribute.dtype is torch.bool:
            raise TypeError("attribute must be a tensor of whole numbers (B,), with -1 where it is unknown")
        return self.strength * self.prior.log_for_attribute(attribute.long())


def check_criterion(criterion: object) -> None:
    """Raise ``InputError`` if to add the prior to the logits of somebody's loss would not correct.

    One that smooths labels evenly makes plain logits name rare labels; others of torch's do not normalise the logits.
    """
    if type(criterion).__module__ == nn.NLLLoss.__module__ and not isinstance(criterion, nn.CrossEntropyLoss):
        raise InputError(f"{type(criterion).__name__} is no cross-entropy of logits: take torch.nn.CrossEntropyLoss")
    for name in ("label_smoothing", "smoothing"):  # torch's, timm's
        value = getattr(criterion, name, None)
        if isinstance(value, int | float) and value > 0:
            raise InputError(
                f"{type(criterion).__name__} has {name}={value:g}, which goes to all labels alike: a network so "
                "corrected names the rarest label of each attribute. Leave it out, or take a loop of your own with "
                "LogitCorrectedLoss(label_smoothing=), which allows for the prior"
            )
