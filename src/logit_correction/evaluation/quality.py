"""AUROC, F1 and calibration error of a model: over all rows, and for each attribute value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

#: Bins of equal width that the calibration error is taken over, as in Guo et al., 2017.
BINS = 15

#: Figures of each attribute value.
QUALITY = ("accuracy", "auroc", "f1", "ece")


def probabilities(logits: Array) -> Array:
    """Return the softmax (N, L) float64 of logits (N, L), NaN in rows that are not finite."""
    with np.errstate(invalid="ignore"):
        weight = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def auroc(probability: Array, label: Array) -> float:
    """Return the mean over labels of the area under the ROC curve of that label against all others.

    Labels that none of the rows has take no part: nothing can be ranked before or behind them.

    Args:
        probability: (N, L).
        label: (N,) whole numbers, 0..L-1.

    Returns:
        NaN where the rows have fewer than two labels.

    >>> auroc(np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]), np.array([0, 0, 1, 1]))
    0.75
    """
    there, count = np.unique(label, return_counts=True)
    if len(there) < 2:
        return float("nan")
    area = 0.0
    for name, own in zip(there, count, strict=True):  # scikit-learn takes seconds to import
        column = probability[:, name]
        ordered, inside = np.sort(column), column[label == name]
        rank = np.searchsorted(ordered, inside, "left") + np.searchsorted(ordered, inside, "right") + 1.0
        area += (rank.sum() / 2 - own * (own + 1) / 2) / (own * (len(label) - own))
    return float(area / len(there))


def macro_f1(probability: Array, label: Array) -> float:
    """Return the mean F1 over the labels that the rows have or are given, scikit-learn's ``f1_score(average="macro")``.

    Returns:
        NaN where there are no rows.

    >>> macro_f1(np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]]), np.array([0, 1, 1])) == 2 / 3
    True
    """
    if not len(label):
        return float("nan")
    size, said = probability.shape[1], probability.argmax(1)
    hits, own, given = (np.bincount(one, minlength=size) for one in (label[said == label], label, said))
    there = own + given > 0
    return float((2 * hits[there] / (own + given)[there]).mean())


def calibration_error(probability: Array, label: Array, bins: int = BINS) -> float:
    """Return the expected calibration error, sum over bins b of n_b / N |accuracy_b - confidence_b|.

    Rows fall into bins of equal width by their confidence, the greatest probability of a row.

    Args:
        probability: (N, L).
        label: (N,) whole numbers, 0..L-1.
        bins: Number of bins.

    Returns:
        NaN where there are no rows, or a model that predicts no numbers.

    >>> round(calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1])), 3)
    0.4
    """
    rows = np.arange(len(label))
    return float(calibration_errors(probability, label, rows, np.zeros_like(rows), 1, bins)[0])


def calibration_errors(
    probability: Array, label: Array, row: Array, group: Array, num_groups: int, bins: int = BINS
) -> NDArray[np.float64]:
    """Return the expected calibration error of each group, (G,), as ``calibration_error`` of its rows.

    Args:
        probability: (N, L).
        label: (N,) whole numbers, 0..L-1.
        row: (M,) the rows of the groups, see ``functional.groups.group_members``.
        group: (M,) which group each of them is in.
        num_groups: G.
        bins: Number of bins.
    """
    confidence, right = probability.max(axis=1), probability.argmax(axis=1) == label
    known = np.isfinite(probability).all(axis=1)
    place = np.minimum((np.where(known, confidence, 0) * bins).astype(np.int64), bins - 1)
    cell, gap = group * bins + place[row], np.where(known, right - confidence, np.nan)[row]
    filled, number = np.unique(cell, return_inverse=True)  # of many groups most have no row
    sums = np.abs(np.bincount(number, gap, len(filled)))
    with np.errstate(invalid="ignore"):
        return np.bincount(filled // bins, sums, num_groups) / np.bincount(group, minlength=num_groups)


def quality(probability: Array, label: Array) -> dict[str, float]:
    """Return all figures of rows, accuracy included, NaN where one is not defined."""
    if not len(label) or not np.isfinite(probability).all():
        return dict.fromkeys(QUALITY, float("nan"))
    return {
        "accuracy": float((probability.argmax(1) == label).mean()),
        "auroc": auroc(probability, label),
        "f1": macro_f1(probability, label),
        "ece": calibration_error(probability, label),
    }


def quality_by_attribute(
    probability: Array, label: Array, row: Array, group: Array, attributes: Sequence[str | None]
) -> pd.DataFrame:
    """Return the figures of the rows of each attribute value, all labels together.

    Args:
        probability: (N, L).
        label: (N,) whole numbers, 0..L-1.
        row: (M,) the rows of the groups, see ``functional.groups.group_members``.
        group: (M,) which group each of them is in.
        attributes: The name of each group's attribute; None where it is unknown.

    Returns:
        One row for each name, in the order of the groups, with ``attribute``, ``count`` and ``QUALITY``; none where no
        attribute is known.
    """
    number, names = pd.factorize(np.asarray(attributes, dtype=object))  # -1 where unknown
    of_row = number[group]
    both = np.unique(np.stack([of_row, row])[:, of_row >= 0], axis=1)  # a row of two such groups counts once
    parts = np.split(both[1], np.searchsorted(both[0], np.arange(1, len(names)))) if len(names) else []
    rows = [
        {"attribute": name, "count": len(own), **quality(probability[own], label[own])}
        for name, own in zip(names, parts, strict=True)
    ]
    return pd.DataFrame(rows, columns=["attribute", "count", *QUALITY])
