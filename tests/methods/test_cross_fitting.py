"""Cross-fitting: a row is predicted by networks that never saw it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from logit_correction.correlation import Correlation
from logit_correction.methods.attribute import hide
from logit_correction.methods.cross_fitting import CrossFitted, _own_rows
from logit_correction.networks.mlp import MLP
from logit_correction.types import Batch, DataInfo, InputError

INFO = DataInfo(num_labels=3, num_rows=40, input_shape=(6,))


def make(splits: int = 3, seed: int = 0, **options: object) -> CrossFitted:
    torch.manual_seed(seed)
    networks = [MLP(INFO, hidden=(5,)) for _ in range(2 * splits)]
    options = {"q_ramp_up_epochs": 0.0, "input_dropout": 0.0, **options}
    return CrossFitted(networks, 40, Correlation.one_to_one(3), seed=seed, **options)


def rows(index: Tensor) -> Batch:
    inputs = torch.randn((40, 6), generator=torch.Generator().manual_seed(1))
    return Batch(inputs[index], (torch.arange(40) % 3)[index], index)


def members(fitted: CrossFitted, number: int) -> Tensor:
    """The rows that a network is trained on."""
    return (fitted.side[number // 2] == bool(number % 2)).nonzero().flatten()


def train(fitted: CrossFitted, changed: int | None = None) -> None:
    """Two epochs; one row may have another input and another label."""
    optimizer = torch.optim.SGD(fitted.parameters(), lr=0.5)
    for epoch in range(2):
        order = torch.randperm(40, generator=torch.Generator().manual_seed(epoch))
        for index in order.split(10):
            batch = rows(index)
            if changed is not None:
                batch.label = torch.where(index == changed, (batch.label + 1) % 3, batch.label)
                batch.inputs = torch.where((index == changed).unsqueeze(1), -batch.inputs, batch.inputs)
            optimizer.zero_grad()
            fitted(batch, float(epoch), torch.Generator()).backward()
            optimizer.step()


def test_each_split_halves_the_rows_in_its_own_way() -> None:
    fitted = make(splits=5)
    assert fitted.side.sum(dim=1).tolist() == [20] * 5
    assert len({tuple(one.tolist()) for one in fitted.side}) == 5
    assert torch.equal(fitted.side, make(splits=5).side) and not torch.equal(fitted.side, make(splits=5, seed=1).side)
    assert fitted.side.any(dim=0).double().mean() > 0.8  # the splits are not one and the same order


@pytest.mark.parametrize("row", [0, 17, 39])
def test_networks_that_predict_a_row_were_never_trained_on_it(row: int) -> None:
    plain, changed = make(), make()
    train(plain)
    train(changed, changed=row)
    one = torch.tensor([row])
    assert torch.equal(plain.held_out(rows(one)), changed.held_out(rows(one)))
    for number in range(6):
        touched = row in members(plain, number).tolist()
        same = torch.equal(plain.networks[number].head.weight, changed.networks[number].head.weight)
        assert same is not touched


def test_held_out_softmaxes_are_averaged() -> None:
    fitted = make()
    found = fitted.held_out(rows(torch.arange(40)))
    for row in range(40):
        batch = rows(torch.tensor([row]))
        others = [number for number in range(6) if row not in members(fitted, number).tolist()]
        assert [number // 2 for number in others] == [0, 1, 2]
        expected = sum(fitted.networks[number](batch.inputs).softmax(1) for number in others) / 3
        torch.testing.assert_close(found[row], expected[0])
    torch.testing.assert_close(found.sum(1), torch.ones(40))


def test_new_rows_are_predicted_by_all_networks() -> None:
    fitted = make()
    inputs = rows(torch.arange(4)).inputs
    expected = torch.stack([network(inputs).softmax(1) for network in fitted.networks]).mean(0)
    torch.testing.assert_close(fitted.predict(inputs).exp(), expected)


@pytest.mark.parametrize("size", [1, 7, 24, 40])
def test_the_loss_is_the_mean_over_each_networks_own_rows(size: int) -> None:
    fitted = make(q=0.6, q_ramp_up_epochs=2.0)
    index = torch.randperm(40, generator=torch.Generator().manual_seed(2))[:size]
    loss = fitted(rows(index), 1.0, torch.Generator())  # half the ramp: q is 0.3
    expected = torch.zeros(())
    for number, network in enumerate(fitted.networks):
        own = [int(i) for i in index if int(i) in members(fitted, number).tolist()]
        if own:
            batch = rows(torch.tensor(own))
            p = network(batch.inputs).softmax(1).gather(1, batch.label[:, None])
            expected = expected + ((1 - p**0.3) / 0.3).mean()
    torch.testing.assert_close(loss, expected)


def test_own_rows_find_a_place_each() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        member = torch.rand(256, generator=generator) < 0.5
        own, weight = _own_rows(member)
        assert len(own) < 170 and bool(member[own].all())
        assert sorted(own[weight > 0].tolist()) == member.nonzero().flatten().tolist()
        assert float(weight.sum()) == pytest.approx(1.0)
    own, weight = _own_rows(torch.ones(256, dtype=torch.bool))  # more than there are places for
    assert len(set(own.tolist())) == len(own) and float(weight.sum()) == pytest.approx(1.0)
    assert float(_own_rows(torch.zeros(8, dtype=torch.bool))[1].sum()) == 0.0


def test_pixels_are_hidden_while_training_and_never_when_predicting() -> None:
    fitted = make(input_dropout=0.5)
    shown: list[Tensor] = []
    for network in fitted.networks:
        network.register_forward_pre_hook(lambda module, args: shown.append(args[0]))
    batch = rows(torch.arange(40))
    fitted(batch, 0.0, torch.Generator().manual_seed(0))
    assert len(shown) == 6 and all(0.3 < float((one == 0).double().mean()) < 0.7 for one in shown)
    shown.clear()
    fitted.held_out(batch)
    assert len(shown) == 6 and not any(bool((one == 0).any()) for one in shown)


def test_all_channels_of_a_pixel_are_hidden_together() -> None:
    hidden = hide(torch.ones(50, 3, 8, 8), 0.75, torch.Generator().manual_seed(0))
    assert set(hidden.unique().tolist()) == {0.0, 4.0}
    assert torch.equal(hidden, hidden[:, :1].expand_as(hidden))
    assert abs(float(hidden.mean()) - 1) < 0.1
    with pytest.raises(InputError, match="biased_input_dropout=0"):
        hide({"tokens": torch.ones(2, 3)}, 0.5, torch.Generator())


def test_networks_come_in_pairs() -> None:
    for number in (0, 1, 3):
        with pytest.raises(InputError, match="two networks for each split"):
            CrossFitted([nn.Linear(6, 3) for _ in range(number)], 40, Correlation.one_to_one(3))


def test_the_splits_are_part_of_the_state() -> None:
    fitted, other = make(), make(seed=5)
    other.load_state_dict(copy.deepcopy(fitted.state_dict()))
    batch = rows(torch.arange(40))
    assert torch.equal(fitted.held_out(batch), other.held_out(batch))


def test_batch_norms_running_statistics_are_of_whole_inputs() -> None:
    networks = [nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)) for _ in range(2)]
    fitted = CrossFitted(networks, 40, Correlation.one_to_one(3), input_dropout=0.9)
    batch = rows(torch.arange(40))
    fitted(batch, 0.0, torch.Generator().manual_seed(0))
    for number, network in enumerate(networks):
        expected = 0.1 * batch.inputs[members(fitted, number)].mean(0)  # one update with momentum 0.1, from 0
        # Places left over in the batch repeat rows, so it is the mean but for these.
        assert (network[0].running_mean - expected).abs().max() < 0.03
        assert network[0].running_var.max() < 1.5  # hiding nine tenths would multiply the variance


def test_a_look_without_gradients_comes_after_the_one_that_is_learned_from() -> None:
    # Some versions of autocast keep a weight as it was first cast, so a look without gradients must not come first.
    order: dict[int, list[bool]] = {}

    class Looking(nn.Sequential):
        def forward(self, inputs: Tensor) -> Tensor:
            order.setdefault(id(self), []).append(torch.is_grad_enabled())
            return super().forward(inputs)

    networks = [Looking(nn.BatchNorm1d(6), nn.Linear(6, 3)) for _ in range(2)]
    fitted = CrossFitted(networks, 40, Correlation.one_to_one(3), input_dropout=0.5)
    fitted(rows(torch.arange(20)), 1.0, torch.Generator()).backward()
    assert list(order.values()) == [[True, False]] * 2
