"""Figures of predicted probabilities (N, L), as float64, and labels (N,), whole numbers from 0 to L - 1."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


def probabilities(logits: Array) -> Array:
    """Return the softmax (N, L) float64 of logits (N, L), NaN in rows that are not finite."""
    with np.errstate(invalid="ignore"):
        weight = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def auroc(probability: Array, label: Array) -> float:
    """Return the area under the ROC curve of each label against all others, the mean over the labels that occur.

    NaN where the rows have fewer than two labels.
    """
    from scipy.stats import rankdata

    present, count = np.unique(label, return_counts=True)
    if len(present) < 2:
        return float("nan")
    area = 0.0
    for one, own in zip(present, count, strict=True):  # by ranks in a tenth of the time of scikit-learn's curves
        rank = rankdata(probability[:, one])[label == one]
        area += (rank.sum() - own * (own + 1) / 2) / (own * (len(label) - own))
    return float(area / len(present))


def macro_f1(probability: Array, label: Array) -> float:
    """Return the mean F1 over the labels that rows have or are given."""
    size, said = probability.shape[1], probability.argmax(1)
    hits, own, given = (np.bincount(one, minlength=size) for one in (label[said == label], label, said))
    present = own + given > 0
    return float((2 * hits[present] / (own + given)[present]).mean())


def calibration_error(probability: Array, label: Array, bins: int = 15) -> float:
    """Return the expected calibration error (Guo et al., 2017): sum over bins b of n_b / N |accuracy_b - confidence_b|.

    Rows fall into ``bins`` of equal width by their confidence, the greatest probability of a row.
    """
    confidence, right = probability.max(axis=1), probability.argmax(axis=1) == label
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gaps = np.abs(np.bincount(place, right - confidence))
    return float(gaps.cumsum()[-1] / len(label))  # bin by bin: ``sum`` adds in another order for each number of bins
