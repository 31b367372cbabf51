"""Other people's classifiers, fitted with the correction: by offsets of their logits, or by weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from logit_correction.errors import InputError
from logit_correction.runs.estimate import AttributeEstimates

#: Arguments of ``fit`` that are added to the margins of each row while a booster trains: XGBoost, LightGBM, CatBoost.
OFFSETS = ("base_margin", "init_score", "baseline")


def argument_of(estimator: Any) -> str:
    """Return the argument of ``fit`` that takes the correction, steps of a pipeline in front.

    Raises:
        InputError: If a classifier takes neither offsets nor weights, or is none.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> argument_of(make_pipeline(LogisticRegression()))
    'logisticregression__sample_weight'
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        name = type(estimator).__name__
        raise InputError(f"estimator is {name}, but must be a classifier with fit and predict, not yet fitted")
    if hasattr(estimator, "steps"):
        step, last = estimator.steps[-1]
        return f"{step}__{argument_of(last)}"
    if hasattr(estimator, "cv") and hasattr(estimator, "estimator"):  # a search passes it on, cut to each fold
        return argument_of(estimator.estimator)
    for argument in (*OFFSETS, "sample_weight"):
        if has_fit_parameter(estimator, argument):
            return argument
    raise InputError(
        f"{type(estimator).__name__} takes neither offsets ({', '.join(OFFSETS)}) nor sample_weight in fit, so that it "
        "cannot be corrected: take another estimator"
    )


def fit_corrected(estimator: Any, X: Any, label: NDArray[np.int64], found: AttributeEstimates) -> tuple[Any, str]:
    """Fit a copy of a classifier with the correction.

    Args:
        estimator: The classifier.
        X: n rows, as they were given.
        label: (n,) numbers of their labels, which the classifier learns.
        found: The estimated attributes of the rows.

    Returns:
        The fitted classifier, and how it was corrected, in words.
    """
    argument, fitted = argument_of(estimator), clone(estimator)
    if argument.endswith("sample_weight"):
        fitted.fit(X, label, **{argument: found.sample_weight()})
        said = f"sample weights ({argument})"
    else:
        log = found.log_prior_of_rows()
        offset = log[:, 1] - log[:, 0] if log.shape[1] == 2 else log  # of two labels, of the second against the first
        # Else XGBoost adds the share of the labels to its predictions, though it trained without; also in a pipeline.
        options = fitted.get_params()
        unset = [one for one in options if one.rpartition("__")[2] == "base_score" and options[one] is None]
        fitted.set_params(**dict.fromkeys(unset, 0.5))
        fitted.fit(X, label, **{argument: offset})
        said = f"logit offsets ({argument})"
    return fitted, said if found.corrects else f"{said}, which change nothing: {found.verdict}"
