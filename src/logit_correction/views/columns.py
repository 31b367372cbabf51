"""How a column is cut: numbers into bins, names into the commonest and the rest; a missing value is one of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Most and fewest names that are told apart, and how many numbers these may be of all rows: half a GiB.
MOST_NAMES, FEWEST_NAMES, MOST_NUMBERS = 1000, 100, 2**27

#: The largest number whose difference from another is looked at: squares of more would overflow.
MOST_SUMMED = 1e150

#: The least rows of a bin that ends where the label changes, as a share of all, and the least impurity that it takes
#: away.
LEAST_SHARE, LEAST_DECREASE = 0.05, 0.001


def is_numeric(values: NDArray[Any]) -> bool:
    """Return whether a column holds numbers rather than names."""
    return values.dtype.kind in "biuf"


def missing_in(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a column has no value (N,)."""
    return ~np.isfinite(values.astype(np.float64)) if is_numeric(values) else np.asarray(values == "", dtype=bool)


def numbers_of(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return a column of numbers (N,), none too large to add or to square, NaN where missing."""
    return np.where(missing_in(values), np.nan, values.astype(np.float64).clip(-MOST_SUMMED, MOST_SUMMED))


def most_names(rows: int) -> int:
    """Return how many names of a column views and networks tell apart, the commonest; the others share one."""
    return min(MOST_NAMES, max(FEWEST_NAMES, MOST_NUMBERS // max(rows, 1)))


def commonest(names: NDArray[Any], most: int) -> list[str]:
    """Return the commonest names, of equally common ones those first in the alphabet."""
    count = Counter(names.tolist())
    return sorted(count, key=lambda name: (-count[name], name))[:most]


def edges_of(numbers: NDArray[Any], bins: int) -> list[float]:
    """Return the edges between so many bins of equally many numbers, fewer where numbers are equal."""
    there = numbers[np.isfinite(numbers)].astype(np.float64)
    return np.unique(np.quantile(there, np.arange(1, bins) / bins, method="higher")).tolist() if len(there) else []


def edges_by_label(numbers: NDArray[Any], label: NDArray[Any], bins: int) -> list[float]:
    """Return the edges between at most so many bins that end where the label changes; none where it does not."""
    from sklearn.tree import DecisionTreeClassifier

    # Of ranks, for the tree takes numbers in single precision, in which dates an hour apart may be one.
    finite = np.isfinite(numbers)
    found, rank = np.unique(numbers[finite], return_inverse=True)
    limits = {"max_leaf_nodes": bins, "min_samples_leaf": LEAST_SHARE, "min_impurity_decrease": LEAST_DECREASE}
    tree = DecisionTreeClassifier(**limits, random_state=0)
    nodes = tree.fit(rank[:, None], label[finite].astype(str)).tree_
    return [float(found[int(cut) + 1]) for cut in sorted(nodes.threshold[nodes.feature >= 0])]


def cuts_of(values: NDArray[Any], parts: int) -> list[Any]:
    """Return where a column is cut into so many parts: edges between numbers, or its commonest names."""
    return edges_of(values, parts) if is_numeric(values) else commonest(values[values != ""], parts)


def part_of(values: NDArray[Any], cuts: Sequence[Any], count: int = 0) -> NDArray[np.int64]:
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
    return np.where(missing_in(values), count - 1, place).astype(np.int64)


def names_of_bins(
    numbers: NDArray[Any], edges: Sequence[float], spell: Callable[[NDArray[Any]], list[str]]
) -> list[str]:
    """Return what people call the bins between edges, by the least and the greatest number that lies in each."""
    there = np.unique(numbers[np.isfinite(numbers)])
    if not len(there):
        return ["any number"] * (len(edges) + 1)
    starts = [0, *np.searchsorted(there, edges).tolist()]
    ends = [*starts[1:], len(there)]
    low, high = spell(there[starts]), spell(there[[end - 1 for end in ends]])
    if len(there) == len(starts):
        return low
    told = [f"{least} to {greatest}" for least, greatest in zip(low, high, strict=True)]
    return told if len(told) == 1 else [f"up to {high[0]}", *told[1:-1], f"from {low[-1]}"]


def flags(place: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """Return (N, count) with a 1 at each row's place, and nowhere where it is none of 0..count-1."""
    found = np.zeros((len(place), count), dtype=np.float32)
    rows = np.flatnonzero((place >= 0) & (place < count))
    found[rows, place[rows]] = 1
    return found
