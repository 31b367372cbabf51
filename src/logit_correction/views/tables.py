"""Views of tables: each column alone, two together, and the pattern of missing values; and how a column is cut.

A shortcut in a table is often one column, such as the device that a measurement came from, or the pair of two. Numbers
are cut into bins and names into the commonest and all others, so that a linear head can pick out any part of a column;
missing values are a part of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.types import Array, ViewInputs
from logit_correction.view_names import ViewName
from logit_correction.views.base import View

#: Limit on the categories of a column that have a feature of their own.
MAX_CATEGORIES = 1000

#: This limit in tables of many rows, which the next one lowers.
MAX_CATEGORIES_OF_MANY_ROWS = 100

#: Limit on the numbers of all rows that the names of one column become: half a GiB in single precision.
MAX_NUMBERS = 2**27

#: Limit on the bins of equally many rows that numbers are cut into.
MAX_BINS = 16

#: Results of ``compare_column_values``; the last one where a value is missing.
LESS, EQUAL, GREATER, INCOMPARABLE = range(4)


def is_numeric(values: Array) -> bool:
    """Return whether a column holds numbers rather than names."""
    return values.dtype.kind in "biuf"


def find_missing_values(values: Array) -> NDArray[np.bool_]:
    """Return a mask (N,) of the rows in which a column has no value: NaN, infinity, or an empty name."""
    return ~np.isfinite(values.astype(np.float64)) if is_numeric(values) else np.asarray(values == "", dtype=bool)


def compute_max_categories(num_rows: int) -> int:
    """Return how many categories of a column get a feature of their own, the commonest ones; the others share one."""
    return min(MAX_CATEGORIES, max(MAX_CATEGORIES_OF_MANY_ROWS, MAX_NUMBERS // max(num_rows, 1)))


def find_most_frequent_categories(values: Array, max_categories: int) -> list[str]:
    """Return the most frequent categories of a column.

    Args:
        values: (N,) categories.
        max_categories: How many are returned at most.

    Returns:
        The commonest first, equally common ones in alphabetical order.
    """
    counts = Counter(values.tolist())
    return sorted(counts, key=lambda name: (-counts[name], name))[:max_categories]


def compute_quantile_edges(numbers: Array, num_bins: int) -> list[float]:
    """Return the edges between bins of equally many numbers.

    Args:
        numbers: (N,), NaN where missing.
        num_bins: Number of bins; there are fewer where many numbers are equal.

    Returns:
        At most ``bins - 1`` rising numbers; each is the least one of the bin above it.
    """
    present = numbers[np.isfinite(numbers)].astype(np.float64)
    if not len(present):
        return []
    return np.unique(np.quantile(present, np.arange(1, num_bins) / num_bins, method="higher")).tolist()


def compute_edges_by_label(numbers: Array, label: Array, num_bins: int) -> list[float]:
    """Return the edges between bins that end where the share of labels changes, by a decision tree.

    Args:
        numbers: (N,), NaN where missing.
        label: (N,) labels of any dtype.
        num_bins: Limit on the number of bins.

    Returns:
        At most ``bins - 1`` rising numbers; none if the labels do not depend on the numbers.
    """
    from sklearn.tree import DecisionTreeClassifier

    # The tree takes numbers in single precision, in which dates an hour apart may be equal; their ranks are not.
    is_present = np.isfinite(numbers)
    distinct, rank = np.unique(numbers[is_present], return_inverse=True)
    tree = DecisionTreeClassifier(
        max_leaf_nodes=num_bins, min_samples_leaf=0.05, min_impurity_decrease=0.001, random_state=0
    )
    nodes = tree.fit(rank[:, None], label[is_present].astype(str)).tree_
    return [float(distinct[int(rank) + 1]) for rank in sorted(nodes.threshold[nodes.feature >= 0])]


def compute_bins(values: Array, num_bins: int) -> list[Any]:
    """Return how ``assign_bins`` cuts a column.

    Args:
        values: (N,) numbers or names.
        num_bins: Limit on the bins, except those of other names and of missing values.

    Returns:
        Edges between numbers, or the commonest names.
    """
    if is_numeric(values):
        return compute_quantile_edges(values, num_bins)
    return find_most_frequent_categories(values[values != ""], num_bins)


def assign_bins(values: Array, edges_or_names: Sequence[Any], total_bins: int | None = None) -> NDArray[np.int64]:
    """Return the bin of a column in which each value lies.

    Args:
        values: (N,) numbers or names.
        edges_or_names: Those of ``compute_bins``. A number at an edge lies above it.
        total_bins: Number of bins, with those of missing values and of other names; by default two more than
            ``edges_or_names``.

    Returns:
        (N,) numbers of bins. The last bin is that of missing values, the last but one that of other names.
    """
    if total_bins is None:
        total_bins = len(edges_or_names) + 2
    if is_numeric(values):
        bin_index = np.searchsorted(
            np.asarray(edges_or_names, dtype=np.float64), values.astype(np.float64), side="right"
        )
    else:
        bin_index = pd.Index(edges_or_names, dtype=object).get_indexer(pd.Index(values, dtype=object))
        bin_index = np.where(bin_index < 0, total_bins - 2, bin_index)
    return np.where(find_missing_values(values), total_bins - 1, bin_index).astype(np.int64)


def describe_bins(numbers: Array, edges: Sequence[float], format_values: Callable[[Array], list[str]]) -> list[str]:
    """Return a name for each bin, by the least and the greatest number in it, such as ``18 to 24``.

    Args:
        numbers: (N,), NaN where missing; each bin holds one at least.
        edges: The rising edges between the bins.
        format_values: Writes numbers for people.

    Returns:
        ``len(edges) + 1`` texts. The first one begins with ``up to``, the last one with ``from``.
    """
    present = np.unique(numbers[np.isfinite(numbers)])
    if not len(present):
        return ["any number"] * (len(edges) + 1)
    starts = np.array([0, *np.searchsorted(present, edges)])
    ends = np.append(starts[1:], len(present)) - 1
    texts = format_values(present[np.concatenate([starts, ends])])
    low = texts[: len(starts)]
    high = texts[len(starts) :]
    if len(present) == len(starts):
        return low
    names = [
        least if least == greatest else f"{least} to {greatest}" for least, greatest in zip(low, high, strict=True)
    ]
    if len(names) == 1:
        return names
    return [f"up to {high[0]}", *names[1:-1], f"from {low[-1]}"]


def compare_column_values(first: Array, second: Array) -> NDArray[np.int64]:
    """Return how the values of two columns compare in each row.

    Args:
        first: (N,) numbers or names.
        second: (N,) numbers or names.

    Returns:
        (N,) of ``LESS``, ``EQUAL``, ``GREATER``: whether the first is less than the second. ``INCOMPARABLE`` where a
        value is missing. Unequal names, and a name and a number, count as ``GREATER``.
    """
    order = np.full(len(first), GREATER)
    if is_numeric(first) and is_numeric(second):
        order[first < second] = LESS
    if is_numeric(first) == is_numeric(second):
        order[first == second] = EQUAL
    order[find_missing_values(first) | find_missing_values(second)] = INCOMPARABLE
    return order


def find_viewed_columns(views: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return the columns from which some views compute their features.

    Args:
        views: Names of views, such as ``column:age`` and ``pair:age & site``.
        columns: All columns of the table.
    """
    members: dict[str, list[str]] = {"column": [], "pair": []}
    for family, member in map(ViewName.parse, views):
        members.setdefault(family, []).append(member)
    return [
        column
        for column in columns
        if column in members["column"]
        or any(pair.startswith(f"{column} & ") or pair.endswith(f" & {column}") for pair in members["pair"])
    ]


def _encode_one_hot(bin_index: NDArray[np.int64], num_bins: int) -> NDArray[np.bool_]:
    """Return (N, num_bins) with True at each row's bin, and all False if it is another one."""
    return bin_index[:, None] == np.arange(num_bins)


def _concatenate_features(parts: Sequence[Array]) -> Tensor:
    """Return arrays (N, F) as the features of a view."""
    return torch.from_numpy(np.concatenate(parts, axis=1, dtype=np.float32))


class OneColumn(View):
    """One column of a table of features, cut so that a linear head can pick out any part of it.

    Numbers become their value in spreads from the median, their rank in [0, 1], and whether they are missing. Each bin
    of equally many training rows has a flag, and so has each number that many rows share. Names become whether they
    are missing, whether they are another than the commonest, and one flag for each of those.
    """

    breadth = 0
    needs = "a table of features"
    max_narrow_members = 2  # many columns together are the whole table; five sufficed for seven kinds of ground

    MIN_ROWS_OF_BIN = 100  # with fewer rows a head memorizes them
    MAX_COMMON_VALUES = 32  # numbers with a feature of their own
    MIN_ROWS_OF_VALUE = 30  # rows that have such a number,
    MIN_SHARE_OF_VALUE = 0.01  # and their share of the rows in a column of more numbers than those
    NUM_QUANTILES = 1001  # of the training rows, by which a number is ranked
    MAX_SPREADS = 1000.0  # limit on the distance from the median

    def __init__(self, column: str) -> None:
        self.column = column
        self.name = f"column:{column}"
        # Plain values, which a checkpoint holds.
        self._names: list[str] = []
        self._points: list[float] = []
        self._edges: list[float] = []
        self._common: list[float] = []
        self._median = 0.0
        self._spread = 1.0

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        """Return one view for each column that varies; being missing is a value too."""
        views: list[View] = []
        for name, values in inputs.columns.items():
            is_missing = find_missing_values(values)
            present = values[~is_missing]
            if len(present) and (is_missing.any() or (present != present[0]).any()):
                views.append(cls(name))
        return views

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return self.column in inputs.columns

    def fit(self, inputs: ViewInputs) -> None:
        values = inputs.columns[self.column]
        if not is_numeric(values):
            self._names = compute_bins(values, compute_max_categories(inputs.num_rows))
            return
        present = values[~find_missing_values(values)].astype(np.float64)
        if not len(present):
            return
        shares = np.linspace(0, 1, self.NUM_QUANTILES)
        self._points = np.quantile(present, shares, method="inverted_cdf").tolist()
        self._median = self._points[self.NUM_QUANTILES // 2]
        low = self._points[round(0.05 * (self.NUM_QUANTILES - 1))]
        high = self._points[round(0.95 * (self.NUM_QUANTILES - 1))]
        # A column that is nearly always the same has a spread only by its few other values.
        self._spread = (high - low) or 2 * float(np.abs(present - self._median).max()) or 1.0
        distinct, counts = np.unique(present, return_counts=True)
        min_rows: float = self.MIN_ROWS_OF_VALUE
        if len(distinct) > self.MAX_COMMON_VALUES:
            min_rows = max(min_rows, self.MIN_SHARE_OF_VALUE * len(present))
            num_bins = min(MAX_BINS, max(1, len(present) // self.MIN_ROWS_OF_BIN))
            self._edges = compute_quantile_edges(present, num_bins)
        commonest = np.argsort(-counts, kind="stable")[: self.MAX_COMMON_VALUES]
        self._common = np.sort(distinct[commonest[counts[commonest] >= min_rows]]).tolist()

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the features of the column, (N, F); a missing number has the median's."""
        values = inputs.columns[self.column]
        is_missing = find_missing_values(values)[:, None]
        if is_numeric(values):
            features = [*self._compute_value_and_rank(values, is_missing)]
            if self._edges:
                features.append(_encode_one_hot(assign_bins(values, self._edges), len(self._edges) + 1))
            features.append(values.astype(np.float64)[:, None] == np.asarray(self._common))
        else:
            bin_index = assign_bins(values, self._names)
            num_names = len(self._names)
            features = [is_missing, (bin_index == num_names)[:, None], _encode_one_hot(bin_index, num_names)]
        return _concatenate_features(features)

    def _compute_value_and_rank(self, values: Array, is_missing: NDArray[np.bool_]) -> list[Array]:
        """Return the value in spreads from the median, whether it is missing, and its rank, (N, 1) each."""
        number = np.where(is_missing, self._median, values.astype(np.float64)[:, None])
        value = np.clip((number - self._median) / self._spread, -self.MAX_SPREADS, self.MAX_SPREADS)
        if not self._points:
            return [value, is_missing, np.full_like(number, 0.5)]
        # The share of the training rows below; equal ones count half.
        below = np.searchsorted(self._points, number, side="left")
        up_to = np.searchsorted(self._points, number, side="right")
        return [value, is_missing, (below + up_to) / (2 * len(self._points))]


class Pairs(View):
    """Two columns of a table together: the cell of a grid that a row lies in, and which of them is greater.

    Numbers are cut into bins of equally many training rows, names into the commonest and all others. The difference of
    two numbers is cut into finer ones.
    """

    breadth = 0
    max_columns = 40  # in tables with more columns pairs are left out
    needs = f"a table of 2 to {max_columns} features"
    column_bins = 8  # that each column is cut into, except for other names and missing values

    def __init__(self, first: str, second: str) -> None:
        self.columns = [first, second]
        self.name = f"pair:{first} & {second}"
        self._cuts: list[list[Any]] = []
        self._edges: list[float] = []

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        """Return one view for each pair of columns that vary."""
        columns = [ViewName.parse(view.name).member for view in OneColumn.list_views(inputs)]
        return [cls(*pair) for pair in combinations(columns, 2)] if len(columns) <= cls.max_columns else []

    @classmethod
    def make_member(cls, member: str, inputs: ViewInputs) -> View | None:
        """Return a pair whose columns the user names in the other order."""
        for view in cls.list_views(inputs):
            first, second = cast(Pairs, view).columns
            if member == f"{second} & {first}":
                return view
        return None

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return all(column in inputs.columns for column in self.columns)

    def fit(self, inputs: ViewInputs) -> None:
        self._cuts = [compute_bins(inputs.columns[column], self.column_bins) for column in self.columns]
        self._edges = compute_quantile_edges(self._compute_difference(inputs), MAX_BINS)

    def _compute_difference(self, inputs: ViewInputs) -> NDArray[np.float64]:
        """Return the difference (N,) of two columns of numbers, (0,) of others."""
        first, second = (inputs.columns[column] for column in self.columns)
        if not (is_numeric(first) and is_numeric(second)):
            return np.zeros(0)
        return first.astype(np.float64) - second.astype(np.float64)

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return a flag for each cell, for less, equal and greater, and for each bin of the difference, (N, 119)."""
        values = [inputs.columns[column] for column in self.columns]
        side = self.column_bins + 2
        first, second = (assign_bins(column, cuts, side) for column, cuts in zip(values, self._cuts, strict=True))
        features = [
            _encode_one_hot(first * side + second, side**2),
            _encode_one_hot(compare_column_values(*values), INCOMPARABLE),
        ]
        difference = self._compute_difference(inputs)
        if self._edges and len(difference):
            features.append(_encode_one_hot(assign_bins(difference, self._edges), len(self._edges) + 1))
        return _concatenate_features(features)


class Missing(View):
    """The pattern of missing values: one person, form or machine leaves out other values than the next."""

    name = "missing"
    breadth = 0
    needs = "a table of features with missing values"

    def __init__(self) -> None:
        self._columns: list[str] = []

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        return [cls()] if any(find_missing_values(values).any() for values in inputs.columns.values()) else []

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return bool(inputs.columns)

    def fit(self, inputs: ViewInputs) -> None:
        self._columns = [name for name, values in inputs.columns.items() if find_missing_values(values).any()]

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return a flag for each of these columns, and how many values a row misses in all of them, (N, F + 1)."""
        is_missing = {name: find_missing_values(values)[:, None] for name, values in inputs.columns.items()}
        count = np.sum(list(is_missing.values()), axis=0)
        return _concatenate_features([*(is_missing[name] for name in self._columns), count])
