"""Rules that choose the epoch whose weights are reported. None of them reads the test split."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from logit_correction.config import Rule
from logit_correction.data.table import DataTable
from logit_correction.functional import (
    group_balanced_accuracy,
    group_membership,
    worst_group_accuracy,
)

#: Rule -> labels of the validation split that it reads.
LABELS_READ: dict[Rule, list[str]] = {
    "last": [],
    "valid_average": ["label"],
    "valid_worst_class": ["label"],
    "valid_group_balanced": ["label", "attribute"],
    "valid_worst_group": ["label", "attribute"],
}


def reads_attributes(rules: list[Rule]) -> bool:
    """Return whether any of the rules reads validation attributes."""
    return any("attribute" in LABELS_READ[rule] for rule in rules)


def scoring_groups(table: DataTable, rules: list[Rule]) -> Tensor | None:
    """Return the groups (n, G) bool that validation rows are scored on in place of label x attribute, if any."""
    if table.scoring is None or not reads_attributes(rules):
        return None
    return table.scoring.membership[table.split["valid"]]


def validation_scores(
    prediction: Tensor,
    label: Tensor,
    attribute: Tensor | None,
    num_labels: int,
    num_attributes: int,
    membership: Tensor | None = None,
) -> dict[str, float]:
    """Score validation predictions.

    Args:
        prediction: (n,) long.
        label: (n,) long.
        attribute: (n,) long, or None if no rule needs it.
        num_labels: L.
        num_attributes: K.
        membership: (n, G) bool, groups to score on in place of label x attribute.

    Returns:
        Rule -> score, fractions; the group scores only where attributes or groups are given.
    """
    classes = group_membership(label, torch.zeros_like(label), num_labels, 1)
    scores = {
        "valid_average": float((prediction == label).double().mean()),
        "valid_worst_class": float(worst_group_accuracy(prediction, label, classes)),
    }
    if membership is None and attribute is not None:
        membership = group_membership(label, attribute, num_labels, num_attributes)
    if membership is not None:
        scores["valid_group_balanced"] = float(group_balanced_accuracy(prediction, label, membership))
        scores["valid_worst_group"] = float(worst_group_accuracy(prediction, label, membership))
    return scores


@dataclass
class Selected:
    """The weights that one rule holds to be best so far."""

    score: float
    epoch: int
    state: dict[str, object]


def clone_state(state: dict[str, object]) -> dict[str, object]:
    """Copy a state dict, so that training on does not change it."""
    return {key: value.detach().clone() if isinstance(value, Tensor) else value for key, value in state.items()}


def update_best(
    best: dict[str, Selected],
    rules: list[Rule],
    scores: dict[str, float],
    epoch: int,
    state: dict[str, object],
) -> None:
    """Let each rule but ``last`` take the present weights if they are better than what it holds."""
    better = [r for r in rules if r != "last" and (r not in best or scores[r] > best[r].score)]
    if better:
        kept = clone_state(state)
        for rule in better:
            best[rule] = Selected(scores[rule], epoch, kept)
