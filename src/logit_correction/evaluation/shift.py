"""Whether rows of a later day fall into the same cells as those of training did: two tables of counts, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logit_correction.functional.groups import wilson_interval
from logit_correction.percent import format_percent

#: Tables that are drawn at random for the p value, and their seed.
DRAWS, SEED = 9_999, 0

#: A p value below it is called a move.
LEVEL = 0.01


@dataclass(frozen=True)
class Share:
    """A share of rows with its 95 % interval (Wilson's).

    Attributes:
        count: Rows of the share.
        rows: All rows.
    """

    count: int
    rows: int

    @property
    def value(self) -> float | None:
        """The share; None without rows."""
        return self.count / self.rows if self.rows else None

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end."""
        low, high = wilson_interval(self.count, self.rows)
        return float(low), float(high)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        low, high = self.interval
        return {"count": self.count, "rows": self.rows, "share": self.value, "low": low, "high": high}


@dataclass(frozen=True)
class GroupShift:
    """Rows by predicted label and by what they look like, now and in the reference.

    No label of the new rows is known, so the network's prediction stands in its place, in the reference as well:
    like is compared with like. A move says that something about the rows has changed, what they look like or how
    often the network goes by it, and not which; that nothing moved does not say that the network is right.

    Attributes:
        reference: (L, K + 1) counts of the reference, rows of which the estimator cannot tell last.
        new: The same of the new rows.
        label_names: L names.
        look_names: K names of attribute values.
        goes_with: For each label the attribute values that go with it.
        reference_name: What the reference is, in words.

    >>> shift = GroupShift(np.array([[90, 10, 0], [10, 90, 0]]), np.array([[45, 55, 0], [50, 50, 0]]),
    ...                    ["cat", "dog"], ["indoors", "outdoors"], [[0], [1]])
    >>> round(shift.distance, 3), round(shift.p_value, 4), shift.conflict(shift.new).value
    (0.425, 0.0001, 0.525)
    """

    reference: NDArray[np.int64]
    new: NDArray[np.int64]
    label_names: Sequence[str]
    look_names: Sequence[str]
    goes_with: Sequence[Sequence[int]]
    reference_name: str = "validation rows"

    def conflict(self, counts: NDArray[np.int64]) -> Share:
        """Return the share of rows that look like another label than the predicted one, among those that tell."""
        told = counts[:, :-1]
        agree = sum(int(told[label, list(values)].sum()) for label, values in enumerate(self.goes_with))
        return Share(int(told.sum()) - agree, int(told.sum()))

    @property
    def distance(self) -> float:
        """Total variation: the least share of rows that would have to be in another cell, 0..1."""
        return _distance(self.reference, self.new)

    @property
    def p_value(self) -> float:
        """How often chance alone gives tables that differ as much, by Pearson's statistic; from drawn tables."""
        return self._drawn[0]

    @property
    def distance_by_chance(self) -> float:
        """The distance that chance alone exceeds in one of twenty cases."""
        return self._drawn[1]

    @property
    def moved(self) -> bool:
        """Whether chance alone does not explain the difference."""
        return self.p_value < LEVEL

    @cached_property
    def _drawn(self) -> tuple[float, float]:
        """Draw tables with the same margins, which holds for small counts as well as for large ones."""
        from scipy.stats import random_table

        both = np.stack([self.reference.ravel(), self.new.ravel()])
        both = both[:, both.sum(axis=0) > 0]
        if both.shape[1] < 2 or (both.sum(axis=1) == 0).any():
            return 1.0, 0.0
        tables = random_table(both.sum(axis=1), both.sum(axis=0)).rvs(DRAWS, random_state=SEED)
        expected = np.outer(both.sum(axis=1), both.sum(axis=0)) / both.sum()
        statistic = ((tables - expected) ** 2 / expected).sum(axis=(1, 2))
        own = ((both - expected) ** 2 / expected).sum()
        shares = tables / tables.sum(axis=2, keepdims=True)
        distances = np.abs(shares[:, 0] - shares[:, 1]).sum(axis=1) / 2
        # Sums in another order differ in the last digits, and equal tables are to count as equal.
        exceeding = int((statistic >= own * (1 - 1e-9)).sum())
        return (1 + exceeding) / (1 + DRAWS), float(np.quantile(distances, 0.95))

    def sentence(self) -> str:
        """Say in one sentence whether the rows moved."""
        before, now = self.conflict(self.reference), self.conflict(self.new)
        if now.value is None or before.value is None:
            return "The estimator can tell of none of the rows what they look like, so nothing can be compared."
        low, high = (format_percent(end, 1, "") for end in now.interval)
        shares = (
            f"{format_percent(now.value, 1, ' %')} of the new rows (95 % interval {low} to {high}) look like another "
            f"label than the one predicted, and {format_percent(before.value, 1, ' %')} of the {self.reference_name} do"
        )
        test = (
            f"total variation distance {self.distance:.3f}, by chance up to {self.distance_by_chance:.3f}; "
            f"p {'< 0.001' if self.p_value < 0.001 else f'= {self.p_value:.3f}'}"
        )
        if self.moved:
            return f"The groups have moved: {shares} ({test})."
        return f"No sign that the groups have moved: {shares} ({test})."

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "sentence": self.sentence(),
            "moved": self.moved,
            "p_value": self.p_value,
            "total_variation": self.distance,
            "total_variation_by_chance": self.distance_by_chance,
            "conflict": {
                "reference": self.conflict(self.reference).to_dict(),
                "new": self.conflict(self.new).to_dict(),
            },
            "reference": self.reference_name,
            "cells": self.cells(),
        }

    def cells(self) -> list[dict[str, Any]]:
        """Return each cell that has rows: predicted label, look (None where unknown), and its shares then and now."""
        looks = [*map(str, self.look_names), None]
        totals = max(1, int(self.reference.sum())), max(1, int(self.new.sum()))
        return [
            {
                "predicted": str(label),
                "looks": look,
                "conflict": None if look is None else k not in self.goes_with[y],
                "reference_rows": int(self.reference[y, k]),
                "new_rows": int(self.new[y, k]),
                "reference_share": int(self.reference[y, k]) / totals[0],
                "new_share": int(self.new[y, k]) / totals[1],
            }
            for y, label in enumerate(self.label_names)
            for k, look in enumerate(looks)
            if self.reference[y, k] or self.new[y, k]
        ]


def _distance(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    if not one.sum() or not other.sum():
        return 0.0
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)
