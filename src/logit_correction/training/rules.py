"""Rules that choose the epoch, or the run, whose weights are reported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from logit_correction.config import TrainingConfig
from logit_correction.errors import InputError
from logit_correction.functional import (
    group_balanced_accuracy,
    group_count,
    group_mean,
    group_membership,
    worst_group_accuracy,
)
from logit_correction.functional.metrics import label_membership
from logit_correction.registry import resolve
from logit_correction.training import RULES

if TYPE_CHECKING:
    from logit_correction.data.table import DataTable
    from logit_correction.evaluation.predictions import EstimatedAttributes
    from logit_correction.methods.base import Algorithm

#: What chooses where nobody says, for methods whose estimator settles each row's attribute; for others it is ``last``.
#: ``docs/evaluation.md`` has the regret of both.
DEFAULT = "valid_estimated_within_error"

#: Rules whose scores are recorded after each epoch though nobody selects by them, and those beside, of groups.
RECORDED, RECORDED_BY_GROUP = ("valid_average", "valid_worst_class"), ("valid_group_balanced", "valid_worst_group")


@dataclass(frozen=True)
class ValidationRows:
    """What a rule may look at of n validation rows: predictions (n,) and labels (n,), of ``num_labels``.

    Attributes:
        membership: (n, G) bool, label x attribute and sparse, or the data's own groups; if a rule ``reads`` attributes.
        estimate: The attributes that the method's estimator finds; if a rule ``needs_estimate``, and there are any.
    """

    prediction: Tensor
    label: Tensor
    num_labels: int
    membership: Tensor | None = None
    estimate: EstimatedAttributes | None = None

    @property
    def classes(self) -> Tensor:
        """The rows of each label, (n, L) bool, sparse."""
        return label_membership(self.label, self.num_labels)

    @property
    def estimated_groups(self) -> Tensor | None:
        """The rows of each label x estimated attribute, (n, L K) bool, sparse; None where nothing is estimated."""
        if self.estimate is None:
            return None
        attribute = torch.from_numpy(self.estimate.attribute)
        return group_membership(self.label, attribute, self.num_labels, len(self.estimate.names), sparse=True)

    def balanced(self, groups: Tensor | None) -> float | None:
        """Return the mean of the accuracies of the groups that have rows; None without groups."""
        return None if groups is None else float(group_balanced_accuracy(self.prediction, self.label, groups))

    def worst(self, groups: Tensor | None) -> float | None:
        """Return the least of the accuracies of the groups that have rows; None without groups."""
        return None if groups is None else float(worst_group_accuracy(self.prediction, self.label, groups))


class SelectionRule(ABC):
    """A score by which the best of several epochs, or runs, is taken; of equal epochs the latest.

    Attributes:
        reads: The labels of the validation rows that it reads.
        needs_estimate: Whether it goes by estimated attributes.
    """

    reads: ClassVar[tuple[str, ...]] = ("label",)
    needs_estimate: ClassVar[bool] = False

    @abstractmethod
    def score(self, rows: ValidationRows) -> float | None:
        """Return how good a model is, more being better; None where it cannot be told, and the last epoch is taken."""

    def is_level(self, rows: ValidationRows, best: ValidationRows) -> bool:
        """Return whether the epoch that predicts ``rows`` is as good as the best before it, whatever their scores."""
        return False


class Last(SelectionRule):
    """Takes the weights at the end of the training, whatever the validation rows say."""

    reads: ClassVar[tuple[str, ...]] = ()

    def score(self, rows: ValidationRows) -> float | None:
        return None


class Average(SelectionRule):
    """The share of validation rows that are right; where these are biased it favours what relies on the shortcut."""

    def score(self, rows: ValidationRows) -> float:
        return float((rows.prediction == rows.label).double().mean())


class WorstClass(SelectionRule):
    """The least accuracy of a label; labels without rows do not count."""

    def score(self, rows: ValidationRows) -> float | None:
        return rows.worst(rows.classes)


class EstimatedGroupBalanced(SelectionRule):
    """The mean accuracy over the groups label x estimated attribute, as uLA selects (Tsirigotis et al., 2023)."""

    needs_estimate: ClassVar[bool] = True

    def score(self, rows: ValidationRows) -> float | None:
        return rows.balanced(rows.estimated_groups)


class EstimatedWorstGroup(SelectionRule):
    """The least accuracy of a group label x estimated attribute that has rows; of small groups it is a rough one."""

    needs_estimate: ClassVar[bool] = True

    def score(self, rows: ValidationRows) -> float | None:
        return rows.worst(rows.estimated_groups)


class EstimatedWithinError(SelectionRule):
    """The mean accuracy over estimated groups by the one-standard-error rule (Breiman et al., 1984).

    Few validation rows conflict with a shortcut, so the best of many epochs is the best by chance as well. The latest
    one is taken that is not worse by more than one standard error of the difference. Both predict the same rows: only
    those count in which one is right and the other wrong.
    """

    needs_estimate: ClassVar[bool] = True

    def score(self, rows: ValidationRows) -> float | None:
        return rows.balanced(rows.estimated_groups)

    def is_level(self, rows: ValidationRows, best: ValidationRows) -> bool:
        groups = rows.estimated_groups
        if groups is None:
            return False
        lost = (best.prediction == best.label).double() - (rows.prediction == rows.label).double()
        difference = group_mean(lost, groups).nanmean()
        # Of independent groups of n rows each; the second moment is the variance where there is no difference.
        of_groups = group_mean(lost.square(), groups) / group_count(groups)
        variance = of_groups.nansum() / of_groups.isfinite().sum().square()
        return bool(difference <= variance.sqrt())


class GroupBalanced(SelectionRule):
    """The mean of the accuracies of all groups that have rows; reads validation attributes."""

    reads: ClassVar[tuple[str, ...]] = ("label", "attribute")

    def score(self, rows: ValidationRows) -> float | None:
        return rows.balanced(rows.membership)


class WorstGroup(SelectionRule):
    """The least accuracy of a group that has rows; reads validation attributes."""

    reads: ClassVar[tuple[str, ...]] = ("label", "attribute")

    def score(self, rows: ValidationRows) -> float | None:
        return rows.worst(rows.membership)


def rule_of(name: str) -> SelectionRule:
    """Return the rule that a name or a dotted path stands for; ``InputError`` if there is none."""
    return resolve("selection rule", name, RULES, SelectionRule)()


def rule_for(config: TrainingConfig, algorithm: Algorithm | None = None) -> str:
    """Return the name of the rule that selects a run's epoch; ``algorithm`` as far as it is known."""
    estimator = None if algorithm is None else algorithm.attributes
    estimates = estimator is not None and estimator.settled and not estimator.abstained
    return config.selection or (DEFAULT if estimates else "last")


def scored(rule: str) -> dict[str, SelectionRule]:
    """Return the rules that are scored after each epoch, where this one selects."""
    names = [*RECORDED, *(RECORDED_BY_GROUP if "attribute" in rule_of(rule).reads else ()), rule]
    return {name: rule_of(name) for name in names if name != "last"}


def check_estimates(rule: str, algorithm: Algorithm, method: str) -> None:
    """Raise ``InputError`` if a rule goes by estimated attributes and the method estimates none."""
    if rule_of(rule).needs_estimate and algorithm.attributes is None:
        raise InputError(
            f"selection rule {rule} goes by estimated attributes, and {method} estimates none: take last, "
            "valid_worst_class, or a method that does, such as LC"
        )


def label_by_attribute(table: DataTable, split: str) -> Tensor:
    """Return which group label x attribute each row of a split belongs to, (n, L K) bool, sparse."""
    rows, info = table.split[split], table.info
    label, attribute = table.label[rows], table.attribute[rows]
    return group_membership(label, attribute, info.num_labels, info.num_attributes, sparse=True)


def judged_groups(table: DataTable, split: str) -> Tensor | None:
    """Return the groups (n, G) bool that a split is judged on: the data's own, else label x attribute.

    None where there are none of the data's own and the attribute of a row is unknown.
    """
    if table.scoring is not None:
        return table.scoring.membership[table.split[split]]
    return label_by_attribute(table, split) if table.has_attributes(split) else None


@dataclass
class Selected:
    """The weights that one rule holds to be best so far: those of ``epoch``, the best one or one level with it.

    ``score`` and ``prediction`` (n,) of the validation rows are those of the best epoch.
    """

    score: float
    epoch: int
    state: dict[str, object]
    prediction: Tensor


def update_best(
    best: dict[str, Selected],
    rules: Mapping[str, SelectionRule],
    scores: Mapping[str, float | None],
    rows: ValidationRows,
    epoch: int,
    state: dict[str, object],
) -> None:
    """Let each rule take the weights of ``epoch`` into ``best`` if they are no worse than what it holds.

    Of equal epochs the latest is taken, since it is trained further. A rule without a score holds nothing, so that the
    last weights are its choice.
    """
    kept: dict[str, object] | None = None
    for name, rule in rules.items():
        score, held = scores.get(name), best.get(name)
        if score is None:
            continue
        prediction = rows.prediction
        if held is not None and score < held.score:
            if not rule.is_level(rows, replace(rows, prediction=held.prediction)):
                continue
            score, prediction = held.score, held.prediction
        if kept is None:  # a copy, which training on does not change
            kept = {key: one.detach().clone() if isinstance(one, Tensor) else one for key, one in state.items()}
        best[name] = Selected(score, epoch, kept, prediction)
