"""Mean accuracy over estimated groups, as uLA selects (Tsirigotis et al., NeurIPS 2023)."""

from __future__ import annotations

from typing import ClassVar

from logit_correction.training.rules.base import SelectionRule, ValidationRows


class EstimatedGroupBalanced(SelectionRule):
    """The mean of the accuracies of all groups label x estimated attribute that have rows."""

    needs_estimate: ClassVar[bool] = True

    def score(self, rows: ValidationRows) -> float | None:
        """Return the group-balanced accuracy over estimated groups."""
        return rows.estimated_group_balanced
