from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import f1_score, roc_auc_score

from logit_correction.correlation import Correlation
from logit_correction.evaluation import GroupReport, Predictions


def made(rows: int, labels: int, attributes: int, seed: int, missing: float = 0.0) -> Predictions:
    """Random predictions; a share ``missing`` of the attributes is unknown."""
    draw = np.random.default_rng(seed)
    attribute = draw.integers(0, attributes, rows)
    attribute[draw.random(rows) < missing] = -1
    return Predictions(
        index=draw.permutation(rows),
        label=draw.integers(0, labels, rows),
        attribute=attribute,
        logits=draw.normal(size=(rows, labels)),
        label_names=[f"y{i}" for i in range(labels)],
        attribute_names=[f"a{i}" for i in range(attributes)],
    )


def by_hand(predictions: Predictions, label: int, attribute: int) -> tuple[int, int, list[float]]:
    """Count, correct and margins of a group, by a loop over rows."""
    count, correct, margins = 0, 0, []
    for row in range(len(predictions)):
        if predictions.label[row] != label or predictions.attribute[row] != attribute:  # type: ignore[index]
            continue
        logits = predictions.logits[row].tolist()
        own = logits.pop(label)
        count, correct = count + 1, correct + (own > max(logits))
        margins.append(own - max(logits))
    return count, correct, margins


@settings(max_examples=20)
@given(
    st.integers(1, 40),
    st.integers(2, 4),
    st.integers(1, 4),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.4]),
)
def test_every_figure_agrees_with_a_loop(rows: int, labels: int, attributes: int, seed: int, missing: float) -> None:
    predictions = made(rows, labels, attributes, seed, missing)
    report = GroupReport.from_predictions(predictions)
    right = predictions.prediction == predictions.label
    assert report.average == pytest.approx(right.mean())
    of_labels = [right[predictions.label == one].mean() for one in set(predictions.label)]
    assert report.worst_class == pytest.approx(min(of_labels))
    if predictions.attribute is None:
        assert report.group_balanced is None
        return
    accuracies = []
    for number, group in enumerate(report.groups.to_dict("records")):
        y, a = divmod(number, attributes)
        assert (group["label"], group["attribute"]) == (f"y{y}", f"a{a}")
        count, correct, margins = by_hand(predictions, y, a)
        assert (group["count"], group["correct"]) == (count, correct)
        if count == 0:
            figures = ("accuracy", "low", "high", "margin_min", "margin_mean")
            assert all(math.isnan(group[name]) for name in figures)
            continue
        accuracies.append(correct / count)
        assert group["accuracy"] == pytest.approx(correct / count)
        interval = binomtest(correct, count).proportion_ci(0.9, method="wilson")
        assert (group["low"], group["high"]) == pytest.approx((interval.low, interval.high))
        assert group["margin_min"] == pytest.approx(min(margins))
        assert group["margin_mean"] == pytest.approx(sum(margins) / count)
    assert report.group_balanced == pytest.approx(sum(accuracies) / len(accuracies))
    assert report.worst_group == pytest.approx(min(accuracies))


@pytest.mark.parametrize("table", [[[0], [1], [2]], [[0], [0], [1, 2]]])
def test_minority_and_majority_count_rows_and_average_group_margins(table: list[list[int]]) -> None:
    predictions, correlation = made(200, 3, 3, seed=5), Correlation.from_table(table)
    report = GroupReport.from_predictions(predictions, correlation)
    right = predictions.prediction == predictions.label
    pairs = zip(predictions.label, predictions.attribute, strict=True)  # type: ignore[arg-type]
    minority = np.array([a not in table[y] for y, a in pairs])
    assert report.minority == pytest.approx(right[minority].mean())
    assert report.majority == pytest.approx(right[~minority].mean())
    least = {(y, a): min(by_hand(predictions, y, a)[2]) for y in range(3) for a in range(3)}
    rare = [value for (y, a), value in least.items() if a not in table[y]]
    common = [value for (y, a), value in least.items() if a in table[y]]
    assert report.minority_margin == pytest.approx(np.mean(rare))
    assert report.majority_margin == pytest.approx(np.mean(common))
    flags = [a not in table[y] for y in range(3) for a in range(3)]
    assert report.groups["minority"].tolist() == flags


def test_unknown_attributes_leave_group_figures_out_and_labels_in() -> None:
    known = made(50, 3, 3, seed=2)
    unknown = Predictions(known.index, known.label, known.logits, known.label_names)
    block = GroupReport.from_predictions(unknown, Correlation.one_to_one(3)).to_dict()
    for name in ("group_balanced", "worst_group", "minority", "majority", "minority_margin", "majority_margin"):
        assert block[name] is None
    assert [group["attribute"] for group in block["groups"]] == [None] * 3
    assert [group["label"] for group in block["groups"]] == list(known.label_names)
    assert block["worst_class"] == pytest.approx(min(group["accuracy"] for group in block["groups"]))
    assert block["average"] == pytest.approx((known.prediction == known.label).mean())
    assert block["by_attribute"] == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_still_give_strict_json(bad: float) -> None:
    predictions = made(12, 2, 2, seed=4)
    predictions.logits[3, 0] = bad
    block = GroupReport.from_predictions(predictions, Correlation.one_to_one(2)).to_dict()
    assert json.loads(json.dumps(block, allow_nan=False)) == block


def test_groups_of_their_own_are_judged_in_place_of_label_and_attribute() -> None:
    draw = np.random.default_rng(5)
    plain = made(200, 2, 2, seed=5)
    membership = draw.random((200, 16)) < 0.3
    membership[:, 7] = False  # an empty group
    names = [(f"y{i // 8}", f"group {i % 8}") for i in range(16)]
    report = GroupReport.from_predictions(replace(plain, membership=membership, groups=names))
    right = plain.prediction == plain.label
    expected = [float(right[rows].mean()) if rows.any() else math.nan for rows in membership.T]
    np.testing.assert_allclose(report.groups["accuracy"], expected)
    assert report.groups["count"].tolist() == membership.sum(0).tolist()
    assert list(zip(report.groups["label"], report.groups["attribute"], strict=True)) == names
    assert report.worst_group == pytest.approx(np.nanmin(expected))
    assert report.group_balanced == pytest.approx(np.nanmean(expected))
    assert report.average == pytest.approx(right.mean()) and report.minority is None


def test_the_adjusted_average_weights_groups_by_their_training_rows() -> None:
    predictions = made(300, 2, 3, seed=7)
    train = torch.tensor([[70, 0, 5], [3, 20, 2]])
    report = GroupReport.from_predictions(predictions, train_counts=train)
    weighted = 0.0
    for label in range(2):
        for attribute in range(3):
            count, correct, _ = by_hand(predictions, label, attribute)
            weighted += int(train[label, attribute]) / 100 * correct / count
    assert report.adjusted_average == pytest.approx(weighted)
    assert report.to_dict()["adjusted_average"] == report.adjusted_average
    assert GroupReport.from_predictions(predictions).adjusted_average is None
    none = replace(predictions, attribute=np.zeros(300, int))  # groups of training without rows here
    assert GroupReport.from_predictions(none, train_counts=train).adjusted_average is None


@settings(max_examples=10)
@given(st.integers(30, 60), st.integers(2, 4), st.integers(0, 999))
def test_by_attribute_as_scikit_learn_has_it(rows: int, labels: int, seed: int) -> None:
    predictions = made(rows, labels, 2, seed, missing=0.3)
    report = GroupReport.from_predictions(predictions)
    parts = {"a0": predictions.attribute == 0, "a1": predictions.attribute == 1, None: np.ones(rows, dtype=bool)}
    found = {row["attribute"]: row for row in report.by_attribute.to_dict("records")}
    found[None] = {"count": rows, "accuracy": report.average} | {n: getattr(report, n) for n in ("auroc", "f1", "ece")}
    for name, own in parts.items():
        label, probability = predictions.label[own], predictions.probabilities[own]
        assert found[name]["count"] == own.sum()
        if own.any():
            assert found[name]["f1"] == pytest.approx(f1_score(label, probability.argmax(1), average="macro"))
            place, right = np.ceil(15 * probability.max(1)), probability.argmax(1) == label
            gaps = [right[place == one].sum() - probability.max(1)[place == one].sum() for one in range(1, 16)]
            assert found[name]["ece"] == pytest.approx(np.abs(gaps).sum() / len(label))
        if len(present := np.unique(label)) > 1:  # labels that no row has take no part
            areas = [roc_auc_score(label == one, probability[:, one]) for one in present]
            assert found[name]["auroc"] == pytest.approx(np.mean(areas))
