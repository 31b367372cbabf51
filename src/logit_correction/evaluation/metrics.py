"""Metrics of each group: those of ``METRICS``, of scikit-learn, and functions of your own.

Most metrics of scikit-learn are defined for two classes. A group of a label and an attribute is therefore evaluated on
all rows with the attribute, by whether they have the label.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logit_correction.errors import InputError
from logit_correction.evaluation import METRICS
from logit_correction.formatting import format_reason
from logit_correction.registry import import_component
from logit_correction.types import Array

if TYPE_CHECKING:
    from logit_correction.evaluation.report import EvaluatedRows


#: Called with (n,) whether rows have a label, 0 or 1, and (n,) whether it is predicted or how probable it is.
MetricFunction: TypeAlias = Callable[[Array, Array], float]

#: A metric as the user gives it: a name, a dotted path, a function, or several of these.
MetricSpec: TypeAlias = str | MetricFunction | Sequence[str | MetricFunction] | Mapping[str, MetricFunction]

#: Names of second parameters that take the probability of the label. Others take whether the label is predicted.
PROBABILITY_PARAMETERS = ("y_score", "y_prob", "y_proba", "pred_decision", "probability")

#: Functions of scikit-learn whose second parameter is called ``y_pred`` although it takes probabilities.
PROBABILITY_METRICS = ("log_loss", "d2_log_loss_score")


def resolve_metrics(metrics: MetricSpec, taken_names: Sequence[str] = ()) -> dict[str, MetricFunction]:
    """Return the functions of metrics by the names that tables show.

    Args:
        metrics: One or several of: a name of ``METRICS``, a dotted path such as ``sklearn.metrics.f1_score``, or a
            function, which is shown by its ``__name__``. Or what this function returned, which is returned again.
        taken_names: Columns that the table has already; a metric of such a name is shown by its whole path.

    Raises:
        InputError: A name is unknown, or cannot be imported.
    """
    if isinstance(metrics, Mapping):
        return {
            f"{function.__module__}.{name}" if name in taken_names else name: function
            for name, function in metrics.items()
        }
    functions: dict[str, MetricFunction] = {}
    for metric in [metrics] if isinstance(metrics, str) or callable(metrics) else metrics:
        function = metric if callable(metric) else import_component("metric", metric, METRICS)
        if not callable(function) or isinstance(function, type):
            names = ", ".join(METRICS)
            raise InputError(f"metric {metric!r} is not a function: give one of {names}, or package.function")
        path = metric if isinstance(metric, str) else f"{function.__module__}.{getattr(function, '__name__', 'metric')}"
        short_name = path.rpartition(".")[2]
        choices = chain([short_name, path], (f"{path}-{number}" for number in count(2)))
        functions[next(name for name in choices if name not in functions and name not in taken_names)] = function
    return functions


def compute_group_metrics(
    rows: EvaluatedRows, metrics: Mapping[str, MetricFunction], probability: Array | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return metrics of each group.

    For a group of a label and an attribute it is the metric of that label against all others, over all rows with that
    attribute: precision and AUC need rows of other labels too. Without attributes it is over all rows.

    Args:
        rows: The rows and their groups.
        metrics: Name -> function.
        probability: (N, L) of each label; by default that of the rows.

    Returns:
        Name -> (G,), NaN where the group is empty or the metric is not defined.
    """
    predictions = rows.predictions
    probability = predictions.probabilities if probability is None else probability
    label_names = list(predictions.label_names)
    attributes = np.asarray(list(map(str, rows.group_names["attribute"])))
    row, group = (members.numpy() for members in rows.members)
    results = {name: np.full(len(rows.group_names), np.nan) for name in metrics}
    for number, label_name in enumerate(map(str, rows.group_names["label"])):
        indices = np.unique(row[attributes[group] == attributes[number]])
        is_empty = label_name not in label_names or not (group == number).any()
        if is_empty or not np.isfinite(probability[indices]).all():
            continue
        label = label_names.index(label_name)
        has_label = (predictions.label[indices] == label).astype(np.int64)
        is_predicted = (predictions.prediction[indices] == label).astype(np.int64)
        for name, metric in metrics.items():
            predicted = probability[indices, label] if takes_probability(metric) else is_predicted
            results[name][number] = _call_metric(name, metric, has_label, predicted)
    return results


def takes_probability(metric: MetricFunction) -> bool:
    """Return whether a metric takes the probability of the label, instead of whether the label is predicted."""
    try:
        parameters = list(inspect.signature(metric).parameters)
    except (TypeError, ValueError):  # some functions in C have no signature
        return False
    is_listed = getattr(metric, "__name__", "") in PROBABILITY_METRICS
    return is_listed or (len(parameters) > 1 and parameters[1] in PROBABILITY_PARAMETERS)


def _call_metric(name: str, metric: MetricFunction, has_label: Array, is_predicted: Array) -> float:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as scikit-learn's where a metric is not defined
            return float(metric(has_label.copy(), is_predicted.copy()))  # it may write into them
    except Exception as error:  # a user's own function may raise anything
        if isinstance(error, ValueError) and has_label.all():  # many metrics refuse rows of one label
            return float("nan")
        cause = f"({len(is_predicted):,} rows): {type(error).__name__}: {format_reason(error)}"
        raise InputError(
            f"metric {name} fails {cause}. It is called with two arrays (n,), whether rows have a label and whether it "
            "is predicted, and must return a number"
        ) from error


def precision(y_true: Array, y_pred: Array) -> float:
    """Return the share of the rows said to be of the label that are; NaN without such rows.

    Args:
        y_true: (n,), whether rows have the label, 0 or 1.
        y_pred: (n,), whether it is predicted, 0 or 1.
    """
    values = y_true[y_pred == 1]
    return float(values.mean()) if len(values) else float("nan")


def specificity(y_true: Array, y_pred: Array) -> float:
    """Return the share of the other labels' rows that are not said to be of the label; NaN without such rows.

    Args:
        y_true: (n,), whether rows have the label, 0 or 1.
        y_pred: (n,), whether it is predicted, 0 or 1.
    """
    return precision(1 - y_pred, 1 - y_true)


# -- Metrics of all labels together


def compute_auroc(positive_scores: Array, negative_scores: Array) -> float:
    """Return the area under the ROC curve: the probability that a positive row scores higher than a negative one.

    It is computed by ranks, in a tenth of the time of scikit-learn's curve; equal scores count half.

    Args:
        positive_scores: (m,), at least one.
        negative_scores: (n,), at least one.

    >>> compute_auroc(np.array([2.0, 3.0, 4.0]), np.array([0.0, 1.0, 1.0]))
    1.0
    """
    import pandas as pd

    size = len(positive_scores)
    rank = pd.Series(np.concatenate([positive_scores, negative_scores])).rank().to_numpy()
    return float((rank[:size].sum() - size * (size + 1) / 2) / (size * len(negative_scores)))


def macro_auroc(probability: Array, label: Array) -> float:
    """Return the area under the ROC curve of each label against all others, the mean over the labels that occur.

    Args:
        probability: (N, L) float64.
        label: (N,), whole numbers 0..L-1.

    Returns:
        NaN if the rows have fewer than two labels.
    """
    labels = np.unique(label)
    if len(labels) < 2:
        return float("nan")
    areas = [compute_auroc(probability[label == value, value], probability[label != value, value]) for value in labels]
    return sum(areas) / len(areas)


def macro_f1(probability: Array, label: Array) -> float:
    """Return the mean F1 over the labels that rows have, or that are predicted.

    Args:
        probability: (N, L) float64.
        label: (N,), whole numbers 0..L-1.
    """
    num_labels = probability.shape[1]
    prediction = probability.argmax(1)
    num_correct = np.bincount(label[prediction == label], minlength=num_labels)
    num_total = np.bincount(label, minlength=num_labels) + np.bincount(prediction, minlength=num_labels)
    is_present = num_total > 0
    return float((2 * num_correct[is_present] / num_total[is_present]).mean())


def calibration_error(probability: Array, label: Array, num_bins: int = 15) -> float:
    """Return the expected calibration error (Guo et al., 2017): sum over bins b of n_b / N |accuracy_b - confidence_b|.

    Args:
        probability: (N, L) float64.
        label: (N,), whole numbers 0..L-1.
        num_bins: Number of bins of equal width, by the confidence of a row, its greatest probability.
    """
    confidence = probability.max(axis=1)
    is_correct = probability.argmax(axis=1) == label
    bin_index = np.minimum((confidence * num_bins).astype(np.int64), num_bins - 1)
    gaps = np.abs(np.bincount(bin_index, is_correct - confidence))
    return float(gaps.cumsum()[-1] / len(label))  # bin by bin: ``sum`` adds in another order for each number of bins
