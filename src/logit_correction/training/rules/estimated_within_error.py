"""The latest epoch within one standard error of the best, over estimated groups."""

from __future__ import annotations

from typing import ClassVar

from logit_correction.functional import group_count, group_mean
from logit_correction.training.rules.base import SelectionRule, ValidationRows


class EstimatedWithinError(SelectionRule):
    """The mean accuracy over estimated groups by the one-standard-error rule (Breiman et al., 1984).

    Few validation rows conflict with a shortcut, so the best of many epochs is the best by chance as well. The latest
    one is taken that is not worse by more than one standard error of the difference. Both predict the same rows: only
    those count in which one is right and the other wrong.
    """

    needs_estimate: ClassVar[bool] = True

    def score(self, rows: ValidationRows) -> float | None:
        """Return the group-balanced accuracy over estimated groups."""
        return rows.estimated_group_balanced

    def is_level(self, rows: ValidationRows, best: ValidationRows) -> bool:
        """Return whether the difference of the scores is at most its standard error."""
        groups = rows.estimated_groups
        if groups is None:
            return False
        lost = (best.prediction == best.label).double() - (rows.prediction == rows.label).double()
        difference = group_mean(lost, groups).nanmean()
        # Of independent groups of n rows each; the second moment is the variance where there is no difference.
        of_groups = group_mean(lost.square(), groups) / group_count(groups)
        variance = of_groups.nansum() / of_groups.isfinite().sum().square()
        return bool(difference <= variance.sqrt())
