"""Cross-fitting: what is said of a row is said by a fit that never saw it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from logit_correction.attributes.folds import (
    FoldNetworks,
    compute_dropout_logits,
    draw_folds,
    draw_halves,
    predict_out_of_fold,
)
from logit_correction.types import Batch

LABEL = torch.arange(40) % 3


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=30))
def test_every_row_of_a_fold_is_predicted_by_a_fit_to_all_other_folds(folds: list[int]) -> None:
    fold = torch.tensor(folds)
    fits = []

    def fit(rows: Tensor, number: int) -> Any:
        fits.append((number, rows.tolist()))
        return lambda others: torch.tensor([[float(number), float(row)] for row in others.tolist()])

    found = predict_out_of_fold(fit, fold, 2)
    for number, rows in fits:
        assert rows == [row for row, one in enumerate(folds) if one != number]
    judged = fold >= 0
    assert bool(found[~judged].isnan().all()) and sorted(number for number, _ in fits) == sorted({*folds} - {-1})
    assert torch.equal(found[judged], torch.stack([fold, torch.arange(len(fold))], dim=1)[judged].float())


def test_folds_are_even_and_random() -> None:
    halves = torch.stack([draw_halves(41, torch.Generator().manual_seed(seed)) for seed in range(5)])
    assert halves.sum(dim=1).tolist() == [20] * 5 and len(halves.unique(dim=0)) == 5
    fold = draw_folds(100, 3, torch.Generator().manual_seed(0), max_rows=90)
    assert torch.bincount(fold + 1).tolist() == [10, 30, 30, 30]


# Networks that the loop trains


def make(splits: int = 3, folds: int = 2) -> FoldNetworks:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        networks = [nn.Linear(6, 3) for _ in range(splits * folds)]
    fold = [draw_folds(40, folds, torch.Generator().manual_seed(split), 36) for split in range(splits)]
    return FoldNetworks(networks, torch.stack(fold))


def rows(index: Tensor) -> Batch:
    inputs = torch.randn((40, 6), generator=torch.Generator().manual_seed(1))
    return Batch(inputs[index], LABEL[index], index)


def trained(networks: FoldNetworks, changed: int | None = None) -> FoldNetworks:
    """Two epochs; one row may have another input and another label."""
    optimizer = torch.optim.SGD(networks.parameters(), lr=0.5)
    for epoch in range(2):
        for index in torch.randperm(40, generator=torch.Generator().manual_seed(epoch)).split(10):
            batch = rows(index)
            mark = index == (-1 if changed is None else changed)
            batch.inputs = torch.where(mark.unsqueeze(1), -batch.inputs, batch.inputs)
            optimizer.zero_grad()
            batch.label = (batch.label + mark) % 3
            networks.compute_loss(batch, q=0.5).backward()
            optimizer.step()
    return networks


@pytest.mark.parametrize("folds", [2, 3])
def test_networks_that_predict_a_row_were_never_trained_on_it_and_are_averaged(folds: int) -> None:
    plain = trained(make(folds=folds))
    for row in (0, 17, 39):
        changed = trained(make(folds=folds), changed=row)
        one = rows(torch.tensor([row]))
        seen = []
        for number, (network, other) in enumerate(zip(plain, changed, strict=True)):
            left_out = int(plain.fold[number // folds, row]) == number % folds
            assert torch.equal(network.weight, other.weight) is left_out
            seen += [network(one.inputs).softmax(1)] if left_out else []
        expected = torch.stack(seen).sum(0) / 3 if seen else torch.zeros(1, 3)
        torch.testing.assert_close(plain.predict_out_of_fold(one, 3), expected)
        assert torch.equal(plain.predict_out_of_fold(one, 3), changed.predict_out_of_fold(one, 3))


# Inputs of which a part is hidden


def test_running_statistics_are_of_whole_inputs_seen_after_those_that_are_learned_from() -> None:
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
