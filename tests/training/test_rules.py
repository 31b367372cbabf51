"""Rules of selection on scores made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from logit_correction.evaluation.predictions import PredictedAttributes, Predictions
from logit_correction.training.rules import SelectedWeights, build_rule, update_best_weights

LABEL = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
ATTRIBUTE = torch.tensor([0, 0, 0, 1, 0, 1, 1, 1, 1, 1])
PREDICTION = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1, 1, 0])


def build_estimate(attribute: Tensor = ATTRIBUTE, labels: int = 2) -> PredictedAttributes:
    names = [f"that of {name}" for name in "abc"[:labels]]
    return PredictedAttributes(attribute.numpy(), names, [[i] for i in range(labels)], "heads on colour")


def build_predictions(prediction: Tensor, label: Tensor, attribute: Tensor, with_attributes: bool) -> Predictions:
    attributes = {"attribute": attribute, "attribute_names": "ab"} if with_attributes else {}
    logits = torch.eye(2)[prediction]
    return Predictions(range(len(label)), label, logits, ["a", "b"], estimate=build_estimate(attribute), **attributes)


# Right: 2 of 3, 0 of 1, 1 of 1, 4 of 5 in the groups (0,0), (0,1), (1,0), (1,1); 2 of 4 and 5 of 6 of the labels.
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("last", None),
        ("valid_average", 7 / 10),
        ("valid_worst_class", 2 / 4),
        ("valid_group_balanced", (2 / 3 + 0 + 1 + 4 / 5) / 4),
        ("valid_worst_group", 0.0),
        ("valid_estimated_group_balanced", (2 / 3 + 0 + 1 + 4 / 5) / 4),
        ("valid_estimated_within_error", (2 / 3 + 0 + 1 + 4 / 5) / 4),
        ("valid_estimated_worst_group", 0.0),
    ],
)
def test_rule_scores_equal_a_computation_by_hand(name: str, expected: float | None) -> None:
    rows = build_predictions(PREDICTION, LABEL, ATTRIBUTE, with_attributes="estimated" not in name)
    assert build_rule(name).score(rows) == (expected if expected is None else pytest.approx(expected))


def build_group_predictions(*right: int, size: int = 40) -> Predictions:
    """Four groups of ``size`` rows, with this number of right predictions in each, always the first rows."""
    label = torch.tensor([0, 0, 1, 1]).repeat_interleave(size)
    attribute = torch.tensor([0, 1, 0, 1]).repeat_interleave(size)
    hits = torch.cat([torch.arange(size) < number for number in right])
    return build_predictions(torch.where(hits, label, 1 - label), label, attribute, with_attributes=False)


@pytest.mark.parametrize("lost", range(8))
def test_later_epoch_is_tied_within_one_standard_error_of_the_difference(lost: int) -> None:
    # `lost` rows of one group are right in the earlier epoch alone, and one of another group in the later one alone.
    earlier = build_group_predictions(40, 30, 20, 39)
    later = build_group_predictions(40, 30 - lost, 20, 40)
    difference = (lost - 1) / 40 / 4
    error = math.sqrt((lost + 1) / 40 / 40) / 4
    rule = build_rule("valid_estimated_within_error")
    before = torch.from_numpy(earlier.prediction)
    assert rule.is_tied_with_best(later, before) is (difference <= error)
    assert not build_rule("valid_estimated_group_balanced").is_tied_with_best(later, before)
    assert not rule.is_tied_with_best(replace(later, estimate=None), before)


def test_latest_tied_epoch_is_selected_and_a_better_one_becomes_the_reference() -> None:
    rule = build_rule("valid_estimated_within_error")
    best = dict[str, SelectedWeights]()
    selected_epochs = []
    second = [20, 30, 29, 20, 31, 30]  # of these rows as many are right, epoch by epoch
    for epoch, number in enumerate(second, start=1):
        right = (20, 20, 20, 20) if epoch == 1 else (40, number, 20, 39)
        rows = build_group_predictions(*right)
        update_best_weights(best, rule, rule.score(rows), rows, epoch, {"epoch": epoch})
        selected_epochs.append((best[rule.name].epoch, best[rule.name].state["epoch"]))
    assert selected_epochs == [(1, 1), (2, 2), (3, 3), (3, 3), (5, 5), (6, 6)]
    assert best[rule.name].score == rule.score(build_group_predictions(40, 31, 20, 39))
