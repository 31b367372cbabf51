"""Accuracy by group as torchmetrics metrics, for any training loop and any number of processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from logit_correction.registry import needed

if TYPE_CHECKING:
    from torchmetrics import Metric
else:
    Metric = needed("torchmetrics", "logit_correction.integrations.metrics").Metric


class GroupAccuracy(Metric):
    """Accuracy of each group, label x attribute, (L, K); NaN where it has no rows.

    Counts are added up over batches and over processes, so that the figures are those of all rows together. A row that
    is seen twice, as where a sampler fills up the last batch, counts twice.

    Args:
        num_labels: L.
        num_attributes: K.
        **options: Those of ``torchmetrics.Metric``.

    >>> accuracy = GroupAccuracy(num_labels=2, num_attributes=2)
    >>> accuracy.update(torch.tensor([0, 1, 1]), label=torch.tensor([0, 0, 1]), attribute=torch.tensor([0, 0, 1]))
    >>> accuracy.compute()
    tensor([[0.5000,    nan],
            [   nan, 1.0000]])
    """

    is_differentiable = False
    higher_is_better: bool | None = True
    full_state_update = False
    correct: Tensor
    count: Tensor

    def __init__(self, num_labels: int, num_attributes: int, **options: Any) -> None:
        super().__init__(**options)
        self.num_labels, self.num_attributes = num_labels, num_attributes
        zero = torch.zeros(num_labels * num_attributes, dtype=torch.long)
        self.add_state("correct", zero.clone(), dist_reduce_fx="sum")
        self.add_state("count", zero, dist_reduce_fx="sum")

    def update(self, preds: Tensor, label: Tensor, attribute: Tensor) -> None:
        """Take in a batch.

        Args:
            preds: (B,) predicted labels, or (B, L) logits or probabilities.
            label: (B,) long, 0..L-1.
            attribute: (B,) long, 0..K-1, or -1 where unknown: such a row belongs to no group.
        """
        if preds.dim() == 1 and preds.is_floating_point():
            raise ValueError("preds (B,) must be whole numbers, the predicted labels: give (probability > 0.5).long()")
        if preds.dim() == 2:
            preds = preds.argmax(1)
        for name, codes, least, size in (
            ("label", label, 0, self.num_labels),
            ("attribute", attribute, -1, self.num_attributes),
        ):
            if codes.shape != preds.shape or bool(((codes < least) | (codes >= size)).any()):
                raise ValueError(f"{name} must have shape {tuple(preds.shape)} and values from {least} to {size - 1}")
        known = attribute >= 0
        group = label[known] * self.num_attributes + attribute[known]
        self.count += torch.bincount(group, minlength=len(self.count))
        self.correct += torch.bincount(group[(preds == label)[known]], minlength=len(self.correct))

    def compute(self) -> Tensor:
        return (self.correct / self.count).view(self.num_labels, self.num_attributes)


class GroupBalancedAccuracy(GroupAccuracy):
    """Mean of the groups' accuracies, over the groups that have rows; NaN where none has."""

    def compute(self) -> Tensor:
        return super().compute().nanmean()


class WorstGroupAccuracy(GroupAccuracy):
    """Least of the groups' accuracies, over the groups that have rows; NaN where none has."""

    def compute(self) -> Tensor:
        accuracy = super().compute()
        least = accuracy.nan_to_num(nan=float("inf")).min()
        return least.where(least.isfinite(), torch.nan)
