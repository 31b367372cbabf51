"""Geometric mean of the labels' accuracies."""

from __future__ import annotations

from logit_correction.functional import group_accuracy
from logit_correction.training.rules import SelectionRule, ValidationRows


class GeometricMean(SelectionRule):
    """The geometric mean of the accuracies of all labels that have rows: 0 if one of them is lost."""

    def score(self, rows: ValidationRows) -> float:
        """Return the geometric mean."""
        accuracy = group_accuracy(rows.prediction, rows.label, rows.classes)
        accuracy = accuracy[~accuracy.isnan()]
        return float(accuracy.prod() ** (1 / len(accuracy)))
