"""Rules that choose the epoch whose weights are reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.evaluation.report import EvaluatedRows, GroupMetrics, get_metrics
from logit_correction.functional import group_count, group_mean
from logit_correction.registry import import_component
from logit_correction.training import RULES
from logit_correction.training.config import TrainingConfig

if TYPE_CHECKING:
    from logit_correction.evaluation.predictions import Predictions
    from logit_correction.methods.base import Algorithm

#: What chooses where nobody says, for methods whose estimator settles each row's attribute; for others it is ``last``.
#: ``docs/evaluation.md`` has the regret of both.
DEFAULT = "valid_estimated_within_error"


class SelectionRule:
    """A score by which the best of several epochs is taken; of equal epochs the latest.

    ``valid_NAME`` scores by the figure NAME of ``GroupReport``; ``valid_estimated_NAME`` by that of the groups label x
    estimated attribute, as uLA selects (Tsirigotis et al., 2023). A rule of your own has its own ``score``.

    Attributes:
        name: The name, or the dotted path, by which it was asked for.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def metric(self) -> str:
        """The figure that is the score."""
        return self.name.removeprefix("valid_")

    @property
    def labels_read(self) -> tuple[str, ...]:
        """The labels of the validation rows that it reads."""
        return ("label", "attribute") if self.metric in get_metrics(GroupMetrics) else ("label",)

    @property
    def needs_estimate(self) -> bool:
        """Whether it goes by estimated attributes."""
        return self.metric.startswith("estimated_")

    def score(self, rows: Predictions) -> float | None:
        """Return how good a model is, more being better; None where it cannot be told, and the last epoch is taken."""
        judged = rows.group_by_estimate() if self.needs_estimate else rows
        return (
            None
            if judged is None
            else EvaluatedRows.from_predictions(judged).compute_metric(self.metric.removeprefix("estimated_"))
        )

    def is_tied(self, rows: Predictions, best: Tensor) -> bool:
        """Return whether an epoch is as good as the best before it, of predictions (n,), whatever their scores."""
        return False


class Last(SelectionRule):
    """Takes the weights at the end of the training, whatever the validation rows say."""

    labels_read = ()

    def score(self, rows: Predictions) -> float | None:
        return None


class EstimatedWithinError(SelectionRule):
    """The mean accuracy over estimated groups by the one-standard-error rule (Breiman et al., 1984).

    Few validation rows conflict with a shortcut, so the best of many epochs is best by chance as well. The latest epoch
    is taken that is not worse by more than one standard error of the difference on the same rows.
    """

    metric = "estimated_group_balanced"

    def is_tied(self, rows: Predictions, best: Tensor) -> bool:
        judged = rows.group_by_estimate()
        if judged is None:
            return False
        groups = EvaluatedRows.from_predictions(judged).membership
        lost = (best == torch.from_numpy(rows.label)).double() - rows.right.double()
        difference = group_mean(lost, groups).nanmean()
        # Of independent groups of n rows each; the second moment is the variance where there is no difference.
        of_groups = group_mean(lost.square(), groups) / group_count(groups)
        variance = of_groups.nansum() / of_groups.isfinite().sum().square()
        return bool(difference <= variance.sqrt())


def build_rule(name: str) -> SelectionRule:
    """Return the rule that a name or a dotted path stands for; ``InputError`` if there is none."""
    rule: SelectionRule = import_component("selection rule", name, RULES, SelectionRule)(name)
    return rule


def choose_rule(config: TrainingConfig, algorithm: Algorithm | None = None) -> SelectionRule:
    """Return the rule that selects a run's epoch; ``algorithm`` as far as it is known."""
    estimator = None if algorithm is None else algorithm.attributes
    estimates = estimator is not None and estimator.is_static and not estimator.has_abstained
    return build_rule(config.selection or (DEFAULT if estimates else "last"))


def check_rule_has_estimates(rule: SelectionRule, algorithm: Algorithm, method: str) -> None:
    """Raise ``InputError`` if a rule goes by estimated attributes and the method estimates none."""
    if rule.needs_estimate and algorithm.attributes is None:
        raise InputError(
            f"selection rule {rule.name} goes by estimated attributes, and {method} estimates none: take last, "
            "valid_worst_class, or a method that does, such as LC"
        )


@dataclass
class SelectedWeights:
    """The weights that a rule takes, of ``epoch``; ``score`` and ``prediction`` (n,) are those of the best epoch."""

    score: float
    epoch: int
    state: dict[str, object]
    prediction: Tensor


def update_best_weights(
    best: dict[str, SelectedWeights],
    rule: SelectionRule,
    score: float | None,
    rows: Predictions,
    epoch: int,
    state: dict[str, object],
) -> None:
    """Let a rule take the weights of ``epoch`` into ``best`` if they are no worse than what it holds there.

    Of equal epochs the latest is taken, since it is trained further. Without a score the rule holds nothing, so that
    the last weights are its choice.
    """
    if score is None:
        return
    held, prediction = best.get(rule.name), torch.from_numpy(rows.prediction)
    if held is not None and score < held.score:
        if not rule.is_tied(rows, held.prediction):
            return
        score, prediction = held.score, held.prediction
    kept = {key: one.detach().clone() if isinstance(one, Tensor) else one for key, one in state.items()}
    best[rule.name] = SelectedWeights(score, epoch, kept, prediction)
