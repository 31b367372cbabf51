"""Rules of selection on scores made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch

from logit_correction.config import Rule
from logit_correction.data.scoring import Scoring
from logit_correction.training.selection import (
    LABELS_READ,
    Selected,
    clone_state,
    reads_attributes,
    scoring_groups,
    update_best,
    validation_scores,
)

LABEL = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
ATTRIBUTE = torch.tensor([0, 0, 0, 1, 0, 1, 1, 1, 1, 1])
PREDICTION = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1, 1, 0])


def test_scores_equal_those_worked_out_by_hand() -> None:
    scores = validation_scores(PREDICTION, LABEL, ATTRIBUTE, 2, 2)
    # Right: 2 of 3, 0 of 1, 1 of 1, 4 of 5 in the groups (0,0), (0,1), (1,0), (1,1).
    assert scores == pytest.approx(
        {
            "valid_average": 7 / 10,
            "valid_worst_class": 2 / 4,
            "valid_group_balanced": (2 / 3 + 0 + 1 + 4 / 5) / 4,
            "valid_worst_group": 0.0,
        }
    )


def test_empty_groups_and_missing_labels_do_not_count() -> None:
    scores = validation_scores(PREDICTION, LABEL, torch.zeros_like(ATTRIBUTE), 4, 3)
    assert scores["valid_worst_class"] == 0.5 and scores["valid_worst_group"] == 0.5
    assert scores["valid_group_balanced"] == pytest.approx((2 / 4 + 5 / 6) / 2)


def test_without_attributes_there_are_no_group_scores() -> None:
    scores = validation_scores(PREDICTION, LABEL, None, 2, 2)
    assert scores.keys() == {"valid_average", "valid_worst_class"}


def test_every_rule_says_which_labels_it_reads() -> None:
    assert LABELS_READ.keys() == set(get_args(Rule))
    for rule, labels in LABELS_READ.items():
        assert reads_attributes([rule]) is ("group" in rule) is ("attribute" in labels)
    assert reads_attributes(["last", "valid_worst_group"]) and not reads_attributes(["last", "valid_average"])


def test_a_rule_takes_the_first_of_the_best_epochs() -> None:
    best: dict[str, Selected] = {}
    scores = {"valid_average": [0.5, 0.7, 0.7, 0.6], "valid_worst_class": [0.2, 0.1, 0.3, 0.3]}
    for epoch in range(4):
        state = {"weight": torch.tensor([float(epoch)])}
        update_best(
            best,
            ["last", *scores],
            {rule: values[epoch] for rule, values in scores.items()},
            epoch + 1,
            state,
        )
    assert {rule: (one.epoch, one.score) for rule, one in best.items()} == {
        "valid_average": (2, 0.7),
        "valid_worst_class": (3, 0.3),
    }
    assert best["valid_average"].state["weight"].tolist() == [1.0]
    assert best["valid_worst_class"].state["weight"].tolist() == [2.0]


def test_weights_that_are_held_do_not_change_with_training() -> None:
    best: dict[str, Selected] = {}
    weight = torch.nn.Parameter(torch.zeros(2))
    update_best(best, ["valid_average"], {"valid_average": 0.5}, 1, {"weight": weight, "extra": {"count": 3}})
    with torch.no_grad():
        weight += 1
    held = best["valid_average"].state
    assert held["weight"].tolist() == [0, 0] and not held["weight"].requires_grad and held["extra"] == {"count": 3}
    assert clone_state({"a": weight})["a"].data_ptr() != weight.data_ptr()


def test_last_holds_nothing() -> None:
    best: dict[str, Selected] = {}
    update_best(best, ["last"], {"valid_average": 1.0}, 1, {})
    assert best == {}


def test_groups_of_their_own_take_the_place_of_label_and_attribute() -> None:
    membership = torch.zeros(10, 3, dtype=torch.bool)
    membership[[0, 1, 2], 0] = True  # two of three right
    membership[[2, 3, 4, 5], 1] = True  # two of four right, one row in both groups
    scores = validation_scores(PREDICTION, LABEL, ATTRIBUTE, 2, 2, membership)
    assert scores["valid_worst_group"] == 0.5
    assert scores["valid_group_balanced"] == pytest.approx((2 / 3 + 2 / 4) / 2)
    assert scores == validation_scores(PREDICTION, LABEL, None, 2, 2, membership)


def test_groups_are_handed_out_to_rules_that_read_attributes_alone(make_table: Any) -> None:
    table = make_table()
    assert scoring_groups(table, ["valid_worst_group"]) is None
    membership = torch.rand(len(table.label), 3) < 0.5
    table = replace(table, scoring=Scoring(membership, ["a"] * 3, ["b"] * 3))
    assert scoring_groups(table, ["last", "valid_average"]) is None
    groups = scoring_groups(table, ["last", "valid_worst_group"])
    assert groups is not None and torch.equal(groups, membership[table.split["valid"]])
