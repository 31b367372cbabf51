"""Accuracy of the worst group that somebody named."""

from __future__ import annotations

from typing import ClassVar

from logit_correction.functional import worst_group_accuracy
from logit_correction.training.rules.base import SelectionRule, ValidationRows


class WorstGroup(SelectionRule):
    """The least accuracy of a group that has rows; reads validation attributes."""

    reads: ClassVar[tuple[str, ...]] = ("label", "attribute")

    def score(self, rows: ValidationRows) -> float | None:
        """Return the worst-group accuracy."""
        if rows.membership is None:
            return None
        return float(worst_group_accuracy(rows.prediction, rows.label, rows.membership))
