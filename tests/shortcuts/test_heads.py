"""Heads on features: as scikit-learn fits them, of rows that they never saw, and the same after a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from torch import Tensor

from logit_correction import Auto
from logit_correction.attributes.base import select_attribute
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.shortcuts.heads import (
    cross_fit,
    fit_logistic_head,
    relabel_conflicting_rows,
    standardize,
)
from logit_correction.types import Correlation, TrainingRows
from logit_correction_lab.sources.planted import Planted

from ..attributes.conftest import attach_estimator, train_estimator
from ..conftest import save_and_load

VIEW = "column:form_version"


def draw_planted_rows(rows: int = 400, num_labels: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Features that are informative of the attribute, and a little of the label; labels; attributes."""
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(rows) % num_labels
    attribute = torch.where(torch.rand(rows, generator=generator) < 0.1, (label + 1) % num_labels, label)
    features = torch.randn(rows, 4, generator=generator)
    features[:, 0] += 4 * attribute
    return standardize(features, *torch.std_mean(features, dim=0)), label, attribute


@pytest.mark.parametrize("num_labels", [2, 3])
def test_logistic_head_equals_scikit_learn_and_selects_features(num_labels: int) -> None:
    features, label, _ = draw_planted_rows(120, num_labels)
    fold = torch.randperm(120, generator=torch.Generator().manual_seed(1)) % 3
    model = LogisticRegression(C=1.0, max_iter=300, tol=1e-3)
    splits = PredefinedSplit(fold.numpy())
    expected = cross_val_predict(model, features.numpy(), label.numpy(), cv=splits, method="predict_proba")
    for number in range(3):
        rows = fold == number
        probability = fit_logistic_head(features[~rows], label[~rows], num_labels)(features[rows])
        torch.testing.assert_close(
            probability.double(), torch.from_numpy(expected[rows.numpy()]).double(), atol=1e-5, rtol=1e-4
        )
        columns = fit_logistic_head(features[~rows], label[~rows], num_labels, max_per_label=1).columns.tolist()
        assert 0 in columns and len(columns) <= num_labels


@pytest.mark.parametrize("linear", [False, True], ids=["hidden layer", "linear"])
def test_cross_fit_predicts_a_row_by_heads_that_never_saw_it(linear: bool) -> None:
    features, label, _ = draw_planted_rows(100)
    state = torch.get_rng_state()
    plain, heads = cross_fit(features, label, 2, linear, None, num_splits=1, seed=3)
    changed_label = label.clone()
    changed_label[57] = 1 - label[57]
    predictions_after_change = cross_fit(features, changed_label, 2, linear, None, num_splits=1, seed=3)[0]
    assert torch.equal(plain[57], predictions_after_change[57]) and not torch.equal(
        plain, predictions_after_change
    )  # others are predicted by it
    assert torch.equal(torch.get_rng_state(), state) and len(heads) == 2
    head_predictions = torch.stack(
        [head(features) for head in heads]
    )  # a row's is that of the head which did not see it
    assert float((head_predictions - plain).abs().amax(2).amin(0).max()) < 1e-5


def test_relabeling_and_minority_depend_on_the_odds() -> None:
    probability = torch.tensor([[0.9, 0.05, 0.05], [0.2, 0.7, 0.1], [0.05, 0.9, 0.05], [0.01, 0.0, 0.99]])
    label = torch.tensor([1, 0, 1, 0])
    one_to_one = Correlation.one_to_one(3)
    assert relabel_conflicting_rows(probability, label).tolist() == [0, 0, 1, 2]
    for odds, expected in ((10, [0, 0, 1, 2]), (1, [0, 1, 1, 2]), (1e3, [1, 0, 1, 0])):
        assert select_attribute(probability, label, one_to_one, odds).tolist() == expected
    several = Correlation.from_table([[0, 1], [2], [2]])  # values 0 and 1 are aligned with label 0: neither needs odds
    assert select_attribute(probability, label, several, 1e3).tolist() == [2, 1, 2, 0]


# In an estimator


def test_auto_needs_the_view_inputs_of_all_rows(table: DataTable) -> None:
    estimator = attach_estimator(Auto(shortcut=["my_parts.Tail"]), table)
    with pytest.raises(InputError, match=r"give TrainingRows\.view_inputs"):
        estimator.setup(TrainingRows(table.label[table.split["train"]]))


# Rows that were not trained on


@pytest.fixture(scope="module")
def table() -> DataTable:
    return Planted(set="column", rows=1000, minority_ratio=0.1).build()


def predict_split(estimator: Any, table: DataTable, split: str = "test") -> Tensor:
    attribute = estimator.eval().predict_attributes(table.label[table.split[split]], table.view_inputs(split))
    assert attribute is not None and attribute.shape == (len(table.split[split]),)
    return attribute


def test_heads_predict_test_attributes_also_after_a_checkpoint(table: DataTable) -> None:
    estimator = train_estimator(Auto(shortcut=[VIEW]), table)
    predicted = predict_split(estimator, table)
    truth = table.attribute[table.split["test"]]
    assert float((predicted == truth).double().mean()) > 0.97  # though labels alone agree with it in half of the rows
    restored = attach_estimator(Auto(shortcut=[VIEW]), table)
    restored.load_state_dict(save_and_load(estimator.state_dict()))
    assert torch.equal(predict_split(restored, table), predicted)
    assert torch.equal(
        predict_split(restored, replace(table, attribute=table.attribute.flip(0))), predicted
    )  # labels are not read


def test_heads_of_another_version_are_refused_and_missing_heads_predict_nothing(table: DataTable) -> None:
    state = save_and_load(train_estimator(Auto(shortcut=[VIEW]), table).state_dict())
    fresh = attach_estimator(Auto(shortcut=[VIEW]), table)
    for change in ({"views": [{"family": "my_parts.Tail", "values": {}}]}, {"heads": [{"columns": 0}]}, {"more": 1}):
        forged = {
            **state,
            "_extra_state": {**state["_extra_state"], "kept": [state["_extra_state"]["kept"][0] | change]},
        }
        with pytest.raises(InputError, match="of another version: train again"):
            fresh.load_state_dict(forged)
    state["_extra_state"]["kept"] = []
    fresh.load_state_dict(state)
    assert fresh.predict_attributes(table.label[table.split["test"]], table.view_inputs("test")) is None
