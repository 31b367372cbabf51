from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction.auditing.budget import Population, allocation, drawn, group_accuracies, read_labels, sheet
from logit_correction.errors import InputError


def population(count: int = 1500, seed: int = 0, informed: bool = True) -> tuple[Population, np.ndarray]:
    """Rows of which one in twenty conflicts: the classifier is right in a third of those, and the score knows most."""
    generator = np.random.default_rng(seed)
    label = generator.integers(0, 3, count)
    conflicts = generator.random(count) < 0.05
    right = generator.random(count) < np.where(conflicts, 0.35, 0.95)
    noise = generator.normal(0, 0.15, count)
    score = np.clip(np.where(conflicts, 0.85, 0.05) + noise, 0.001, 0.999) if informed else np.full(count, 0.5)
    return Population(np.arange(count), label, right, score, 3), conflicts


@given(budget=st.integers(20, 400), seed=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
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
    estimates, covered, widths = [], 0, []
    for turn in range(100):
        places = drawn(rows, given_rows, generator)
        group = group_accuracies(rows, places, conflicts[places], turn)["groups"][1]
        estimates.append(group["accuracy"])
        covered += group["low"] <= truth <= group["high"]
        widths.append(group["high"] - group["low"])
    assert abs(np.mean(estimates) - truth) < 0.05
    assert covered >= 85
    # A hundred rows at random hold five conflicting ones, of which an interval of 90 % is about 0.6 wide.
    assert np.mean(widths) < 0.35


def frame(rows: Population) -> pd.DataFrame:
    names = np.asarray(["a", "b", "c"], dtype=object)
    other = names[(rows.label + 1) % 3]
    return pd.DataFrame(
        {
            "row": rows.row,
            "label": names[rows.label],
            "attribute": names[rows.label],
            "score": rows.score,
            "network_label": np.where(rows.right, names[rows.label], other),
        }
    )


def test_a_classifier_that_was_asked_about_fewer_rows_is_judged_by_those_of_the_sheet_among_them(
    tmp_path: Path,
) -> None:
    names = ["a", "b", "c"]
    rows, conflicts = population(900)
    judged = (np.arange(900) % 3 == 0) & (rows.label != 2)  # LC judged one row of three, and none of label c
    audited = frame(rows)
    audited["fixed_label"] = audited["label"].where(judged, None)
    answers = sheet(audited, names, 120, seed=0)
    wrong = conflicts[answers["row"]]
    looks = np.asarray(names, dtype=object)[(rows.label[answers["row"]] + wrong) % 3]
    answers.assign(attribute=looks).to_csv(tmp_path / "sheet.csv", index=False)
    found = read_labels(audited, tmp_path / "sheet.csv", names, 0, "ordinary classifier")
    assert found["network"]["looked_at"] == 120
    assert found["fixed"]["looked_at"] == judged[answers["row"]].sum() > 0
    assert found["fixed"]["groups"][1]["accuracy"] == 1.0
    sides = [[(one["label"], one["conflicting"]) for one in found[who]["groups"]] for who in ("network", "fixed")]
    assert sides[0] == sides[1]  # the page puts them side by side
    # Where LC judged none of the rows that were answered, nothing is said of it.
    few = answers.assign(attribute=looks)[~judged[answers["row"]]]
    few.to_csv(tmp_path / "sheet.csv", index=False)
    assert "fixed" not in read_labels(audited, tmp_path / "sheet.csv", names, 0, "ordinary classifier")


def test_a_sheet_names_rows_once_and_leaves_the_answer_open() -> None:
    rows, _ = population(300)
    found = sheet(frame(rows), ["a", "b", "c"], 40, seed=0)
    assert len(found) == 40 and found["row"].is_unique and (found["attribute"] == "").all()
    assert sheet(frame(rows), ["a", "b", "c"], 40, seed=0).equals(found)
    assert not sheet(frame(rows), ["a", "b", "c"], 40, seed=1).equals(found)
    with pytest.raises(InputError, match="each needs two rows"):
        sheet(frame(rows), ["a", "b", "c"], 3, seed=0)
