from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    log_loss,
    matthews_corrcoef,
    precision_score,
    recall_score,
    roc_auc_score,
)

from logit_correction.errors import InputError
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import GroupReport
from logit_correction.types import Correlation


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


def by_hand(predictions: Predictions, members: np.ndarray) -> tuple[int, int, list[float]]:
    """Count, correct and margins of a group (N,) bool, by a loop over rows."""
    margins = []
    for row in np.flatnonzero(members):
        logits = predictions.logits[row].tolist()
        margins.append(logits.pop(predictions.label[row]) - max(logits))
    return len(margins), sum(margin > 0 for margin in margins), margins


def mean(values: list[float]) -> Any:
    return pytest.approx(np.mean(values)) if values else None


@settings(max_examples=25)
@given(
    st.integers(1, 40),
    st.integers(2, 4),
    st.integers(1, 4),
    st.integers(0, 1000),
    st.sampled_from(["all known", "some unknown", "their own, which overlap"]),
)
def test_every_figure_agrees_with_a_loop(rows: int, labels: int, attributes: int, seed: int, kind: str) -> None:
    predictions = made(rows, labels, attributes, seed, 0.4 * (kind == "some unknown"))
    draw = np.random.default_rng(seed)
    table = [sorted({y % attributes, int(draw.integers(attributes))}) for y in range(labels)]
    pairs = [(y, a) for y in range(labels) for a in range(attributes)]
    train = torch.from_numpy(draw.integers(0, 3, (labels, attributes)))
    own = kind == "their own, which overlap"
    if own:
        membership = draw.random((rows, len(pairs))) < 0.3
        names = [(f"y{y}", f"a{a}") for y, a in pairs]
        predictions = replace(predictions, membership=membership, groups=names)
    elif predictions.attribute is not None:
        membership = np.stack([(predictions.label == y) & (predictions.attribute == a) for y, a in pairs], axis=1)
    report = GroupReport.from_predictions(predictions, Correlation.from_table(table, attributes), train)
    right = predictions.prediction == predictions.label
    assert report.average == mean(right.tolist())
    assert report.worst_class == min(
        mean(right[predictions.label == one].tolist()).expected for one in {*predictions.label}
    )
    if predictions.attribute is None and not own:
        assert report.group_balanced is None
        return
    found = [by_hand(predictions, members) for members in membership.T]
    for (y, a), group, (count, correct, margins) in zip(pairs, report.groups.to_dict("records"), found, strict=True):
        assert [group[name] for name in ("label", "attribute", "count", "correct")] == [
            f"y{y}",
            f"a{a}",
            count,
            correct,
        ]
        assert group["minority"] is (None if own else a not in table[y])
        figures = [group[name] for name in ("accuracy", "low", "high", "margin_min", "margin_mean")]
        if count == 0:
            assert all(map(math.isnan, figures))
            continue
        interval = binomtest(correct, count).proportion_ci(0.9, method="wilson")
        expected = [correct / count, interval.low, interval.high, min(margins), sum(margins) / count]
        assert figures == pytest.approx(expected)
    accuracies = [correct / count if count else math.nan for count, correct, _ in found]
    assert report.group_balanced == mean([one for one in accuracies if one == one])
    assert report.worst_group == (pytest.approx(np.nanmin(accuracies)) if any(n for n, _, _ in found) else None)
    weight = train.flatten().numpy()
    weighted = np.array(accuracies)[weight > 0] @ weight[weight > 0] / max(1, weight.sum())
    known = not own and weight.any() and not math.isnan(weighted)
    assert report.adjusted_average == (pytest.approx(weighted) if known else None)
    for minority, accuracy, margin in (
        (True, report.minority, report.minority_margin),
        (False, report.majority, report.majority_margin),
    ):
        chosen = np.array([not own and (a not in table[y]) is minority for y, a in pairs])
        assert accuracy == mean(right[membership[:, chosen].any(1)].tolist())
        assert margin == mean([min(one[2]) for one, wanted in zip(found, chosen, strict=True) if wanted and one[2]])


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


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_still_give_strict_json(bad: float) -> None:
    predictions = made(12, 2, 2, seed=4)
    predictions.logits[3, 0] = bad
    block = GroupReport.from_predictions(predictions, Correlation.one_to_one(2)).to_dict()
    assert json.loads(json.dumps(block, allow_nan=False)) == block


@settings(max_examples=10)
@given(st.integers(30, 60), st.integers(2, 4), st.integers(0, 999))
def test_figures_of_all_rows_as_scikit_learn_has_them(rows: int, labels: int, seed: int) -> None:
    predictions = made(rows, labels, 2, seed, missing=0.3)
    report = GroupReport.from_predictions(predictions)
    label = predictions.label
    probability = predictions.probabilities
    assert report.f1 == pytest.approx(f1_score(label, probability.argmax(1), average="macro"))
    place = np.ceil(15 * probability.max(1))
    right = probability.argmax(1) == label
    gaps = [right[place == one].sum() - probability.max(1)[place == one].sum() for one in range(1, 16)]
    assert report.ece == pytest.approx(np.abs(gaps).sum() / len(label))
    areas = [roc_auc_score(label == one, probability[:, one]) for one in np.unique(label)]
    assert report.auroc == pytest.approx(np.mean(areas))


def share_of_sure(y_true: np.ndarray, probability: np.ndarray) -> float:
    """A metric of one's own: of the rows of the label, the share that get a probability of more than 0.6."""
    return float((probability[y_true == 1] > 0.6).mean())


OWN = {
    "recall": lambda own, said, _: recall_score(own, said),
    "precision": lambda own, said, _: precision_score(own, said, zero_division=np.nan),
    "specificity": lambda own, said, _: recall_score(~own, ~said),
    "f1": lambda own, said, _: f1_score(own, said),
    "auroc": lambda own, _, probability: roc_auc_score(own, probability),
    "sklearn.metrics.matthews_corrcoef": lambda own, said, _: matthews_corrcoef(own, said),
    "sklearn.metrics.average_precision_score": lambda own, _, probability: average_precision_score(own, probability),
    "sklearn.metrics.log_loss": lambda own, _, probability: log_loss(own, probability, labels=[False, True]),
    share_of_sure: lambda own, _, probability: (probability[own] > 0.6).mean(),
}


@pytest.mark.parametrize("named", [True, False])
def test_any_metric_of_a_label_against_the_others_at_each_attribute(named: bool) -> None:
    rows = made(150, 3, 2, seed=5)
    if not named:
        rows = Predictions(rows.index, rows.label, rows.logits, rows.label_names)
    frame = GroupReport.from_predictions(rows, metrics=list(OWN)).groups
    assert len(frame) == (6 if named else 3)
    for group in frame.to_dict("records"):
        there = np.full(150, True)
        if named:
            assert rows.attribute is not None
            there = rows.attribute == list(rows.attribute_names).index(group["attribute"])
        label = list(rows.label_names).index(group["label"])
        own = rows.label[there] == label
        said = rows.prediction[there] == label
        for metric, reference in OWN.items():
            name = "share_of_sure" if callable(metric) else metric.rpartition(".")[2]
            expected = reference(own, said, rows.probabilities[there, label])
            assert group[name] == pytest.approx(expected, nan_ok=True), name
    assert frame["recall"].tolist() == pytest.approx(frame["accuracy"].tolist(), nan_ok=True)


def test_a_metric_that_is_not_defined_is_nan_and_one_that_fails_is_named() -> None:
    rows = Predictions(range(3), [0, 0, 1], [[2.0, 1.0]] * 3, ["a", "b"], [0, 1, 1], ["x", "y"])
    groups = GroupReport.from_predictions(rows, metrics=["auroc", "sklearn.metrics.roc_auc_score"]).groups
    assert groups["auroc"].isna().tolist() == groups["roc_auc_score"].isna().tolist() == [True, False, True, False]

    def broken(y_true: np.ndarray, y_pred: np.ndarray) -> float:
        raise KeyError("nothing")

    for metrics, told in (([broken], "broken"), (["recal"], "recall"), (["math.pi"], "math.pi"), (["a.b"], "a.b")):
        with pytest.raises(InputError, match=told):
            GroupReport.from_predictions(rows, metrics=metrics)
