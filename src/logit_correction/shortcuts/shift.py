"""Which views of the inputs differ between the training data and new rows, and how.

A permutation test says whether new rows differ. A person then wants to know in what: a site that sends fewer rows, a
camera that was replaced, words that were not used before. For each view a small classifier is trained to separate new
rows from held-out training rows (a classifier two-sample test, Lopez-Paz and Oquab, ICLR 2017). Its area under the ROC
curve on rows that it was not trained on is 0.5 where the view does not differ and 1 where no value occurs twice.

No label is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from logit_correction.formatting import format_percent
from logit_correction.shortcuts.heads import limit_to_one_thread
from logit_correction.types import Array

#: Probability that an area of 0.5 lies below the interval: intervals are of 90 %, and two-sided.
ERROR_LEVEL = 0.05

#: Features that a classifier uses at most, chosen within each fold: of thousands of words few differ.
MAX_FEATURES = 100

#: Values of a view that are shown at most, and rows of each side.
MAX_VALUES = 4
MAX_EXTREME_ROWS = 6

#: Least difference between the shares of a value that is shown.
MIN_SHARE_DIFFERENCE = 0.01


@dataclass(frozen=True)
class ValueShare:
    """How frequent a value of a column, or a word, is on both sides.

    Attributes:
        value: The value, as people write it.
        old_share: Share of the training data that has it, 0 to 1.
        new_share: Share of the new rows.
    """

    value: str
    old_share: float
    new_share: float


@dataclass(frozen=True)
class ViewShift:
    """How well new rows can be separated from held-out training rows by one view.

    Attributes:
        view: Name of the view.
        auc: Area under the ROC curve on rows that the classifier was not trained on, 0 to 1; 0.5 by chance.
        auc_low: Lower end of its 90 % interval, of all views together where several are compared.
        auc_high: Upper end.
        values: The values whose shares differ most, the largest difference first; empty for views of images.
        old_rows: Places among the validation rows of those that resemble new rows least, by the classifier.
        new_rows: Places among the new rows of those that resemble validation rows least.
        old_images: Pictures of ``old_rows`` as data URIs, of some views of images; ``new_images``, of ``new_rows``.
    """

    view: str
    auc: float
    auc_low: float
    auc_high: float
    values: tuple[ValueShare, ...] = ()
    old_rows: tuple[int, ...] = ()
    new_rows: tuple[int, ...] = ()
    old_images: tuple[str, ...] = ()
    new_images: tuple[str, ...] = ()

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0.5: the view separates new rows better than by chance."""
        return self.auc_low > 0.5


def compute_auc_error(auroc: float, num_positive: int, num_negative: int) -> float:
    """Compute the standard error of an area under the ROC curve (Hanley and McNeil, Radiology 1982).

    Args:
        auroc: The area, 0 to 1.
        num_positive: Rows of one class, at least 1.
        num_negative: Rows of the other class, at least 1.

    >>> round(compute_auc_error(0.5, 100, 100), 3)
    0.041
    """
    positive_pairs = auroc / (2 - auroc)
    negative_pairs = 2 * auroc**2 / (1 + auroc)
    variance = auroc * (1 - auroc)
    variance += (num_positive - 1) * (positive_pairs - auroc**2)
    variance += (num_negative - 1) * (negative_pairs - auroc**2)
    return math.sqrt(max(0.0, variance) / (num_positive * num_negative))


def score_rows_by_side(old_features: Array, new_features: Array, seed: int) -> NDArray[np.float64]:
    """Score each row by a classifier that was not trained on it: the higher, the more it resembles new rows.

    A logistic regression on standardised features, trained on one half of the rows and applied to the other.

    Args:
        old_features: (n, F) of held-out training rows, at least 2.
        new_features: (m, F) of new rows, at least 2.
        seed: Decides the halves.

    Returns:
        Log odds (n + m,), first of the old rows.
    """
    from sklearn.feature_selection import SelectKBest
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features = np.concatenate([old_features, new_features])
    is_new = np.repeat([0, 1], [len(old_features), len(new_features)])
    steps = [StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=300)]
    if features.shape[1] > MAX_FEATURES:
        steps.insert(0, SelectKBest(_compute_correlation_with_side, k=MAX_FEATURES))
    folds = StratifiedKFold(2, shuffle=True, random_state=seed % 2**32)
    with limit_to_one_thread():
        scores: NDArray[np.float64] = cross_val_predict(
            make_pipeline(*steps), features, is_new, cv=folds, method="decision_function"
        )
    return scores


def _compute_correlation_with_side(features: Array, is_new: Array) -> NDArray[np.float64]:
    """Absolute correlation (F,) of each feature with the side; 0 for constant features."""
    deviation = features.std(axis=0)
    difference = features[is_new == 1].mean(axis=0) - features[is_new == 0].mean(axis=0)
    correlation = np.zeros(features.shape[1])
    np.divide(np.abs(difference), deviation, out=correlation, where=deviation > 0)
    return correlation


def measure_view_shift(
    view: str,
    old_features: Array,
    new_features: Array,
    seed: int,
    values: Sequence[ValueShare] = (),
    num_views: int = 1,
) -> ViewShift:
    """Measure how well the features of a view separate new rows from held-out training rows.

    Args:
        view: Name of the view.
        old_features: (n, F) of held-out training rows, at least 2.
        new_features: (m, F) of new rows, at least 2.
        seed: Decides which rows a classifier is trained on.
        values: Shares of values on both sides; the ``MAX_VALUES`` that differ most are kept.
        num_views: Views that are compared. Intervals hold for all of them together (Bonferroni), so that of many views
            none seems to differ by chance.
    """
    from sklearn.metrics import roc_auc_score

    num_old = len(old_features)
    num_new = len(new_features)
    scores = score_rows_by_side(old_features, new_features, seed)
    auc = float(roc_auc_score(np.repeat([0, 1], [num_old, num_new]), scores))
    quantile = NormalDist().inv_cdf(1 - ERROR_LEVEL / num_views)
    margin = quantile * compute_auc_error(auc, num_new, num_old)
    different = [value for value in values if abs(value.new_share - value.old_share) >= MIN_SHARE_DIFFERENCE]
    by_difference = sorted(different, key=lambda value: -abs(value.new_share - value.old_share))
    return ViewShift(
        view=view,
        auc=auc,
        auc_low=max(0.0, auc - margin),
        auc_high=min(1.0, auc + margin),
        values=tuple(by_difference[:MAX_VALUES]),
        old_rows=tuple(np.argsort(scores[:num_old], kind="stable")[:MAX_EXTREME_ROWS].tolist()),
        new_rows=tuple(np.argsort(-scores[num_old:], kind="stable")[:MAX_EXTREME_ROWS].tolist()),
    )


def compare_value_shares(old_values: Sequence[str], new_values: Sequence[str]) -> list[ValueShare]:
    """Return the share of each value among old and among new rows; values may be bins of numbers.

    >>> compare_value_shares(["north", "south"], ["south", "south"])[0]
    ValueShare(value='north', old_share=0.5, new_share=0.0)
    """
    import pandas as pd

    sides = [pd.Series(list(values), dtype=object).value_counts(normalize=True) for values in (old_values, new_values)]
    shares = pd.concat(sides, axis=1).fillna(0.0).sort_index()
    return [ValueShare(str(value), *row) for value, *row in shares.itertuples(name=None)]


def compare_term_shares(terms: Sequence[str], old_features: Array, new_features: Array) -> list[ValueShare]:
    """Return in which share of the rows of each side each term occurs; features (n, F) are 0 where it does not."""
    old_shares = (old_features > 0).mean(axis=0)
    new_shares = (new_features > 0).mean(axis=0)
    return [
        ValueShare(term, float(old), float(new)) for term, old, new in zip(terms, old_shares, new_shares, strict=True)
    ]


def describe_view_shift(shift: ViewShift, name: str) -> str:
    """Describe what differs in a view in one sentence, such as "`site`: north 48 % of the training data, 3 % ...".

    Args:
        shift: The view's shift.
        name: What sentences call the view.
    """
    if not shift.values:
        return name
    first, *others = [
        (value.value, format_percent(value.old_share), format_percent(value.new_share)) for value in shift.values
    ]
    described = ["{} {} of the training data, {} of the new rows".format(*first)]
    described += ["{} {} and {}".format(*value) for value in others]
    return f"{name}: {'; '.join(described)}"
