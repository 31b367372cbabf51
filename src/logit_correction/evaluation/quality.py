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
    from scipy.stats import rankdata

    there = np.unique(label)
    if len(there) < 2:
        return float("nan")
    own = label[:, None] == there
    count = own.sum(0)
    # Mann and Whitney's statistic: scikit-learn takes milliseconds for each label and each part of the rows.
    ahead = (rankdata(probability[:, there], axis=0) * own).sum(0) - count * (count + 1) / 2
    return float((ahead / (count * (len(label) - count))).mean())


def macro_f1(probability: Array, label: Array) -> float:
    """Return the mean F1 over the labels that the rows have or are given, scikit-learn's ``f1_score(average="macro")``.

    Returns:
        NaN where there are no rows.

    >>> macro_f1(np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]]), np.array([0, 1, 1])) == 2 / 3
    True
    """
    size, prediction = probability.shape[1], probability.argmax(1)
    right = np.bincount(label[prediction == label], minlength=size)
    both = np.bincount(label, minlength=size) + np.bincount(prediction, minlength=size)
    there = both > 0
    return float((2 * right[there] / both[there]).mean()) if there.any() else float("nan")


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
    if not len(label) or not np.isfinite(probability).all():
        return float("nan")
    confidence, right = probability.max(axis=1), probability.argmax(axis=1) == label
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    return float(np.abs(np.bincount(place, right - confidence)).sum() / len(label))


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
    probability: Array, label: Array, membership: Array, attributes: Sequence[str | None]
) -> pd.DataFrame:
    """Return the figures of the rows of each attribute value, all labels together.

    Args:
        probability: (N, L).
        label: (N,) whole numbers, 0..L-1.
        membership: (N, G) bool.
        attributes: The name of each group's attribute; None where it is unknown.

    Returns:
        One row for each name, in the order of the groups, with ``attribute``, ``count`` and ``QUALITY``; none where no
        attribute is known.
    """
    rows = []
    for name in dict.fromkeys(one for one in attributes if one is not None):
        own = membership[:, [one == name for one in attributes]].any(axis=1)
        rows.append({"attribute": name, "count": int(own.sum()), **quality(probability[own], label[own])})
    return pd.DataFrame(rows, columns=["attribute", "count", *QUALITY])
