"""Rules that select the epoch whose weights are reported, by the predictions of the validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.evaluation.report import EpochSelection, EvaluatedRows, GroupMetrics, get_metrics
from logit_correction.functional import group_count, group_mean
from logit_correction.registry import import_component
from logit_correction.training import RULES
from logit_correction.training.config import TrainingConfig

if TYPE_CHECKING:
    from logit_correction.evaluation.predictions import Predictions
    from logit_correction.methods.base import Algorithm

#: The rule if ``selection`` is not given, for methods with a static estimator; for others it is ``last``.
#: ``docs/evaluation.md`` has the regret of both.
DEFAULT_RULE = "valid_estimated_within_error"


class SelectionRule:
    """A score by which the best of several epochs is selected; of equal epochs the latest.

    ``valid_NAME`` scores by the metric NAME of ``GroupReport``; ``valid_estimated_NAME`` by that of the groups label x
    estimated attribute, as uLA selects (Tsirigotis et al., 2023). To write a rule, override ``score``.

    Attributes:
        name: The name, or the dotted path, by which it was chosen.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def metric(self) -> str:
        """The metric that is the score."""
        return self.name.removeprefix("valid_")

    @property
    def labels_read(self) -> tuple[str, ...]:
        """The labels of the validation rows that it reads: ``label``, ``attribute``, both or none."""
        return ("label", "attribute") if self.metric in get_metrics(GroupMetrics) else ("label",)

    @property
    def needs_estimate(self) -> bool:
        """Whether it scores by estimated attributes."""
        return self.metric.startswith("estimated_")

    def score(self, predictions: Predictions) -> float | None:
        """Return how good a model is by its predictions of the validation rows; higher is better.

        None if it is not defined; the last epoch is then selected.
        """
        grouped = predictions.group_by_estimate() if self.needs_estimate else predictions
        if grouped is None:
            return None
        return EvaluatedRows.from_predictions(grouped).compute_metric(self.metric.removeprefix("estimated_"))

    def is_tied_with_best(self, predictions: Predictions, best_predicted_label: Tensor) -> bool:
        """Return whether an epoch of a lower score counts as good as the best epoch before it.

        Args:
            predictions: The predictions of the validation rows after the epoch.
            best_predicted_label: (n,) long, the labels that the best epoch predicts for the same rows.
        """
        return False


class Last(SelectionRule):
    """Selects the weights at the end of the training; the validation rows are not read."""

    labels_read = ()

    def score(self, predictions: Predictions) -> float | None:
        return None


class EstimatedWithinError(SelectionRule):
    """The mean accuracy over estimated groups by the one-standard-error rule (Breiman et al., 1984).

    Few validation rows conflict with a shortcut, so the best of many epochs is best by chance as well. The latest epoch
    is selected that is not worse by more than one standard error of the difference on the same rows.
    """

    metric = "estimated_group_balanced"

    def is_tied_with_best(self, predictions: Predictions, best_predicted_label: Tensor) -> bool:
        grouped = predictions.group_by_estimate()
        if grouped is None:
            return False
        groups = EvaluatedRows.from_predictions(grouped).membership
        loss = (best_predicted_label == torch.from_numpy(predictions.label)).double() - predictions.right.double()
        difference = group_mean(loss, groups).nanmean()
        # Of independent groups of n rows each; the second moment is the variance under equal accuracies.
        group_variance = group_mean(loss.square(), groups) / group_count(groups)
        variance = group_variance.nansum() / group_variance.isfinite().sum().square()
        return bool(difference <= variance.sqrt())


def build_rule(name: str) -> SelectionRule:
    """Return the rule of a name or a dotted path; raise ``InputError`` for an unknown one."""
    return import_component("selection rule", name, RULES, SelectionRule)(name)


def choose_rule(config: TrainingConfig, algorithm: Algorithm | None = None) -> SelectionRule:
    """Return the rule that selects a run's epoch.

    Args:
        config: Has the name of the rule, or None for the default.
        algorithm: The method; None before it is built, when the default is taken to be ``last``.
    """
    estimator = None if algorithm is None else algorithm.attributes
    has_static_estimates = estimator is not None and estimator.is_static and not estimator.has_abstained
    return build_rule(config.selection or (DEFAULT_RULE if has_static_estimates else "last"))


def check_rule_has_estimates(rule: SelectionRule, algorithm: Algorithm, method: str) -> None:
    """Raise ``InputError`` if a rule needs estimated attributes and the method estimates none.

    Args:
        rule: The selection rule.
        algorithm: The method.
        method: Its name, for the message.
    """
    if rule.needs_estimate and algorithm.attributes is None:
        raise InputError(
            f"selection rule {rule.name} goes by estimated attributes, and {method} estimates none: take last, "
            "valid_worst_class, or a method that does, such as LC"
        )


def check_rule_goes_by_other_rows(rule: SelectionRule, algorithm: Algorithm, method: str) -> None:
    """Raise ``InputError`` if a rule goes by the validation rows and the method learns from them.

    Args: as in ``check_rule_has_estimates``.
    """
    if rule.labels_read and algorithm.learns_valid_rows:
        raise InputError(
            f"selection rule {rule.name} goes by validation rows, and {method} learns from these rows: take last"
        )


def summarize_selections(selections: Sequence[tuple[SelectionRule, int]]) -> EpochSelection:
    """Return the selection of a run from the rule and the epoch of each of its members; most runs are one member."""
    epochs = {epoch for _, epoch in selections}
    labels_read = list(dict.fromkeys(name for rule, _ in selections for name in rule.labels_read))
    return EpochSelection(
        rule=", ".join(dict.fromkeys(rule.name for rule, _ in selections)),
        epoch=epochs.pop() if len(epochs) == 1 else None,
        split="valid" if labels_read else None,
        labels_read=labels_read,
    )


@dataclass
class SelectedWeights:
    """The weights that a rule has selected.

    Attributes:
        score: Of the best epoch.
        epoch: The selected epoch: the best one, or a later one that is tied with it.
        state: The weights after the selected epoch.
        prediction: (n,) long, the labels that the best epoch predicts for the validation rows.
    """

    score: float
    epoch: int
    state: dict[str, object]
    prediction: Tensor


def update_best_weights(
    best: dict[str, SelectedWeights],
    rule: SelectionRule,
    score: float | None,
    predictions: Predictions,
    epoch: int,
    state: dict[str, object],
) -> None:
    """Replace the weights that a rule has selected if those of ``epoch`` are as good.

    Of equal epochs the latest is selected, since it is trained further. Without a score the rule selects nothing, so
    that the last weights are reported.

    Args:
        best: The selected weights by the rule's name; changed in place.
        rule: The selection rule.
        score: Its score of the epoch.
        predictions: The predictions of the validation rows after the epoch.
        epoch: The epoch, from 1.
        state: The weights after the epoch, which are copied.
    """
    if score is None:
        return
    selected = best.get(rule.name)
    prediction = torch.from_numpy(predictions.prediction)
    if selected is not None and score < selected.score:
        if not rule.is_tied_with_best(predictions, selected.prediction):
            return
        score = selected.score
        prediction = selected.prediction
    copied = {name: value.detach().clone() if isinstance(value, Tensor) else value for name, value in state.items()}
    best[rule.name] = SelectedWeights(score, epoch, copied, prediction)
