"""Metrics of the rows of each group: those of a name, scikit-learn's, and a person's own."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logit_correction.errors import InputError
from logit_correction.evaluation import METRICS
from logit_correction.formatting import format_reason
from logit_correction.registry import import_component

if TYPE_CHECKING:
    from logit_correction.evaluation.report import EvaluatedRows

Array: TypeAlias = NDArray[Any]

#: Of whether n rows have a label (n,), 0 or 1, and what is said of them: a number.
MetricFunction: TypeAlias = Callable[[Array, Array], float]

#: Second parameters of metrics that take the probability of the label. Others take whether the label is predicted.
SCORES = ("y_score", "y_prob", "y_proba", "pred_decision", "probability")

#: Functions of scikit-learn whose ``y_pred`` are probabilities all the same.
SCORED = ("log_loss", "d2_log_loss_score")


def find_metrics(
    metrics: str | MetricFunction | Sequence[str | MetricFunction], taken: Sequence[str] = ()
) -> dict[str, MetricFunction]:
    """Return the name of each metric, as tables have it, and its function.

    Args:
        metrics: One or several of: a name of ``METRICS``, a dotted path such as ``sklearn.metrics.f1_score``, or a
            function, which is called by its ``__name__``.
        taken: Names that columns have already; a metric of such a name is called by its whole path.

    Raises:
        InputError: A name is unknown, or cannot be imported.
    """
    found: dict[str, MetricFunction] = {}
    for metric in [metrics] if isinstance(metrics, str) or callable(metrics) else metrics:
        function = metric if callable(metric) else import_component("metric", metric, METRICS)
        if not callable(function) or isinstance(function, type):
            raise InputError(f"metric {metric!r} is no function: give one of {', '.join(METRICS)}, or package.function")
        path = metric if isinstance(metric, str) else f"{function.__module__}.{getattr(function, '__name__', 'metric')}"
        name = path.rpartition(".")[2]
        found[path if name in found or name in taken else name] = function
    return found


def compute_group_metrics(
    rows: EvaluatedRows, metrics: Mapping[str, MetricFunction], probability: Array | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return each metric of each group, (G,).

    Of a group of a label and an attribute it is the metric of that label against all others, over all rows with that
    attribute: precision and AUC need rows of other labels too. Without attributes it is over all rows. NaN where the
    group is empty, or the metric is not defined.

    Args:
        rows: The rows and their groups.
        metrics: Name -> function.
        probability: (N, L) of each label; by default that of the rows.
    """
    predictions = rows.predictions
    probability = predictions.probabilities if probability is None else probability
    labels = list(predictions.label_names)
    attributes = np.asarray(list(map(str, rows.names["attribute"])))
    row, group = (members.numpy() for members in rows.members)
    found = {name: np.full(len(rows.names), np.nan) for name in metrics}
    for number, label in enumerate(map(str, rows.names["label"])):
        there = np.unique(row[attributes[group] == attributes[number]])
        if label not in labels or not (group == number).any() or not np.isfinite(probability[there]).all():
            continue
        has_label = (predictions.label[there] == labels.index(label)).astype(np.int64)
        says_label = (predictions.prediction[there] == labels.index(label)).astype(np.int64)
        for name, metric in metrics.items():
            said = probability[there, labels.index(label)] if takes_probability(metric) else says_label
            found[name][number] = _call(name, metric, has_label, said)
    return found


def takes_probability(metric: MetricFunction) -> bool:
    """Return whether a metric takes the probability of the label, and not whether the label is predicted."""
    try:
        parameters = list(inspect.signature(metric).parameters)
    except (TypeError, ValueError):  # some functions in C have none
        return False
    return getattr(metric, "__name__", "") in SCORED or (len(parameters) > 1 and parameters[1] in SCORES)


def _call(name: str, metric: MetricFunction, has_label: Array, said: Array) -> float:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as scikit-learn's where a metric is not defined
            return float(metric(has_label, said))
    except Exception as error:  # of a person's own function, any
        if isinstance(error, ValueError) and has_label.all():  # as many refuse rows of one label
            return float("nan")
        shown = f"({len(said):,} rows): {type(error).__name__}: {format_reason(error)}"
        raise InputError(
            f"metric {name} fails {shown}. It is called with two arrays (n,), whether rows have a label and whether it "
            "is predicted, and must return a number"
        ) from error


def recall(y_true: Array, y_pred: Array) -> float:
    """Return the share of the label's rows that are right."""
    return _share(y_pred[y_true == 1])


def precision(y_true: Array, y_pred: Array) -> float:
    """Return the share of the rows said to be of the label that are."""
    return _share(y_true[y_pred == 1])


def specificity(y_true: Array, y_pred: Array) -> float:
    """Return the share of the other labels' rows that are not said to be of the label."""
    return _share(1 - y_pred[y_true == 0])


def f1(y_true: Array, y_pred: Array) -> float:
    """Return the harmonic mean of precision and recall."""
    return float(2 * (y_true * y_pred).sum() / (y_true.sum() + y_pred.sum()))


def label_auroc(y_true: Array, y_score: Array) -> float:
    """Return the area under the ROC curve of the label against the others; NaN without rows of others."""
    return auroc(np.column_stack([-y_score, y_score]), y_true)


def _share(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")


# -- of predicted probabilities (N, L), as float64, and labels (N,), whole numbers from 0 to L - 1


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
