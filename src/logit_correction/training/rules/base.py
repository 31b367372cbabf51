"""What a selection rule is: a score of a model by what it says of validation rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from logit_correction.functional.groups import group_balanced_accuracy, group_membership, label_membership

if TYPE_CHECKING:  # with it comes pandas, which the help of a command can do without
    from logit_correction.evaluation.predictions import EstimatedAttributes


@dataclass(frozen=True)
class ValidationRows:
    """What a rule may look at of n validation rows.

    Attributes:
        prediction: (n,) long, 0..L-1.
        label: (n,) long.
        num_labels: L.
        membership: (n, G) bool, label x attribute and sparse, or the data's own groups; None unless a rule ``reads``
            attributes.
        estimate: The attributes that the method's estimator finds; None unless a rule ``needs_estimate``, and where
            there is none.
    """

    prediction: Tensor
    label: Tensor
    num_labels: int
    membership: Tensor | None = None
    estimate: EstimatedAttributes | None = None

    @property
    def classes(self) -> Tensor:
        """The rows of each label, (n, L) bool, sparse."""
        return label_membership(self.label, self.num_labels)

    @property
    def estimated_groups(self) -> Tensor | None:
        """The rows of each label x estimated attribute, (n, L K) bool, sparse; None where nothing is estimated."""
        if self.estimate is None:
            return None
        attribute = torch.from_numpy(self.estimate.attribute)
        return group_membership(self.label, attribute, self.num_labels, len(self.estimate.names), sparse=True)

    @property
    def estimated_group_balanced(self) -> float | None:
        """The mean of the accuracies of the estimated groups that have rows; None where nothing is estimated."""
        groups = self.estimated_groups
        return None if groups is None else float(group_balanced_accuracy(self.prediction, self.label, groups))


class SelectionRule(ABC):
    """A score by which the best of several epochs, or runs, is taken; of equal epochs the latest.

    Attributes:
        reads: Which labels of the validation rows it reads.
        needs_estimate: Whether it goes by estimated attributes, which only some methods have.
    """

    reads: ClassVar[tuple[str, ...]] = ("label",)
    needs_estimate: ClassVar[bool] = False

    @abstractmethod
    def score(self, rows: ValidationRows) -> float | None:
        """Return how good a model is, more being better; None where it cannot be told, and the last epoch is taken."""

    def is_level(self, rows: ValidationRows, best: ValidationRows) -> bool:
        """Return whether an epoch of a lower score than the best so far is as good, for all that the rows can tell.

        The later one of two that are level is taken, since it is trained further. By default none is.

        Args:
            rows: As the later epoch predicts them.
            best: The same, as the best epoch before it predicts them.
        """
        return False
