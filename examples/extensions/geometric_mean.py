"""Geometric mean of the labels' accuracies."""

from __future__ import annotations

from logit_correction import Predictions
from logit_correction.functional import group_mean
from logit_correction.training.rules import SelectionRule


class GeometricMean(SelectionRule):
    """The geometric mean of the accuracies of all labels that have rows: 0 if one of them is lost."""

    def score(self, predictions: Predictions) -> float:
        """Return the geometric mean."""
        accuracy = group_mean(predictions.right, predictions.label_groups())
        accuracy = accuracy[~accuracy.isnan()]
        return float(accuracy.prod() ** (1 / len(accuracy)))
