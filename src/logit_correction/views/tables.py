"""Views of tables: each column alone, two together, and what is missing; and how a column is cut.

Numbers are cut into bins, names into the commonest and the rest; a missing value is one of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.types import ViewInputs
from logit_correction.view_names import ViewName
from logit_correction.views.base import View

#: Names of a column that are told apart: most and fewest, and how many numbers they may be of all rows: half a GiB.
MOST_NAMES, FEWEST_NAMES, MOST_NUMBERS = 1000, 100, 2**27

#: Most bins of equally many rows that numbers are cut into.
BINS = 16

#: What ``compare_columns`` says of two values.
LESS, EQUAL, GREATER, INCOMPARABLE = range(4)


def is_numeric(values: NDArray[Any]) -> bool:
    """Return whether a column holds numbers rather than names."""
    return values.dtype.kind in "biuf"


def find_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a column has no value (N,)."""
    return ~np.isfinite(values.astype(np.float64)) if is_numeric(values) else np.asarray(values == "", dtype=bool)


def compute_max_names(rows: int) -> int:
    """Return how many names of a column views and networks tell apart, the commonest; the others share one."""
    return min(MOST_NAMES, max(FEWEST_NAMES, MOST_NUMBERS // max(rows, 1)))


def find_commonest_names(names: NDArray[Any], most: int) -> list[str]:
    """Return the commonest names, of equally common ones those first in the alphabet."""
    count = Counter(names.tolist())
    return sorted(count, key=lambda name: (-count[name], name))[:most]


def compute_quantile_edges(numbers: NDArray[Any], bins: int) -> list[float]:
    """Return the edges between so many bins of equally many numbers, fewer where numbers are equal."""
    there = numbers[np.isfinite(numbers)].astype(np.float64)
    return np.unique(np.quantile(there, np.arange(1, bins) / bins, method="higher")).tolist() if len(there) else []


def compute_edges_by_label(numbers: NDArray[Any], label: NDArray[Any], bins: int) -> list[float]:
    """Return the edges between at most so many bins that end where the label changes; none where it does not."""
    from sklearn.tree import DecisionTreeClassifier

    # Of ranks, for the tree takes numbers in single precision, in which dates an hour apart may be one.
    finite = np.isfinite(numbers)
    different, rank = np.unique(numbers[finite], return_inverse=True)
    limits = {"max_leaf_nodes": bins, "min_samples_leaf": 0.05, "min_impurity_decrease": 0.001}
    tree = DecisionTreeClassifier(**limits, random_state=0)
    nodes = tree.fit(rank[:, None], label[finite].astype(str)).tree_
    return [float(different[int(cut) + 1]) for cut in sorted(nodes.threshold[nodes.feature >= 0])]


def compute_cuts(values: NDArray[Any], parts: int) -> list[Any]:
    """Return where a column is cut into so many parts: edges between numbers, or its commonest names."""
    return (
        compute_quantile_edges(values, parts)
        if is_numeric(values)
        else find_commonest_names(values[values != ""], parts)
    )


def assign_parts(values: NDArray[Any], cuts: Sequence[Any], count: int = 0) -> NDArray[np.int64]:
    """Return the part (N,) of each value among ``count``, by default two more than cuts.

    The last part is of missing values, and the last but one of names that are none of the cuts. A number at an edge
    lies above it.
    """
    import pandas as pd

    count = count or len(cuts) + 2
    if is_numeric(values):
        place = np.searchsorted(np.asarray(cuts, dtype=np.float64), values.astype(np.float64), side="right")
    else:
        place = pd.Index(cuts, dtype=object).get_indexer(pd.Index(values, dtype=object))
        place = np.where(place < 0, count - 2, place)
    return np.where(find_missing(values), count - 1, place).astype(np.int64)


def describe_bins(
    numbers: NDArray[Any], edges: Sequence[float], spell: Callable[[NDArray[Any]], list[str]]
) -> list[str]:
    """Return what people call the bins between edges, by the least and the greatest number that lies in each."""
    there = np.unique(numbers[np.isfinite(numbers)])
    if not len(there):
        return ["any number"] * (len(edges) + 1)
    starts = [0, *np.searchsorted(there, edges).tolist()]
    ends = [*starts[1:], len(there)]
    told = spell(np.concatenate([there[starts], there[[end - 1 for end in ends]]]))
    low, high = told[: len(starts)], told[len(starts) :]
    if len(there) == len(starts):
        return low
    both = zip(low, high, strict=True)
    told = [least if least == greatest else f"{least} to {greatest}" for least, greatest in both]
    return told if len(told) == 1 else [f"up to {high[0]}", *told[1:-1], f"from {low[-1]}"]


def compare_columns(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int64]:
    """Return whether the first (N,) is ``LESS``, ``EQUAL`` or ``GREATER``, or ``INCOMPARABLE``."""
    none = np.zeros(len(first), dtype=bool)
    equal = first == second if is_numeric(first) == is_numeric(second) else none
    less = first < second if is_numeric(first) and is_numeric(second) else none
    there = np.where(equal, EQUAL, np.where(less, LESS, GREATER))
    return np.where(find_missing(first) | find_missing(second), INCOMPARABLE, there).astype(np.int64)


def find_viewed_columns(views: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return those of some columns that views of these names look at."""
    family_and_member = [ViewName.of(view) for view in views]
    alone = {member for family, member in family_and_member if family == "column"}
    pairs = [member for family, member in family_and_member if family == "pair"]
    return [
        name
        for name in columns
        if name in alone or any(pair.startswith(f"{name} & ") or pair.endswith(f" & {name}") for pair in pairs)
    ]


def _flags(part: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return (N, count) with a flag at each row's part, and none where it is none of 0..count-1."""
    return part[:, None] == np.arange(count)


class OneColumn(View):
    """One column of a table of features: what it holds, cut so that a linear head can tell any part of it apart.

    Numbers become their value in spreads from the median, their rank in [0, 1], and whether they are missing. Each bin
    of equally many training rows has a flag, and so has each number that many rows share. Names become whether they
    are missing, whether they are another than the commonest, and one flag for each of those.
    """

    breadth = 0
    needs = "a table of features"
    max_narrow_members = (
        2  # many columns side by side are as good as the whole table; five told seven kinds of ground apart
    )

    LEAST_OF_A_BIN = 100  # rows; with fewer a head learns rows by heart
    VALUES = 32  # single numbers with a feature of their own,
    LEAST_OF_A_VALUE, SHARE = 30, 0.01  # each of so many rows, and in a column of more numbers of this share
    POINTS = 1001  # of the distribution of the training rows, by which a number is ranked
    FURTHEST = 1000.0  # spreads from the median

    def __init__(self, column: str) -> None:
        self.column, self.name = column, f"column:{column}"
        # Plain values, which a checkpoint holds.
        self._names: list[str] = []
        self._points: list[float] = []
        self._edges: list[float] = []
        self._common: list[float] = []
        self._median, self._spread = 0.0, 1.0

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        """Return one view for each column that is not the same in all rows; being missing is a value too."""
        views: list[View] = []
        for name, values in inputs.columns.items():
            missing = find_missing(values)
            present = values[~missing]
            if len(present) and (missing.any() or (present != present[0]).any()):
                views.append(cls(name))
        return views

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return self.column in inputs.columns

    def fit(self, inputs: ViewInputs) -> None:
        values = inputs.columns[self.column]
        if not is_numeric(values):
            self._names = compute_cuts(values, compute_max_names(inputs.num_rows))
            return
        present = values[~find_missing(values)].astype(np.float64)
        if not len(present):
            return
        points = np.quantile(present, np.linspace(0, 1, self.POINTS), method="inverted_cdf")
        self._points, self._median = points.tolist(), float(points[self.POINTS // 2])
        low, high = (float(points[round(share * (self.POINTS - 1))]) for share in (0.05, 0.95))
        # A column that is nearly always the same has no spread but for its few other values.
        self._spread = (high - low) or 2 * float(np.abs(present - self._median).max()) or 1.0
        different, count = np.unique(present, return_counts=True)
        few = len(different) <= self.VALUES
        often = np.argsort(-count, kind="stable")[: self.VALUES]
        enough = max(self.LEAST_OF_A_VALUE, 0 if few else self.SHARE * len(present))
        self._common = np.sort(different[often[count[often] >= enough]]).tolist()
        self._edges = (
            [] if few else compute_quantile_edges(present, min(BINS, max(1, len(present) // self.LEAST_OF_A_BIN)))
        )

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the features of the column, (N, F); a missing number has the median's."""
        values = inputs.columns[self.column]
        missing = find_missing(values)
        if is_numeric(values):
            number = np.where(missing, self._median, values.astype(np.float64))
            value = np.clip((number - self._median) / self._spread, -self.FURTHEST, self.FURTHEST)
            rank = np.full(len(number), 0.5)
            if self._points:  # the share of the training rows below, those that are equal counted half
                below, upto = (np.searchsorted(self._points, number, side=side) for side in ("left", "right"))
                rank = (below + upto) / (2 * len(self._points))
            parts = [value[:, None], missing[:, None], rank[:, None]]
            if self._edges:
                parts.append(_flags(assign_parts(values, self._edges), len(self._edges) + 1))
            parts.append(values.astype(np.float64)[:, None] == np.asarray(self._common))
        else:
            part, others = assign_parts(values, self._names), len(self._names)
            parts = [missing[:, None], (part == others)[:, None], _flags(part, others)]
        return torch.from_numpy(np.concatenate(parts, axis=1, dtype=np.float32))


class Pairs(View):
    """Two columns of a table together: the cell of a grid that a row lies in, and which of them is greater.

    Numbers are cut into parts of equally many training rows, names into the commonest and all others. The difference of
    two numbers is cut into finer ones.
    """

    breadth = 0
    most = 40  # columns; of tables with more no pairs are looked at
    needs = f"a table of 2 to {most} features"
    parts = 8  # that each column is cut into, besides other names and missing values

    def __init__(self, first: str, second: str) -> None:
        self.columns, self.name = [first, second], f"pair:{first} & {second}"
        self._cuts: list[list[Any]] = []
        self._edges: list[float] = []

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        """Return one view for each pair of columns that vary."""
        columns = [ViewName.of(view.name).member for view in OneColumn.list_views(inputs)]
        return [cls(*pair) for pair in combinations(columns, 2)] if len(columns) <= cls.most else []

    @classmethod
    def make_member(cls, member: str, inputs: ViewInputs) -> View | None:
        """Return the pair that a person names in the other order."""
        pairs = [view for view in cls.list_views(inputs) if isinstance(view, Pairs)]
        return next((view for view in pairs if " & ".join(view.columns[::-1]) == member), None)

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return all(column in inputs.columns for column in self.columns)

    def fit(self, inputs: ViewInputs) -> None:
        self._cuts = [compute_cuts(inputs.columns[column], self.parts) for column in self.columns]
        self._edges = compute_quantile_edges(self._difference(inputs), BINS)

    def _difference(self, inputs: ViewInputs) -> NDArray[np.float64]:
        """Return the difference (N,) of two columns of numbers; of names there is none."""
        first, second = (inputs.columns[name] for name in self.columns)
        if not (is_numeric(first) and is_numeric(second)):
            return np.zeros(0)
        return first.astype(np.float64) - second.astype(np.float64)

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return a flag for each cell, for less, equal and greater, and for each bin of the difference, (N, 119)."""
        values = [inputs.columns[name] for name in self.columns]
        side = self.parts + 2
        first, second = (assign_parts(*one, side) for one in zip(values, self._cuts, strict=True))
        parts = [_flags(first * side + second, side**2), _flags(compare_columns(*values), INCOMPARABLE)]
        if self._edges and len(difference := self._difference(inputs)):
            parts.append(_flags(assign_parts(difference, self._edges), len(self._edges) + 1))
        return torch.from_numpy(np.concatenate(parts, axis=1, dtype=np.float32))


class Missing(View):
    """The pattern of missing values: who fills a form in, or which machine measures, may leave out what it will."""

    name = "missing"
    breadth = 0
    needs = "a table of features with missing values"

    def __init__(self) -> None:
        self._columns: list[str] = []

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        return [cls()] if any(find_missing(values).any() for values in inputs.columns.values()) else []

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return bool(inputs.columns)

    def fit(self, inputs: ViewInputs) -> None:
        self._columns = [name for name, values in inputs.columns.items() if find_missing(values).any()]

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return a flag for each of these columns, and how many values a row misses in all of them, (N, F + 1)."""
        missing = {name: find_missing(values) for name, values in inputs.columns.items()}
        number = np.sum(list(missing.values()), axis=0)
        return torch.from_numpy(np.stack([*(missing[name] for name in self._columns), number], axis=1)).float()
