"""Cross-fitting: a row is predicted by a fit that never saw it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from logit_correction.attributes.folds import (
    FoldNetworks,
    compute_dropout_logits,
    draw_folds,
    draw_folds_of_units,
    draw_halves,
    predict_out_of_fold,
)
from logit_correction.data.own import from_rows
from logit_correction.runs.assemble import prepare_run
from logit_correction.runs.options import complete_config
from logit_correction.seeds import make_generator
from logit_correction.training.display import Display
from logit_correction.types import Batch

LABEL = torch.arange(40) % 3


@given(st.lists(st.integers(0, 3), min_size=2, max_size=12), st.integers(2, 3), st.integers(5, 60), st.integers(0, 5))
def test_rows_of_one_unit_get_one_fold(sizes: list[int], num_folds: int, max_rows: int, seed: int) -> None:
    """Each label has as many units as there are folds, or more; so each fold has rows of each label."""
    size = torch.tensor(sizes).repeat(2 * num_folds) + 1
    unit = torch.arange(len(size)).repeat_interleave(size)
    unit = unit[torch.randperm(len(unit), generator=make_generator(seed, "rows"))]
    label = unit % 2
    fold = draw_folds_of_units(unit, label, num_folds, make_generator(seed, "folds"))
    for number in unit.unique().tolist():
        assert len(fold[unit == number].unique()) == 1
    assert {*zip(fold.tolist(), label.tolist(), strict=True)} == {*product(range(num_folds), range(2))}
    fewer = draw_folds_of_units(unit, label, num_folds, make_generator(seed, "folds"), max_rows)
    assert (fewer >= 0).sum() == min(max_rows, len(unit)) and torch.equal(fewer[fewer >= 0], fold[fewer >= 0])


@pytest.mark.parametrize("estimator", ["Auto", "CrossFitted", "XRM"])
def test_networks_of_an_estimator_learn_no_row_of_a_unit_that_they_predict(estimator: str) -> None:
    patient = np.arange(240) // 8
    frame = pd.DataFrame({"y": patient % 2, "patient": [f"p{number}" for number in patient], "a": np.arange(240) % 7})
    data = from_rows(frame[["a", "patient"]], frame["y"], split_by="patient")
    prepared = prepare_run(
        complete_config({"data": data, "method": {"name": "LC", "attributes": estimator}, "threads": 1}), Display()
    )
    unit = prepared.table.unit[prepared.table.split["train"]]
    (networks,) = (part for part in prepared.algorithm.modules() if isinstance(part, FoldNetworks))
    for fold in networks.fold:
        assert all(len(fold[unit == number].unique()) == 1 for number in unit.unique().tolist())
        assert len(fold.unique()) > 1


def test_units_that_are_too_few_for_folds_are_told_and_not_used() -> None:
    """A fold without a row of a label could learn nothing of it."""
    frame = pd.DataFrame({"y": np.arange(120) % 2, "site": np.repeat(["a", "b", "c"], 40), "x": np.arange(120) % 7})
    table = complete_config({"data": from_rows(frame[["x", "site"]], frame["y"], split_by="site")}).data.make().build()
    assert table.unit is None and any("take rows for independent" in note for note in table.notes)


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=30))
def test_predict_out_of_fold_uses_fits_to_all_other_folds(folds: list[int]) -> None:
    fold = torch.tensor(folds)
    fits = []

    def fit_and_predict(learned: Tensor, left_out: Tensor, number: int) -> Tensor:
        fits.append((number, learned.tolist()))
        return torch.tensor([[float(number), float(row)] for row in left_out.tolist()])

    predictions = predict_out_of_fold(fit_and_predict, fold, 2)
    for number, rows in fits:
        assert rows == [row for row, row_fold in enumerate(folds) if row_fold != number]
    is_predicted = fold >= 0
    assert bool(predictions[~is_predicted].isnan().all()) and sorted(number for number, _ in fits) == sorted(
        {*folds} - {-1}
    )
    assert torch.equal(
        predictions[is_predicted], torch.stack([fold, torch.arange(len(fold))], dim=1)[is_predicted].float()
    )


def test_folds_are_of_equal_size_and_random() -> None:
    halves = torch.stack([draw_halves(41, torch.Generator().manual_seed(seed)) for seed in range(5)])
    assert halves.sum(dim=1).tolist() == [20] * 5 and len(halves.unique(dim=0)) == 5
    fold = draw_folds(100, 3, torch.Generator().manual_seed(0), max_rows=90)
    assert torch.bincount(fold + 1).tolist() == [10, 30, 30, 30]


# Networks that the loop trains


def build_fold_networks(splits: int = 3, folds: int = 2) -> FoldNetworks:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        networks = [nn.Linear(6, 3) for _ in range(splits * folds)]
    fold = [draw_folds(40, folds, torch.Generator().manual_seed(split), 36) for split in range(splits)]
    return FoldNetworks(networks, torch.stack(fold))


def draw_batch(index: Tensor) -> Batch:
    inputs = torch.randn((40, 6), generator=torch.Generator().manual_seed(1))
    return Batch(inputs[index], LABEL[index], index)


def train_fold_networks(networks: FoldNetworks, changed: int | None = None) -> FoldNetworks:
    """Two epochs; one row may have another input and another label."""
    optimizer = torch.optim.SGD(networks.parameters(), lr=0.5)
    for epoch in range(2):
        for index in torch.randperm(40, generator=torch.Generator().manual_seed(epoch)).split(10):
            batch = draw_batch(index)
            is_changed = index == (-1 if changed is None else changed)
            batch.inputs = torch.where(is_changed.unsqueeze(1), -batch.inputs, batch.inputs)
            optimizer.zero_grad()
            batch.label = (batch.label + is_changed) % 3
            networks.compute_loss(batch, q=0.5).backward()
            optimizer.step()
    return networks


@pytest.mark.parametrize("folds", [2, 3])
def test_fold_networks_that_predict_a_row_were_not_trained_on_it_and_are_averaged(folds: int) -> None:
    plain = train_fold_networks(build_fold_networks(folds=folds))
    for row in (0, 17, 39):
        changed = train_fold_networks(build_fold_networks(folds=folds), changed=row)
        row_batch = draw_batch(torch.tensor([row]))
        probabilities = []
        for number, (network, other) in enumerate(zip(plain, changed, strict=True)):
            left_out = int(plain.fold[number // folds, row]) == number % folds
            assert torch.equal(network.weight, other.weight) is left_out
            probabilities += [network(row_batch.inputs).softmax(1)] if left_out else []
        expected = torch.stack(probabilities).sum(0) / 3 if probabilities else torch.zeros(1, 3)
        torch.testing.assert_close(plain.predict_out_of_fold(row_batch, 3), expected)
        assert torch.equal(plain.predict_out_of_fold(row_batch, 3), changed.predict_out_of_fold(row_batch, 3))


# Input dropout


def test_running_statistics_are_those_of_complete_inputs_computed_after_the_gradient_step() -> None:
    # Some versions of autocast keep a weight as it was first cast, so a look without gradients must not come first.
    torch.manual_seed(0)
    network = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3))
    inputs = torch.randn(400, 6)
    order = []
    network.register_forward_pre_hook(lambda *_: order.append(torch.is_grad_enabled()))
    compute_dropout_logits(network, inputs, 0.9, torch.Generator().manual_seed(0)).sum().backward()
    assert order == [True, False]
    torch.testing.assert_close(network[0].running_mean, 0.1 * inputs.mean(0))  # one update with momentum 0.1, from 0
    torch.testing.assert_close(network[0].running_var, 0.9 + 0.1 * inputs.var(0))
