"""AUROC, F1 and calibration error against scikit-learn and torchmetrics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, roc_auc_score

from logit_correction import GroupReport, Predictions


def made(rows: int, labels: int, seed: int) -> Predictions:
    draw = np.random.default_rng(seed)
    label = draw.integers(0, labels, rows)
    return Predictions(
        index=np.arange(rows),
        label=label,
        attribute=draw.integers(-1, 2, rows),
        logits=draw.normal(size=(rows, labels)) + 1.5 * np.eye(labels)[label],
        label_names=[f"y{i}" for i in range(labels)],
        attribute_names=["a", "b"],
    )


@settings(deadline=None, max_examples=20)
@given(st.integers(30, 60), st.integers(2, 4), st.integers(0, 999))
def test_by_attribute_as_scikit_learn_and_torchmetrics_have_it(rows: int, labels: int, seed: int) -> None:
    classification = pytest.importorskip("torchmetrics.functional.classification")
    predictions = made(rows, labels, seed)
    report = GroupReport.from_predictions(predictions)
    parts = {"a": predictions.attribute == 0, "b": predictions.attribute == 1, None: np.ones(rows, dtype=bool)}
    found = {row["attribute"]: row for row in report.by_attribute.to_dict("records")}
    found[None] = {"count": rows, "accuracy": report.average} | {n: getattr(report, n) for n in ("auroc", "f1", "ece")}
    for name, own in parts.items():
        label, probability = predictions.label[own], predictions.probabilities[own]
        assert found[name]["count"] == own.sum()
        if own.any():
            assert found[name]["f1"] == pytest.approx(f1_score(label, probability.argmax(1), average="macro"))
            error = classification.multiclass_calibration_error(torch.tensor(probability), torch.tensor(label), labels)
            assert found[name]["ece"] == pytest.approx(float(error), abs=1e-6)
        if len(np.unique(label)) == labels:
            scores = probability[:, 1] if labels == 2 else probability
            assert found[name]["auroc"] == pytest.approx(roc_auc_score(label, scores, multi_class="ovr"))


def test_labels_that_no_row_has_take_no_part_in_auroc() -> None:
    predictions = Predictions(
        index=range(4), label=[0, 0, 1, 1], attribute=[0, 0, 0, 0], attribute_names=["a"], label_names=["0", "1", "2"],
        logits=[[2.0, 0.0, 9.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [3.0, 0.0, 0.0]],
    )  # fmt: skip
    report = GroupReport.from_predictions(predictions)
    probability = predictions.probabilities
    expected = [roc_auc_score(predictions.label == one, probability[:, one]) for one in (0, 1)]
    assert report.auroc == pytest.approx(np.mean(expected))
    assert report.by_attribute["auroc"][0] == pytest.approx(np.mean(expected))


def test_what_is_not_defined_is_null() -> None:
    predictions = Predictions(
        index=range(3), label=[0, 0, 1], attribute=[0, 0, -1], attribute_names=["one label", "empty"],
        label_names=["0", "1"], logits=[[1.0, 0.0]] * 3,
    )  # fmt: skip
    block = GroupReport.from_predictions(predictions).to_dict()
    one, empty = block["by_attribute"]
    assert one == {"attribute": "one label", "count": 2, "accuracy": 1.0, "auroc": None, "f1": 1.0, "ece": one["ece"]}
    assert one["ece"] == pytest.approx(1 - math.e / (1 + math.e))
    assert empty == {"attribute": "empty", "count": 0, **dict.fromkeys(("accuracy", "auroc", "f1", "ece"))}
    assert block["auroc"] == 0.5
    assert [group["ece"] is None for group in block["groups"]] == [False, True, True, True]


def test_without_attributes_only_all_rows_together() -> None:
    predictions = Predictions(index=[0, 1], label=[0, 1], logits=[[1.0, 0.0], [0.0, 1.0]], label_names=["0", "1"])
    block = GroupReport.from_predictions(predictions).to_dict()
    assert block["by_attribute"] == [] and block["auroc"] == 1.0 and block["f1"] == 1.0


def test_groups_of_their_own_are_put_together_by_attribute() -> None:
    predictions = Predictions(
        index=range(4), label=[0, 1, 0, 1], logits=[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
        label_names=["0", "1"], groups=[("0", "x"), ("1", "x"), ("0", "y")],
        membership=[[1, 0, 1], [0, 1, 0], [0, 0, 1], [0, 0, 0]],
    )  # fmt: skip
    found = GroupReport.from_predictions(predictions).by_attribute.set_index("attribute")
    assert found["count"].to_dict() == {"x": 2, "y": 2}
    assert found["accuracy"].to_dict() == {"x": 0.5, "y": 1.0}
