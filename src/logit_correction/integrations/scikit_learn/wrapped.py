"""Other people's classifiers, fitted with the correction: by offsets of their logits, or by weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter
from torch import Tensor

from logit_correction.config import RunConfig
from logit_correction.errors import InputError
from logit_correction.integrations.scikit_learn.training import Trained
from logit_correction.losses import check_criterion
from logit_correction.runs.estimate import AttributeEstimates, estimates_of
from logit_correction.training.display import Display

#: Arguments of ``fit`` that are added to the margins of each row while a booster trains: XGBoost, LightGBM, CatBoost.
OFFSETS = ("base_margin", "init_score", "baseline")

#: Losses of a net that are told logits, and those that are told probabilities, of which skorch takes the logarithm.
_ON_LOGITS = (torch.nn.CrossEntropyLoss, torch.nn.BCEWithLogitsLoss)

Kind: TypeAlias = Literal["offsets", "criterion", "weights"]


@dataclass(frozen=True)
class Way:
    """How a classifier takes the correction.

    Attributes:
        estimator: The classifier, not fitted.
        kind: By offsets of its logits, by its criterion, or by weights.
        argument: What its ``fit`` is given, a step of a pipeline in front.
    """

    estimator: Any
    kind: Kind
    argument: str


def way_of(estimator: Any) -> Way:
    """Return how a classifier takes the correction.

    Raises:
        InputError: If it takes neither offsets nor weights, is none, or is a net whose criterion smooths labels.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> way_of(make_pipeline(LogisticRegression())).argument
    'logisticregression__sample_weight'
    """
    name = type(estimator).__name__
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        raise InputError(f"estimator is {name}, but must be a classifier with fit and predict, not yet fitted")
    if _is_net(estimator):
        check_criterion(estimator.initialized_instance(estimator.criterion, estimator.get_params_for("criterion")))
        return Way(estimator, "criterion", "criterion")
    prefix, inner = _inner(estimator)
    for argument in OFFSETS:
        if has_fit_parameter(inner, argument):
            return Way(estimator, "offsets", prefix + argument)
    if has_fit_parameter(inner, "sample_weight"):
        return Way(estimator, "weights", f"{prefix}sample_weight")
    raise InputError(
        f"{type(inner).__name__} takes neither offsets ({', '.join(OFFSETS)}) nor sample_weight in fit, so that it "
        "cannot be corrected: take another estimator"
    )


def _is_net(estimator: Any) -> bool:
    """Tell a net of skorch, which need not be installed."""
    return any(base.__module__.startswith("skorch.") and base.__name__ == "NeuralNet" for base in type(estimator).mro())


def _inner(estimator: Any) -> tuple[str, Any]:
    """Return the classifier at the end of pipelines and searches, and what its arguments of ``fit`` begin with."""
    if hasattr(estimator, "steps"):
        step, last = estimator.steps[-1]
        prefix, inner = _inner(last)
        return f"{step}__{prefix}", inner
    if hasattr(estimator, "cv") and hasattr(estimator, "estimator"):  # a search passes them on, cut to each fold
        return _inner(estimator.estimator)
    return "", estimator


def fit_corrected(
    way: Way, X: Any, label: NDArray[np.int64], config: RunConfig, display: Display
) -> tuple[Trained, Any, str]:
    """Estimate the attributes, then fit a copy of the classifier with the correction.

    Args:
        way: How the classifier takes it.
        X: n rows, as they were given.
        label: (n,) numbers of their labels, which the classifier learns.
        config: Of the rows in memory.
        display: Shows progress.

    Returns:
        The search, the fitted classifier, and how it was corrected, in words.

    Raises:
        InputError: If the attributes change throughout a training, or a net has another criterion.
    """
    found, algorithm, config = estimates_of(config, display)
    fitted = clone(way.estimator)
    if way.kind == "weights":
        fitted.fit(X, label, **{way.argument: found.sample_weight()})
    elif way.kind == "offsets":
        # Else XGBoost adds the share of the labels to its predictions, though it trained without; also in a pipeline.
        unset = [name for name, value in fitted.get_params().items() if _is_base_score(name) and value is None]
        fitted.set_params(**dict.fromkeys(unset, 0.5))
        fitted.fit(X, label, **{way.argument: _margins(found)})
    else:
        _fit_net(fitted, X, label, found)
    said = {"weights": "sample weights", "offsets": "logit offsets", "criterion": "logit offsets"}[way.kind]
    verdict = "" if found.corrects else f", which change nothing: {found.verdict}"
    trained = Trained(algorithm.eval(), config, 0, found.attribute)
    return trained, fitted, f"{said} ({way.argument}){verdict}"


def _is_base_score(name: str) -> bool:
    """Tell the option ``base_score``, a step of a pipeline or of a search in front."""
    return name.rsplit("__", 1)[-1] == "base_score"


def _margins(found: AttributeEstimates) -> NDArray[np.float32]:
    """Return offsets (n, L); of two labels (n,), that of the second against the first."""
    log = found.log_prior_of_rows()
    return log[:, 1] - log[:, 0] if log.shape[1] == 2 else log


def _fit_net(net: Any, X: Any, label: NDArray[np.int64], found: AttributeEstimates) -> None:
    """Fit a net of skorch whose criterion sees the logits plus the row's log prior; as it is afterwards, it has none.

    The log prior travels beside the rows, in the batches that skorch draws. The module never sees it, and neither do
    validation and prediction.
    """
    kind = type(net)

    def infer(self: Any, x: Any, **fit_params: Any) -> Any:
        return kind.infer(self, x["rows"] if isinstance(x, Mapping) else x, **fit_params)

    def get_loss(self: Any, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
        if training:
            y_pred = _corrected(self.criterion_, y_pred, X["log_prior"])
        return kind.get_loss(self, y_pred, y_true, X=X, training=training)

    net.infer, net.get_loss = MethodType(infer, net), MethodType(get_loss, net)
    try:
        net.fit({"rows": X, "log_prior": found.log_prior_of_rows()}, label)
    finally:
        del net.infer, net.get_loss


def _corrected(criterion: Any, answer: Tensor, log_prior: Tensor) -> Tensor:
    """Return logits plus log prior; of a criterion on probabilities, the probabilities that this makes.

    Raises:
        InputError: If it is unknown what the criterion is told.
    """
    log_prior = log_prior.to(answer.device, answer.dtype)
    if isinstance(criterion, _ON_LOGITS):
        if answer.dim() == 1 or answer.shape[1] == 1:  # of two labels, that of the second alone
            return answer + (log_prior[:, 1] - log_prior[:, 0]).reshape(answer.shape)
        return answer + log_prior
    if isinstance(criterion, torch.nn.NLLLoss):
        return ((answer + torch.finfo(answer.dtype).eps).log() + log_prior).softmax(dim=1)
    raise InputError(
        f"the net's criterion is {type(criterion).__name__}, of which it is unknown how to correct it: take "
        "torch.nn.CrossEntropyLoss, on logits"
    )
