"""Accuracy of the worst estimated group."""

from __future__ import annotations

from typing import ClassVar

from logit_correction.functional import worst_group_accuracy
from logit_correction.training.rules.base import SelectionRule, ValidationRows


class EstimatedWorstGroup(SelectionRule):
    """The least accuracy of a group label x estimated attribute that has rows; of small groups it is a rough one."""

    needs_estimate: ClassVar[bool] = True

    def score(self, rows: ValidationRows) -> float | None:
        """Return the worst-group accuracy over estimated groups."""
        groups = rows.estimated_groups
        return None if groups is None else float(worst_group_accuracy(rows.prediction, rows.label, groups))
