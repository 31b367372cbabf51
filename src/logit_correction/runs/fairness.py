"""A run in fairlearn's terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from logit_correction.errors import InputError
from logit_correction.evaluation.predictions import Predictions
from logit_correction.registry import needed

if TYPE_CHECKING:
    from fairlearn.metrics import MetricFrame

Metrics = Callable[..., Any] | Mapping[str, Callable[..., Any]]


def metric_frame(rows: Predictions, metrics: Metrics | None, estimated: bool) -> MetricFrame:
    """Return fairlearn's ``MetricFrame`` of predictions, by attribute; rows without one are left out.

    Args:
        rows: In ``TrainedRun.metric_frame`` those of a split, ``test``, ``valid`` or ``train``.
        metrics: One, or several by name, of true and predicted labels as numbers; by default the count and accuracies.
        estimated: Take the attribute that the run's estimator finds.

    Raises:
        InputError: If fairlearn is not installed, or no row has an attribute.
    """
    fairlearn = needed("fairlearn.metrics", "metric_frame", "fairlearn")
    from sklearn.metrics import accuracy_score, balanced_accuracy_score

    if estimated:
        attribute = None if rows.estimate is None else rows.estimate.attribute
        names = () if rows.estimate is None else tuple(rows.estimate.names)
    else:
        attribute, names = rows.attribute, tuple(rows.attribute_names)
    if attribute is None or not (attribute >= 0).any():
        what = "the run estimates no attribute of them" if estimated else "nobody named one: try estimated=True"
        raise InputError(f"no row of the {rows.split} split has an attribute, as {what}")
    known = attribute >= 0
    usual = {"count": fairlearn.count, "accuracy": accuracy_score, "balanced_accuracy": balanced_accuracy_score}
    return fairlearn.MetricFrame(
        metrics=usual if metrics is None else metrics,
        y_true=rows.label[known],
        y_pred=rows.prediction[known],
        sensitive_features=pd.Series(np.asarray(names, dtype=object)[attribute[known]], name="attribute"),
    )
