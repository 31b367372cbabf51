"""How a fitted classifier is shown, and how it does group by group."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logit_correction.errors import InputError
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import GroupReport
from logit_correction.integrations.scikit_learn.checks import known_attribute

if TYPE_CHECKING:
    import pandas as pd

    from logit_correction.evaluation.predictions import EstimatedAttributes


def group_report(
    answers: NDArray[np.int64],
    label: NDArray[np.int64],
    label_names: list[str],
    attribute: ArrayLike | None,
    estimate: EstimatedAttributes | None,
) -> pd.DataFrame:
    """Return the accuracy of each group.

    Args:
        answers: (n,) numbers of the predicted labels.
        label: (n,) numbers of the labels.
        label_names: L names.
        attribute: (n,) attributes that are known.
        estimate: Those that are estimated, in their place.

    Raises:
        InputError: If there are more or fewer attributes or answers than labels.
    """
    if len(answers) != len(label):
        raise InputError(f"there are {len(answers):,} rows, but {len(label):,} labels: give one a row")
    known = known_attribute(attribute, len(label))
    number, names = known or (None, [])
    correlation = None
    if estimate is not None:
        number, names, correlation = estimate.attribute, list(estimate.names), estimate.correlation
    rows = Predictions(
        index=np.arange(len(label)),
        label=label,
        logits=np.eye(len(label_names))[answers],
        label_names=label_names,
        attribute=number,
        attribute_names=names,
    )
    frame = GroupReport.from_predictions(rows, correlation).groups
    return frame.drop(columns=["margin_min", "margin_mean", "ece"])  # answers alone have none


def verdict_as_html(classifier: Any) -> str:
    """Return one line with the verdict of a fitted classifier; nothing of one that is not fitted or did not look."""
    evidence = getattr(classifier, "evidence_", None)
    if evidence is None:
        return ""
    return (
        f"<p><strong>{escape(evidence['verdict'])}</strong>: {escape(evidence['sentence'])}. "
        f"Correction: {escape(classifier.correction_)}.</p>"
    )
