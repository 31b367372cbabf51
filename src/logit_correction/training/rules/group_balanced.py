"""Mean accuracy over groups that somebody named."""

from __future__ import annotations

from typing import ClassVar

from logit_correction.functional import group_balanced_accuracy
from logit_correction.training.rules.base import SelectionRule, ValidationRows


class GroupBalanced(SelectionRule):
    """The mean of the accuracies of all groups that have rows; reads validation attributes."""

    reads: ClassVar[tuple[str, ...]] = ("label", "attribute")

    def score(self, rows: ValidationRows) -> float | None:
        """Return the group-balanced accuracy."""
        if rows.membership is None:
            return None
        return float(group_balanced_accuracy(rows.prediction, rows.label, rows.membership))
