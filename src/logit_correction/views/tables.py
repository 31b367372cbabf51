"""Views of tables: each column alone, two together, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.finding import ViewName
from logit_correction.types import ViewInputs
from logit_correction.views.base import View
from logit_correction.views.columns import (
    cuts_of,
    edges_of,
    flags,
    is_numeric,
    missing_in,
    most_names,
    numbers_of,
    part_of,
)

#: Most bins of equally many rows that numbers are cut into, and fewest rows of one: with fewer a head learns rows by
#: heart, and says less of real columns than a logistic regression on the number alone.
BINS, LEAST_OF_A_BIN = 16, 100

#: Most single numbers with a feature of their own, and the fewest rows that have such a number; of a column that holds
#: more numbers also the share of the rows.
VALUES, LEAST_OF_A_VALUE, SHARE = 32, 30, 0.01

#: Points of the distribution of the training rows by which a number is ranked.
POINTS = 1001

#: Numbers further than so many spreads from the median count as so far.
FURTHEST = 1000.0

#: Parts that each of a pair of columns is cut into; of tables with more columns no pairs are looked at.
PARTS, MOST_PAIRED = 8, 40

#: What ``compared`` says at a gap, beyond less, equal and greater.
MISSING = 3


class OneColumn(View):
    """One column of a table of features: what it holds, cut so that a linear head can tell any part of it apart.

    Numbers become their value in spreads from the median, their rank in [0, 1], and whether they are missing. Each bin
    of equally many training rows has a flag, and so has each number that many rows share. Names become whether they
    are missing, whether they are another than the commonest, and one flag for each of those.
    """

    breadth = 0
    needs = "a table of features"
    together = 2  # many columns side by side are as good as the whole table; five told seven kinds of ground apart

    def __init__(self, column: str) -> None:
        self.column, self.name = column, f"column:{column}"
        self.sentence = f"the column {column} alone"
        # Plain values, which a checkpoint holds.
        self._names: list[str] = []
        self._points: list[float] = []
        self._edges: list[float] = []
        self._common: list[float] = []
        self._median, self._spread = 0.0, 1.0

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        """Return one view for each column that is not the same in all rows; being missing is a value too."""
        views: list[View] = []
        for name, values in inputs.columns.items():
            missing = missing_in(values)
            present = values[~missing]
            if len(present) and (missing.any() or (present != present[0]).any()):
                views.append(cls(name))
        return views

    def can_look(self, inputs: ViewInputs) -> bool:
        return self.column in inputs.columns

    def fit(self, inputs: ViewInputs) -> None:
        values = inputs.columns[self.column]
        if not is_numeric(values):
            self._names = cuts_of(values, most_names(inputs.num_rows))
            return
        present = values.astype(np.float64)
        present = present[np.isfinite(present)]
        if not len(present):
            return
        points = np.quantile(present, np.linspace(0, 1, POINTS), method="inverted_cdf")
        self._points, self._median = points.tolist(), float(points[POINTS // 2])
        low, high = (float(points[round(share * (POINTS - 1))]) for share in (0.05, 0.95))
        # A column that is nearly always the same has no spread but for its few other values.
        self._spread = (high / 2 - low / 2) or float(np.abs(present / 2 - self._median / 2).max()) or 1.0
        found, count = np.unique(present, return_counts=True)
        few = len(found) <= VALUES
        often = np.argsort(-count, kind="stable")[:VALUES]
        enough = max(LEAST_OF_A_VALUE, 0 if few else SHARE * len(present))
        self._common = np.sort(found[often[count[often] >= enough]]).tolist()
        bins = min(BINS, max(1, len(present) // LEAST_OF_A_BIN))
        self._edges = [] if few else edges_of(present, bins)

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the features of the column, (N, F); a missing number has the median's."""
        values = inputs.columns[self.column]
        missing = missing_in(values)
        parts = self._of_numbers(values, missing) if is_numeric(values) else self._of_names(values, missing)
        return torch.from_numpy(np.concatenate(parts, axis=1, dtype=np.float32))

    def _of_numbers(self, values: NDArray[Any], missing: NDArray[np.bool_]) -> list[NDArray[Any]]:
        import pandas as pd

        number = np.where(missing, self._median, values.astype(np.float64))
        with np.errstate(over="ignore"):  # halved, so that no difference of finite numbers is infinite
            value = np.clip((number / 2 - self._median / 2) / self._spread, -FURTHEST, FURTHEST)
        rank = np.full(len(number), 0.5)
        if self._points:  # the share of the training rows below, those that are equal counted half
            below, upto = (np.searchsorted(self._points, number, side=side) for side in ("left", "right"))
            rank = (below + upto) / (2 * len(self._points))
        parts = [value[:, None], missing[:, None], rank[:, None]]
        if self._edges:
            parts.append(flags(part_of(values, self._edges), len(self._edges) + 1))
        if self._common:
            parts.append(
                flags(pd.Index(self._common).get_indexer(pd.Index(values.astype(np.float64))), len(self._common))
            )
        return parts

    def _of_names(self, values: NDArray[Any], missing: NDArray[np.bool_]) -> list[NDArray[Any]]:
        part, count = part_of(values, self._names), len(self._names)
        return [missing[:, None], (part == count)[:, None], flags(part, count)]


class Pairs(View):
    """Two columns of a table together: the cell of a grid that a row lies in, and which of them is greater.

    Numbers are cut into parts of equally many training rows, names into the commonest and all others. The difference of
    two numbers is cut into finer ones.
    """

    breadth = 0
    needs = f"a table of 2 to {MOST_PAIRED} features"

    def __init__(self, first: str, second: str) -> None:
        self.columns, self.name = [first, second], f"pair:{first} & {second}"
        self.sentence = f"the columns {first} and {second} together"
        self._cuts: list[list[Any]] = []
        self._edges: list[float] = []

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        """Return one view for each pair of columns that vary."""
        columns = [ViewName.of(view.name).member for view in OneColumn.views_of(inputs)]
        return [cls(*pair) for pair in combinations(columns, 2)] if len(columns) <= MOST_PAIRED else []

    def can_look(self, inputs: ViewInputs) -> bool:
        return all(column in inputs.columns for column in self.columns)

    def fit(self, inputs: ViewInputs) -> None:
        self._cuts = [cuts_of(inputs.columns[column], PARTS) for column in self.columns]
        self._edges = edges_of(self._apart(inputs), BINS)

    def _apart(self, inputs: ViewInputs) -> NDArray[np.float64]:
        """Return the difference (N,) of two columns of numbers, NaN where missing; of names there is none."""
        first, second = (inputs.columns[name] for name in self.columns)
        return numbers_of(first) - numbers_of(second) if is_numeric(first) and is_numeric(second) else np.zeros(0)

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return a flag for each cell, for less, equal and greater, and for each bin of the difference, (N, 119)."""
        values = [inputs.columns[name] for name in self.columns]
        first, second = (part_of(*one, PARTS + 2) for one in zip(values, self._cuts, strict=True))
        found = [flags(first * (PARTS + 2) + second, (PARTS + 2) ** 2), flags(compared(*values), MISSING)]
        if self._edges and len(apart := self._apart(inputs)):
            found.append(flags(part_of(apart, self._edges), len(self._edges) + 1))
        return torch.from_numpy(np.concatenate(found, axis=1))


def compared(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int64]:
    """Return 0, 1 or 2 (N,) where the first is less, equal or greater, ``MISSING`` at a gap; names are equal or not."""
    none = np.zeros(len(first), dtype=bool)
    equal = first == second if is_numeric(first) == is_numeric(second) else none
    less = first < second if is_numeric(first) and is_numeric(second) else none
    there = np.where(equal, 1, np.where(less, 0, 2))
    return np.where(missing_in(first) | missing_in(second), MISSING, there).astype(np.int64)


def columns_of(views: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return those of some columns that views of these names look at."""
    family_and_member = [ViewName.of(view) for view in views]
    alone = {member for family, member in family_and_member if family == "column"}
    pairs = [member for family, member in family_and_member if family == "pair"]
    return [
        name
        for name in columns
        if name in alone or any(pair.startswith(f"{name} & ") or pair.endswith(f" & {name}") for pair in pairs)
    ]


class Missing(View):
    """The pattern of missing values: who fills a form in, or which machine measures, may leave out what it will."""

    name = "missing"
    breadth = 0
    needs = "a table of features with missing values"

    def __init__(self) -> None:
        self._columns: list[str] = []

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        return [cls()] if any(missing_in(values).any() for values in inputs.columns.values()) else []

    def can_look(self, inputs: ViewInputs) -> bool:
        return bool(inputs.columns)

    def fit(self, inputs: ViewInputs) -> None:
        self._columns = [name for name, values in inputs.columns.items() if missing_in(values).any()]

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return a flag for each of these columns, and how many values a row misses in all of them, (N, F + 1)."""
        missing = {name: missing_in(values) for name, values in inputs.columns.items()}
        number = np.sum(list(missing.values()), axis=0)
        return torch.from_numpy(np.stack([*(missing[name] for name in self._columns), number], axis=1)).float()
