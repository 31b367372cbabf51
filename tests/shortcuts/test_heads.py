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
from logit_correction.attributes.folds import predict_out_of_fold
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.shortcuts.heads import (
    Head,
    cross_fit,
    make_logistic_learner,
    relabel_conflicting_rows,
    standardize,
)
from logit_correction.types import Correlation, TrainingRows
from logit_correction_lab.sources.planted import Planted

from ..attributes.conftest import attached, prepared
from ..conftest import save_and_load

VIEW = "column:form_version"


def planted(rows: int = 400, num_labels: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Features that tell the attribute well and the label a little; labels; attributes."""
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(rows) % num_labels
    attribute = torch.where(torch.rand(rows, generator=generator) < 0.1, (label + 1) % num_labels, label)
    features = torch.randn(rows, 4, generator=generator)
    features[:, 0] += 4 * attribute
    return standardize(features, *torch.std_mean(features, dim=0)), label, attribute


@pytest.mark.parametrize("labels", [2, 3])
def test_rows_are_predicted_as_scikit_learn_does_it_and_heads_are_kept(labels: int) -> None:
    features, label, _ = planted(120, labels)
    fold = torch.randperm(120, generator=torch.Generator().manual_seed(1)) % 3
    kept: list[Head] = []
    found = predict_out_of_fold(make_logistic_learner(features, label, labels, trained_heads=kept), fold, labels)
    head = LogisticRegression(C=1.0, max_iter=300, tol=1e-3)
    splits = PredefinedSplit(fold.numpy())
    expected = cross_val_predict(head, features.numpy(), label.numpy(), cv=splits, method="predict_proba")
    torch.testing.assert_close(found.double(), torch.from_numpy(expected).double(), atol=1e-5, rtol=1e-4)
    few: list[Head] = []
    predict_out_of_fold(make_logistic_learner(features, label, labels, 1, few), fold, labels)
    for number in range(3):
        rows = fold == number
        torch.testing.assert_close(kept[number](features[rows]), found[rows], atol=1e-5, rtol=1e-4)
        assert 0 in few[number].columns.tolist() and len(few[number].columns) <= labels


@pytest.mark.parametrize("linear", [False, True], ids=["hidden layer", "linear"])
def test_a_row_is_predicted_by_heads_that_never_saw_it(linear: bool) -> None:
    features, label, _ = planted(100)
    state = torch.get_rng_state()
    plain, heads = cross_fit(features, label, 2, linear, None, num_splits=1, seed=3)
    changed = label.clone()
    changed[57] = 1 - label[57]
    again = cross_fit(features, changed, 2, linear, None, num_splits=1, seed=3)[0]
    assert torch.equal(plain[57], again[57]) and not torch.equal(plain, again)  # others are predicted by it
    assert torch.equal(torch.get_rng_state(), state) and len(heads) == 2
    said = torch.stack([head(features) for head in heads])  # a row's is that of the head which did not see it
    assert float((said - plain).abs().amax(2).amin(0).max()) < 1e-5


def test_a_row_gets_another_target_and_counts_as_minority_only_from_the_odds_on() -> None:
    probability = torch.tensor([[0.9, 0.05, 0.05], [0.2, 0.7, 0.1], [0.05, 0.9, 0.05], [0.01, 0.0, 0.99]])
    label = torch.tensor([1, 0, 1, 0])
    one_to_one = Correlation.one_to_one(3)
    assert relabel_conflicting_rows(probability, label).tolist() == [0, 0, 1, 2]
    for odds, expected in ((10, [0, 0, 1, 2]), (1, [0, 1, 1, 2]), (1e3, [1, 0, 1, 0])):
        assert select_attribute(probability, label, one_to_one, odds).tolist() == expected
    several = Correlation.from_table([[0, 1], [2], [2]])  # label 0 goes with values 0 and 1: neither needs odds
    assert select_attribute(probability, label, several, 1e3).tolist() == [2, 1, 2, 0]


# In an estimator


def test_views_need_the_inputs_of_all_rows(table: DataTable) -> None:
    estimator = attached(Auto(shortcut=["my_parts.Tail"]), table)
    with pytest.raises(InputError, match=r"give TrainingRows\.view_inputs"):
        estimator.setup(TrainingRows(table.label[table.split["train"]]))


# Rows that were not trained on


@pytest.fixture(scope="module")
def table() -> DataTable:
    return Planted(set="column", rows=1000, minority_ratio=0.1).build()


def told(estimator: Any, table: DataTable, split: str = "test") -> Tensor:
    found = estimator.eval().predict_attributes(table.label[table.split[split]], table.view_inputs(split))
    assert found is not None and found.shape == (len(table.split[split]),)
    return found


def test_heads_tell_conflicting_rows_of_the_test_and_do_so_after_a_checkpoint(table: DataTable) -> None:
    estimator = prepared(Auto(shortcut=[VIEW]), table)
    found = told(estimator, table)
    truth = table.attribute[table.split["test"]]
    assert float((found == truth).double().mean()) > 0.97  # though labels alone agree with it in half of the rows
    again = attached(Auto(shortcut=[VIEW]), table)
    again.load_state_dict(save_and_load(estimator.state_dict()))
    assert torch.equal(told(again, table), found)
    assert torch.equal(told(again, replace(table, attribute=table.attribute.flip(0))), found)  # labels are not read


def test_heads_of_another_version_are_refused_and_without_them_nothing_is_told(table: DataTable) -> None:
    state = save_and_load(prepared(Auto(shortcut=[VIEW]), table).state_dict())
    again = attached(Auto(shortcut=[VIEW]), table)
    for change in ({"views": [{"family": "my_parts.Tail", "values": {}}]}, {"heads": [{"columns": 0}]}, {"more": 1}):
        forged = {
            **state,
            "_extra_state": {**state["_extra_state"], "kept": [state["_extra_state"]["kept"][0] | change]},
        }
        with pytest.raises(InputError, match="of another version: train again"):
            again.load_state_dict(forged)
    state["_extra_state"]["kept"] = []
    again.load_state_dict(state)
    assert again.predict_attributes(table.label[table.split["test"]], table.view_inputs("test")) is None
