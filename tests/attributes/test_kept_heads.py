"""Heads that are kept: what they say of rows they did not see, before and after a checkpoint."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from logit_correction.attributes.auto import Auto
from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.attributes.heads import HeadTraining, cross_fit
from logit_correction.attributes.kept_heads import Head, scale_of, scaled, standardized
from logit_correction.attributes.linear_heads import held_out_logistic
from logit_correction.attributes.online import Online
from logit_correction.bench.planted import Planted
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.training.checkpoint import load_state

from .conftest import attached, prepared

TRAINING = HeadTraining(epochs=2, learning_rate=1e-2)


@pytest.fixture(scope="module")
def table() -> DataTable:
    return Planted(set="column", rows=1000, minority_ratio=0.1).build()


def state_again(estimator: Any) -> dict[str, Any]:
    """What a checkpoint gives back, which is read without pickle."""
    file = io.BytesIO()
    torch.save(estimator.state_dict(), file)
    file.seek(0)
    state: dict[str, Any] = torch.load(file, weights_only=True)
    return state


def told(estimator: Any, table: DataTable, split: str = "test") -> Tensor:
    found = estimator.eval().estimate_new(table.label[table.split[split]], table.view_inputs(split))
    assert found is not None and found.shape == (len(table.split[split]),)
    return found


@pytest.mark.parametrize("num_labels", [2, 3])
def test_a_kept_head_says_what_it_said_of_held_out_rows(num_labels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(90) % num_labels
    features = standardized(torch.randn(90, 8, generator=generator) + 2 * label.unsqueeze(1))
    fold = (torch.arange(90) // num_labels) % 2
    heads: list[Head] = []
    found = held_out_logistic(features, label, fold, num_labels, few=1, kept=heads)
    for number, head in enumerate(heads):
        torch.testing.assert_close(head(features[fold == number]), found[fold == number], atol=1e-4, rtol=1e-4)
    assert len(heads) == 2 and all(len(head.columns) < 8 for head in heads)


def test_heads_of_other_features_are_refused(table: DataTable) -> None:
    estimator = CrossFitted(view=["column:form_version"])
    prepared(estimator, table)
    kept = estimator.kept
    assert kept is not None
    longer = replace(kept, mean=torch.zeros(len(kept.mean) + 1), deviation=torch.ones(len(kept.mean) + 1))
    with pytest.raises(InputError, match="of another version: train again"):
        longer.probability(table.view_inputs("test"))


def test_a_label_that_a_head_never_saw_has_no_probability() -> None:
    label = torch.tensor([0, 1] * 20)
    heads: list[Head] = []
    held_out_logistic(torch.randn(40, 3), label, torch.arange(40) % 4 // 2, 3, kept=heads)
    assert all(bool((head(torch.randn(5, 3))[:, 2] == 0).all()) for head in heads)


def test_the_mean_of_kept_networks_is_that_of_the_trained_ones() -> None:
    features, label = standardized(torch.randn(60, 4)), torch.arange(60) % 2
    heads: list[Head] = []
    found = cross_fit(features, label, 2, TRAINING, splits=1, seed=3, kept=heads)
    both = torch.stack([head(features) for head in heads])
    assert all(bool(torch.isclose(both[:, row], found[row]).all(dim=1).any()) for row in range(60))


def test_what_did_not_vary_in_training_counts_for_nothing_in_new_rows() -> None:
    training = torch.cat([torch.randn(50, 1), torch.full((50, 1), 3.0)], dim=1)
    found = scaled(torch.tensor([[0.0, 1e6], [0.0, 3.0]]), *scale_of(training))
    assert torch.equal(found[0], found[1])


@pytest.mark.parametrize("options", [{}, {"head": "hidden layer", "epochs": 20}])
def test_heads_tell_conflicting_rows_of_the_test_and_do_so_after_a_checkpoint(
    table: DataTable, options: dict[str, Any]
) -> None:
    view = "column:form_version"
    estimator = prepared(CrossFitted(view=view, **options), table)
    found = told(estimator, table)
    truth = table.attribute[table.split["test"]]
    assert float((found == truth).double().mean()) > 0.97  # though labels alone agree with it in half of the rows
    again = attached(CrossFitted(view=view, **options), table)
    again.load_state_dict(state_again(estimator))
    assert torch.equal(told(again, table), found)


def test_attributes_of_the_new_rows_are_not_read(table: DataTable) -> None:
    estimator = prepared(CrossFitted(view="column:form_version"), table)
    other = replace(table, attribute=table.attribute.flip(0))
    assert torch.equal(told(estimator, table), told(estimator, other))


def test_auto_keeps_the_heads_of_the_shortcut_that_a_person_named(table: DataTable) -> None:
    estimator = prepared(Auto(shortcut=["column:form_version"]), table)
    truth = table.attribute[table.split["valid"]]
    assert float((told(estimator, table, "valid") == truth).double().mean()) > 0.97


def test_networks_tell_of_new_rows_too(table: DataTable) -> None:
    for estimator in (prepared(CrossFitted(epochs=2), table), prepared(Online(head_start_epochs=2, epochs=2), table)):
        found = told(estimator, table)
        assert 0 < int((found != table.label[table.split["test"]]).sum()) < len(found)


def test_a_state_without_heads_tells_of_no_new_row_and_one_without_the_entry_is_refused(
    table: DataTable, tmp_path: Path
) -> None:
    estimator = prepared(CrossFitted(view="column:form_version"), table)
    state = state_again(estimator)
    state["_extra_state"]["kept"] = None
    again = attached(CrossFitted(view="column:form_version"), table)
    again.load_state_dict(state)
    assert again.estimate_new(table.label[table.split["test"]], table.view_inputs("test")) is None
    del state["_extra_state"]["kept"]
    with pytest.raises(InputError, match=r"last\.ckpt .*train again"):
        load_state(tmp_path / "last.ckpt", again, state)
