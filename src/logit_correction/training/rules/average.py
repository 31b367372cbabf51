"""Average accuracy."""

from __future__ import annotations

from logit_correction.training.rules.base import SelectionRule, ValidationRows


class Average(SelectionRule):
    """The share of validation rows that are right; where these are biased it prefers what leans on the shortcut."""

    def score(self, rows: ValidationRows) -> float:
        """Return the accuracy over all rows."""
        return float((rows.prediction == rows.label).double().mean())
