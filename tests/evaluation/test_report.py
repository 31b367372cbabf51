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


def draw_predictions(rows: int, labels: int, attributes: int, seed: int, missing: float = 0.0) -> Predictions:
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


def reference_group_statistics(predictions: Predictions, members: np.ndarray) -> tuple[int, int, list[float]]:
    """Count, correct and margins of a group (N,) bool, by a loop over rows."""
    margins = []
    for row in np.flatnonzero(members):
        logits = predictions.logits[row].tolist()
        margins.append(logits.pop(predictions.label[row]) - max(logits))
    return len(margins), sum(margin > 0 for margin in margins), margins


def approximate_mean(values: list[float]) -> Any:
    return pytest.approx(np.mean(values)) if values else None


@settings(max_examples=25)
@given(
    st.integers(1, 40),
    st.integers(2, 4),
    st.integers(1, 4),
    st.integers(0, 1000),
    st.sampled_from(["all known", "some unknown", "their own, which overlap"]),
)
def test_group_report_equals_a_loop_over_rows(rows: int, labels: int, attributes: int, seed: int, kind: str) -> None:
    predictions = draw_predictions(rows, labels, attributes, seed, 0.4 * (kind == "some unknown"))
    draw = np.random.default_rng(seed)
    table = [sorted({y % attributes, int(draw.integers(attributes))}) for y in range(labels)]
    pairs = [(y, a) for y in range(labels) for a in range(attributes)]
    train = torch.from_numpy(draw.integers(0, 3, (labels, attributes)))
    overlapping = kind == "their own, which overlap"
    if overlapping:
        membership = draw.random((rows, len(pairs))) < 0.3
        names = [(f"y{y}", f"a{a}") for y, a in pairs]
        predictions = replace(predictions, membership=membership, groups=names)
    elif predictions.attribute is not None:
        membership = np.stack([(predictions.label == y) & (predictions.attribute == a) for y, a in pairs], axis=1)
    report = GroupReport.from_predictions(predictions, Correlation.from_table(table, attributes), train)
    right = predictions.prediction == predictions.label
    assert report.average == approximate_mean(right.tolist())
    assert report.worst_class == min(
        approximate_mean(right[predictions.label == label].tolist()).expected for label in {*predictions.label}
    )
    if predictions.attribute is None and not overlapping:
        assert report.group_balanced is None
        return
    statistics = [reference_group_statistics(predictions, members) for members in membership.T]
    for (y, a), group, (count, correct, margins) in zip(
        pairs, report.groups.to_dict("records"), statistics, strict=True
    ):
        assert [group[name] for name in ("label", "attribute", "count", "correct")] == [
            f"y{y}",
            f"a{a}",
            count,
            correct,
        ]
        assert group["minority"] is (None if overlapping else a not in table[y])
        figures = [group[name] for name in ("accuracy", "low", "high", "margin_min", "margin_mean")]
        if count == 0:
            assert all(map(math.isnan, figures))
            continue
        interval = binomtest(correct, count).proportion_ci(0.9, method="wilson")
        expected = [correct / count, interval.low, interval.high, min(margins), sum(margins) / count]
        assert figures == pytest.approx(expected)
    accuracies = [correct / count if count else math.nan for count, correct, _ in statistics]
    assert report.group_balanced == approximate_mean([label for label in accuracies if label == label])
    assert report.worst_group == (pytest.approx(np.nanmin(accuracies)) if any(n for n, _, _ in statistics) else None)
    weight = train.flatten().numpy()
    weighted = np.array(accuracies)[weight > 0] @ weight[weight > 0] / max(1, weight.sum())
    is_defined = not overlapping and weight.any() and not math.isnan(weighted)
    assert report.adjusted_average == (pytest.approx(weighted) if is_defined else None)
    for minority, accuracy, margin in (
        (True, report.minority, report.minority_margin),
        (False, report.majority, report.majority_margin),
    ):
        chosen = np.array([not overlapping and (a not in table[y]) is minority for y, a in pairs])
        assert accuracy == approximate_mean(right[membership[:, chosen].any(1)].tolist())
        assert margin == approximate_mean(
            [min(label[2]) for label, wanted in zip(statistics, chosen, strict=True) if wanted and label[2]]
        )


def test_group_report_without_attributes_has_label_metrics_only() -> None:
    with_attributes = draw_predictions(50, 3, 3, seed=2)
    without_attributes = Predictions(
        with_attributes.index, with_attributes.label, with_attributes.logits, with_attributes.label_names
    )
    block = GroupReport.from_predictions(without_attributes, Correlation.one_to_one(3)).to_dict()
    for name in ("group_balanced", "worst_group", "minority", "majority", "minority_margin", "majority_margin"):
        assert block[name] is None
    assert [group["attribute"] for group in block["groups"]] == [None] * 3
    assert [group["label"] for group in block["groups"]] == list(with_attributes.label_names)
    assert block["worst_class"] == pytest.approx(min(group["accuracy"] for group in block["groups"]))
    assert block["average"] == pytest.approx((with_attributes.prediction == with_attributes.label).mean())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_group_report_of_non_finite_logits_is_strict_json(bad: float) -> None:
    predictions = draw_predictions(12, 2, 2, seed=4)
    predictions.logits[3, 0] = bad
    assert not (math.isnan(bad) and predictions.right[3])
    block = GroupReport.from_predictions(predictions, Correlation.one_to_one(2)).to_dict()
    assert json.loads(json.dumps(block, allow_nan=False)) == block


@settings(max_examples=10)
@given(st.integers(30, 60), st.integers(2, 4), st.integers(0, 999))
def test_f1_calibration_and_auroc_equal_scikit_learn(rows: int, labels: int, seed: int) -> None:
    predictions = draw_predictions(rows, labels, 2, seed, missing=0.3)
    report = GroupReport.from_predictions(predictions)
    label = predictions.label
    probability = predictions.probabilities
    assert report.f1 == pytest.approx(f1_score(label, probability.argmax(1), average="macro"))
    place = np.ceil(15 * probability.max(1))
    right = probability.argmax(1) == label
    gaps = [right[place == index].sum() - probability.max(1)[place == index].sum() for index in range(1, 16)]
    assert report.ece == pytest.approx(np.abs(gaps).sum() / len(label))
    areas = [roc_auc_score(label == index, probability[:, index]) for index in np.unique(label)]
    assert report.auroc == pytest.approx(np.mean(areas))


def compute_confident_share(y_true: np.ndarray, probability: np.ndarray) -> float:
    """A metric of one's own: of the rows of the label, the share that get a probability of more than 0.6."""
    return float((probability[y_true == 1] > 0.6).mean())


REFERENCE_METRICS = {
    "recall": lambda has_label, predicted_label, _: recall_score(has_label, predicted_label),
    "precision": lambda has_label, predicted_label, _: precision_score(
        has_label, predicted_label, zero_division=np.nan
    ),
    "specificity": lambda has_label, predicted_label, _: recall_score(~has_label, ~predicted_label),
    "f1": lambda has_label, predicted_label, _: f1_score(has_label, predicted_label),
    "auroc": lambda has_label, _, probability: roc_auc_score(has_label, probability),
    "sklearn.metrics.matthews_corrcoef": lambda has_label, predicted_label, _: matthews_corrcoef(
        has_label, predicted_label
    ),
    "sklearn.metrics.average_precision_score": lambda has_label, _, probability: average_precision_score(
        has_label, probability
    ),
    "sklearn.metrics.log_loss": lambda has_label, _, probability: log_loss(
        has_label, probability, labels=[False, True]
    ),
    compute_confident_share: lambda has_label, _, probability: (probability[has_label] > 0.6).mean(),
}


@pytest.mark.parametrize("with_attributes", [True, False])
def test_metrics_per_group_equal_references_one_label_against_the_others(with_attributes: bool) -> None:
    rows = draw_predictions(150, 3, 2, seed=5)
    if not with_attributes:
        rows = Predictions(rows.index, rows.label, rows.logits, rows.label_names)
    frame = GroupReport.from_predictions(rows, metrics=list(REFERENCE_METRICS)).groups
    assert len(frame) == (6 if with_attributes else 3)
    for group in frame.to_dict("records"):
        in_attribute_group = np.full(150, True)
        if with_attributes:
            assert rows.attribute is not None
            in_attribute_group = rows.attribute == list(rows.attribute_names).index(group["attribute"])
        label = list(rows.label_names).index(group["label"])
        has_label = rows.label[in_attribute_group] == label
        predicted_label = rows.prediction[in_attribute_group] == label
        for metric, reference in REFERENCE_METRICS.items():
            name = "compute_confident_share" if callable(metric) else metric.rpartition(".")[2]
            expected = reference(has_label, predicted_label, rows.probabilities[in_attribute_group, label])
            assert group[name] == pytest.approx(expected, nan_ok=True), name
    assert frame["recall"].tolist() == pytest.approx(frame["accuracy"].tolist(), nan_ok=True)


def test_undefined_metric_is_nan_and_failing_metric_is_named() -> None:
    rows = Predictions(range(3), [0, 0, 1], [[2.0, 1.0]] * 3, ["a", "b"], [0, 1, 1], ["x", "y"])
    groups = GroupReport.from_predictions(rows, metrics=["auroc", "sklearn.metrics.roc_auc_score"]).groups
    assert groups["auroc"].isna().tolist() == groups["roc_auc_score"].isna().tolist() == [True, False, True, False]

    def overwriting(y_true: np.ndarray, y_pred: np.ndarray) -> float:
        y_true[:] = y_pred[:] = 1
        return 0.5

    groups = GroupReport.from_predictions(rows, metrics=[overwriting, "recall"]).groups
    np.testing.assert_array_equal(groups["recall"], groups["accuracy"])

    def broken(y_true: np.ndarray, y_pred: np.ndarray) -> float:
        raise KeyError("nothing")

    for metrics, message in (([broken], "broken"), (["recal"], "recall"), (["math.pi"], "math.pi"), (["a.b"], "a.b")):
        with pytest.raises(InputError, match=message):
            GroupReport.from_predictions(rows, metrics=metrics)
