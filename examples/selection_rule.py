"""A selection rule of your own: the epoch is taken that gives the fewest false alarms.

Use it by ``PYTHONPATH=examples logit-correction train --data Digits --method ERM --out runs/mine`` and
``--selection selection_rule.LeastFalseAlarms``.
"""

from __future__ import annotations

from logit_correction.training.rules.base import SelectionRule, ValidationRows


class LeastFalseAlarms(SelectionRule):
    """The share of rows that are called ``label`` though they are not, less of it being better; reads labels alone."""

    label = 0

    def score(self, rows: ValidationRows) -> float:
        """Return the share of false alarms, negative, since the greatest score wins."""
        others = rows.label != self.label
        return -float((rows.prediction[others] == self.label).double().mean()) if bool(others.any()) else 0.0
