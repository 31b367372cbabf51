"""How far the accuracies of the labels lie apart."""

from __future__ import annotations

import torch

from logit_correction.functional import group_accuracy
from logit_correction.training.rules.base import SelectionRule, ValidationRows


class ClassDifference(SelectionRule):
    """The mean of |acc_i - acc_j| over all pairs of labels, less of it being better.

    A model that is equally bad at every label has the best score, so it tells little by itself of two epochs that
    are far apart.
    """

    def score(self, rows: ValidationRows) -> float:
        """Return the mean difference of two labels' accuracies, negative; 0 where fewer than two have rows."""
        accuracy = group_accuracy(rows.prediction, rows.label, rows.classes)
        accuracy = accuracy[~accuracy.isnan()]
        pairs = torch.combinations(accuracy, 2)
        return -float((pairs[:, 0] - pairs[:, 1]).abs().mean()) if len(pairs) else 0.0
