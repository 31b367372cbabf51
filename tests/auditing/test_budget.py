"""The sheet: how the budget is spent, and that estimates and intervals from it hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction.auditing.budget import Population, allocation, drawn, group_accuracies, judge_by_person, sheet

NAMES = ["a", "b", "c"]


def population(count: int = 1500, seed: int = 0) -> tuple[Population, np.ndarray]:
    """Rows of which one in twenty conflicts: the classifier is right in a third of those, and the score knows most."""
    generator = np.random.default_rng(seed)
    label = generator.integers(0, 3, count)
    conflicts = generator.random(count) < 0.05
    right = generator.random(count) < np.where(conflicts, 0.35, 0.95)
    score = np.clip(np.where(conflicts, 0.85, 0.05) + generator.normal(0, 0.15, count), 0.001, 0.999)
    return Population(np.arange(count), label, right, score, 3), conflicts


@given(budget=st.integers(20, 400), seed=st.integers(0, 5))
@settings(max_examples=25)
def test_the_budget_is_spent_and_no_stratum_is_asked_for_more_than_it_has(budget: int, seed: int) -> None:
    rows, _ = population(300, seed)
    given_rows = allocation(rows, budget)
    assert given_rows.sum() == min(budget, 300)
    assert (given_rows <= rows.sizes).all() and (given_rows >= np.minimum(rows.sizes, 2)).all()
    places = drawn(rows, given_rows, np.random.default_rng(seed))
    assert len(set(places.tolist())) == len(places) == given_rows.sum()
    assert np.bincount(rows.stratum[places], minlength=len(given_rows)).tolist() == given_rows.tolist()


def test_who_looks_at_every_row_knows_every_accuracy() -> None:
    rows, conflicts = population(200)
    found = group_accuracies(rows, np.arange(200), conflicts)
    for group in found["groups"]:
        own = (conflicts == group["conflicting"]) & (True if group["label"] is None else rows.label == group["label"])
        assert group["rows"] == pytest.approx(own.sum())
        assert group["accuracy"] == pytest.approx(rows.right[own].mean())
        assert group["low"] == pytest.approx(rows.right[own].mean()) == pytest.approx(group["high"])


def test_the_weights_make_the_estimate_unbiased_and_the_interval_covers() -> None:
    rows, conflicts = population()
    truth = rows.right[conflicts].mean()
    given_rows, generator = allocation(rows, 100), np.random.default_rng(1)
    found = []
    for turn in range(40):
        places = drawn(rows, given_rows, generator)
        found.append(group_accuracies(rows, places, conflicts[places], turn)["groups"][1])
    group = pd.DataFrame(found)
    assert abs(group["accuracy"].mean() - truth) < 0.05
    assert ((group["low"] <= truth) & (truth <= group["high"])).sum() >= 34
    # A hundred rows at random hold five conflicting ones, of which an interval of 90 % is about 0.6 wide.
    assert (group["high"] - group["low"]).mean() < 0.35


def test_a_classifier_that_was_asked_about_fewer_rows_is_judged_by_those_of_the_sheet_among_them(
    tmp_path: Path,
) -> None:
    names = np.asarray(NAMES, dtype=object)
    rows, conflicts = population(900)
    label, judged = names[rows.label], (np.arange(900) % 3 == 0) & (rows.label != 2)  # one of three, and none of c
    said = np.where(rows.right, label, names[(rows.label + 1) % 3])
    audited = pd.DataFrame({"row": rows.row, "label": label, "score": rows.score, "network_label": said})
    audited["fixed_label"] = audited["label"].where(judged, None)
    answers = sheet(audited, NAMES, 120, seed=0)
    assert sheet(audited, NAMES, 120, seed=0).equals(answers) and not sheet(audited, NAMES, 120, seed=1).equals(answers)
    looks = names[(rows.label[answers["row"]] + conflicts[answers["row"]]) % 3]
    answers.assign(attribute=looks).to_csv(tmp_path / "sheet.csv", index=False)
    found = judge_by_person(audited, tmp_path / "sheet.csv", NAMES, 0, "ERM")
    assert found["network"]["looked_at"] == 120
    assert found["fixed"]["looked_at"] == judged[answers["row"]].sum() > 0
    assert found["fixed"]["groups"][1]["accuracy"] == 1.0
    sides = [[(one["label"], one["conflicting"]) for one in found[who]["groups"]] for who in ("network", "fixed")]
    assert sides[0] == sides[1]  # the page puts them side by side
