"""Choosing the epoch whose weights are reported, by rules of which none reads the test split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from logit_correction.config import TrainingConfig
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.methods.base import Algorithm
from logit_correction.registry import resolve
from logit_correction.training.groups import judged_groups
from logit_correction.training.rules import RULES
from logit_correction.training.rules.base import SelectionRule, ValidationRows

#: What chooses where nobody says, for methods whose estimator settles each row's attribute; for others it is ``last``.
#: ``docs/evaluation.md`` has the regret of both.
DEFAULT = "valid_estimated_within_error"

#: Rules whose scores are recorded after each epoch though nobody selects by them, and those beside, of groups.
RECORDED, RECORDED_BY_GROUP = ("valid_average", "valid_worst_class"), ("valid_group_balanced", "valid_worst_group")


def rule_of(name: str) -> SelectionRule:
    """Return the rule that a name or a dotted path stands for.

    Raises:
        InputError: If there is none, or it is something else.
    """
    return resolve("selection rule", name, RULES, SelectionRule)()


def rules_of(config: TrainingConfig, algorithm: Algorithm | None = None) -> list[str]:
    """Return the rules of a run, the one to report first.

    Args:
        config: Options of the loop.
        algorithm: The method, as far as it is known.
    """
    estimator = None if algorithm is None else algorithm.attributes
    estimates = estimator is not None and estimator.settled and not estimator.abstained
    return list(dict.fromkeys([config.selection or (DEFAULT if estimates else "last"), *config.also_select]))


def reads_attributes(rules: Sequence[str]) -> bool:
    """Return whether any of the rules reads validation attributes."""
    return any("attribute" in rule_of(rule).reads for rule in rules)


def scored(rules: Sequence[str]) -> dict[str, SelectionRule]:
    """Return the rules that are scored after each epoch."""
    names = [*RECORDED, *(RECORDED_BY_GROUP if reads_attributes(rules) else ()), *rules]
    return {name: rule_of(name) for name in names if name != "last"}


def check_estimates(rules: Sequence[str], algorithm: Algorithm, method: str) -> None:
    """Return if the method estimates attributes, where a rule goes by such.

    Raises:
        InputError: Names the rule.
    """
    for rule in rules:
        if rule_of(rule).needs_estimate and algorithm.attributes is None:
            raise InputError(
                f"selection rule {rule} goes by estimated attributes, and {method} estimates none: take last, "
                "valid_worst_class or valid_class_difference, or a method that does, such as LC"
            )


def validation_groups(table: DataTable, rules: Sequence[str]) -> Tensor | None:
    """Return the groups (n, G) bool of the validation rows, for rules that read attributes alone.

    Raises:
        InputError: If the attribute of a row is unknown.
    """
    if not reads_attributes(rules):
        return None
    groups = judged_groups(table, "valid")
    if groups is None:
        raise InputError("the attribute of every valid row must be known for this selection rule: take another one")
    return groups


@dataclass
class Selected:
    """The weights that one rule holds to be best so far.

    Attributes:
        score: Of the best epoch.
        epoch: Whose weights these are: the best one, or a later one that is level with it.
        state: The weights.
        prediction: (n,) long, what the best epoch says of the validation rows.
    """

    score: float
    epoch: int
    state: dict[str, object]
    prediction: Tensor


def clone_state(state: dict[str, object]) -> dict[str, object]:
    """Copy a state dict, so that training on does not change it."""
    return {key: value.detach().clone() if isinstance(value, Tensor) else value for key, value in state.items()}


def update_best(
    best: dict[str, Selected],
    rules: Mapping[str, SelectionRule],
    scores: Mapping[str, float | None],
    rows: ValidationRows | None,
    epoch: int,
    state: dict[str, object],
) -> None:
    """Let each rule take the present weights if they are no worse than what it holds.

    Of equal epochs the latest is taken: where validation rows are few or all right, many are equal, and the later ones
    are trained further. A rule without a score holds nothing, so that the last weights are its choice.

    Args:
        best: What each rule holds; changed in place.
        rules: Name -> a rule of the run that is scored.
        scores: Name -> the score of this epoch.
        rows: The validation rows as this epoch predicts them; None where there are none, and so no scores.
        epoch: Counted from 1.
        state: The present weights, which are copied.
    """
    known = {name: score for name in rules if (score := scores.get(name)) is not None}
    if rows is None or not known:
        return
    kept: dict[str, object] | None = None
    for name, score in known.items():
        held, prediction = best.get(name), rows.prediction
        if held is not None and score < held.score:
            if not rules[name].is_level(rows, replace(rows, prediction=held.prediction)):
                continue
            score, prediction = held.score, held.prediction
        kept = kept or clone_state(state)
        best[name] = Selected(score, epoch, kept, prediction)
