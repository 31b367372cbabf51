"""Accuracy of the worst label."""

from __future__ import annotations

from logit_correction.functional import worst_group_accuracy
from logit_correction.training.rules.base import SelectionRule, ValidationRows


class WorstClass(SelectionRule):
    """The least accuracy of a label; labels without rows do not count."""

    def score(self, rows: ValidationRows) -> float:
        """Return the accuracy of the worst label."""
        return float(worst_group_accuracy(rows.prediction, rows.label, rows.classes))
