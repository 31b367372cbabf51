"""The last epoch, whatever the validation rows say."""

from __future__ import annotations

from typing import ClassVar

from logit_correction.training.rules.base import SelectionRule, ValidationRows


class Last(SelectionRule):
    """Takes the weights at the end of the training."""

    reads: ClassVar[tuple[str, ...]] = ()

    def score(self, rows: ValidationRows) -> float | None:
        """Return nothing: there is nothing to choose."""
        return None
