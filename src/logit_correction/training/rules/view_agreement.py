"""How often a model flips to what the view says."""

from __future__ import annotations

from typing import ClassVar

import torch

from logit_correction.training.rules.base import SelectionRule, ValidationRows


class ViewAgreement(SelectionRule):
    """The share of conflicting rows in which the model says what the estimated attribute goes with, less being better.

    Rows whose estimated attribute goes with their label tell nothing of it. The answers elsewhere do not count, so a
    model that says a third label is as good as one that is right.
    """

    needs_estimate: ClassVar[bool] = True

    def score(self, rows: ValidationRows) -> float | None:
        """Return the share of flips, negative; None where no row conflicts."""
        if rows.estimate is None:
            return None
        attribute, correlation = torch.from_numpy(rows.estimate.attribute), rows.estimate.correlation
        conflicting = correlation.is_minority(rows.label, attribute)
        if not bool(conflicting.any()):
            return None
        flips = ~correlation.is_minority(rows.prediction, attribute)
        return -float(flips[conflicting].double().mean())
