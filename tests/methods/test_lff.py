"""Learning from failure against a loop over rows."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.methods.difficulty import RelativeDifficulty
from logit_correction.networks.base import Network


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


class Reference:
    """Moving averages in dicts, one row at a time."""

    def __init__(self, momentum: float) -> None:
        self.momentum = momentum
        self.average: list[dict[int, float]] = [{}, {}]
        self.label: dict[int, int] = {}

    def weights(self, index: Tensor, label: Tensor, biased: Tensor, debiased: Tensor) -> Tensor:
        for which, losses in enumerate((biased, debiased)):
            for i, y, loss in zip(index.tolist(), label.tolist(), losses.tolist(), strict=True):
                past = self.average[which].get(i, loss)
                self.average[which][i] = self.momentum * past + (1 - self.momentum) * loss
                self.label[i] = y
        weights = []
        for i, y in zip(index.tolist(), label.tolist(), strict=True):
            relative = []
            for average in self.average:
                greatest = max(value for row, value in average.items() if self.label[row] == y)
                relative.append(average[i] / greatest)
            weights.append(relative[0] / (relative[0] + relative[1]))
        return torch.tensor(weights)


def test_the_weights_are_those_of_a_loop_over_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    difficulty, reference = RelativeDifficulty(30, 3, 0.7), Reference(0.7)
    label = torch.arange(30) % 3
    for _ in range(12):
        index = torch.randperm(30, generator=generator)[:7]
        biased, debiased = 5 * torch.rand((2, 7), generator=generator)
        expected = reference.weights(index, label[index], biased, debiased)
        torch.testing.assert_close(difficulty(index, label[index], biased, debiased), expected)


@pytest.mark.parametrize("q", [0.7, 0.0])
def test_both_networks_come_to_the_weights_of_a_plain_program(q: float, table, build, batches, take_steps) -> None:
    algorithm = build("LfF", table, q=q)
    biased, debiased = copy.deepcopy(algorithm.biased_network), copy.deepcopy(algorithm.network)
    first, second = (torch.optim.Adam(network.parameters(), lr=1e-2) for network in (biased, debiased))
    reference = Reference(0.7)
    take_steps(algorithm, table, epochs=4)
    for epoch in range(4):
        for batch in batches(algorithm, table, epoch):
            hard = cross_entropy(biased(batch.inputs), batch.label, reduction="none")
            own = cross_entropy(debiased(batch.inputs), batch.label, reduction="none")
            weight = reference.weights(batch.index, batch.label, hard, own)
            # The biased network never hears of the weights.
            loss = ((1 - torch.exp(-hard) ** q) / q).mean() if q else hard.mean()
            for optimizer, value in ((first, loss), (second, (weight * own).mean())):
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
    for mine, other in ((algorithm.biased_network, biased), (algorithm.network, debiased)):
        for key, value in mine.state_dict().items():
            torch.testing.assert_close(value, other.state_dict()[key], rtol=1e-3, atol=1e-4)


def test_the_biased_networks_gradient_does_not_depend_on_the_weights(table, build, batches) -> None:
    algorithm = build("LfF", table)
    batch = next(batches(algorithm, table))
    gradients = []
    for factor in (0.0, 1.0):
        algorithm.zero_grad()
        algorithm.difficulty.forward = lambda index, *_, factor=factor: torch.full((len(index),), factor)
        algorithm(batch, 0.0).loss.backward()
        gradients.append([p.grad.clone() for p in algorithm.biased_network.parameters()])
        assert any(bool(p.grad.any()) for p in algorithm.network.parameters()) is bool(factor)
    assert all(map(torch.equal, *gradients))


def test_the_weights_by_hand() -> None:
    difficulty = RelativeDifficulty(5, 2, 0.7).double()
    index, label = torch.tensor([3, 0, 2]), torch.tensor([1, 0, 0])
    difficulty(index, label, torch.tensor([2.0, 4.0, 1.0]), torch.tensor([0.5, 1.0, 3.0]))
    weight = difficulty(
        torch.tensor([0, 3, 1]), torch.tensor([0, 1, 0]), torch.tensor([2.0, 1.0, 0.5]), torch.tensor([3.0, 0.1, 0.4])
    )
    # Row 0: l_B = 0.7 * 4 + 0.3 * 2 = 3.4, the greatest of label 0; l_D = 0.7 * 1 + 0.3 * 3 = 1.6 of at most 3 (row 2).
    # Row 3 is alone in label 1. Row 1 is new: 0.5 of 3.4, 0.4 of 3.
    rows = [(3.4 / 3.4, 1.6 / 3.0), (1.0, 1.0), (0.5 / 3.4, 0.4 / 3.0)]
    expected = torch.tensor([biased / (biased + debiased) for biased, debiased in rows], dtype=torch.float64)
    torch.testing.assert_close(weight, expected)
    assert weight.dtype == torch.float64


def test_hidden_pixels_change_what_the_biased_network_learns_and_not_how_rows_are_judged(table, build, batches) -> None:
    plain, hidden = build("LfF", table), build("LfF", table, biased_input_dropout=0.5)
    batch = next(batches(plain, table))
    steps = [algorithm(batch, 0.0) for algorithm in (plain, hidden)]
    assert torch.equal(plain.difficulty.average, hidden.difficulty.average)
    for key in ("mean_weight", "loss_debiased"):
        assert torch.equal(steps[0].logs[key], steps[1].logs[key])
    assert not torch.equal(steps[0].logs["loss_biased"], steps[1].logs["loss_biased"])
    steps[1].loss.backward()
    assert all(p.grad is not None for p in hidden.biased_network.parameters())


def test_hidden_pixels_leave_the_running_statistics_to_whole_inputs(table, build, batches) -> None:
    class Normalised(Network):
        def __init__(self) -> None:
            super().__init__()
            values = math.prod(table.info.input_shape)
            self.features = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(values))
            self.head = torch.nn.Linear(values, table.info.num_labels)

    def statistics(dropout: float) -> dict[str, Tensor]:
        algorithm = build("LfF", table, network=Normalised, biased_input_dropout=dropout)
        algorithm(next(batches(algorithm, table)), 0.0)
        state = algorithm.biased_network.state_dict()
        return {name: value for name, value in state.items() if "running" in name}

    plain, hidden = statistics(0.0), statistics(0.5)
    assert len(plain) == 2
    for name, value in plain.items():
        torch.testing.assert_close(hidden[name], value)


def test_the_biased_network_may_have_a_learning_rate_of_its_own(table, build) -> None:
    groups = build("LfF", table, biased_learning_rate_scale=0.1).parameter_groups()
    assert [(group["name"], group.get("learning_rate_scale", 1.0)) for group in groups] == [
        ("network", 1.0),
        ("biased_network", 0.1),
    ]


def test_rows_that_only_the_biased_network_finds_hard_weigh_most() -> None:
    difficulty = RelativeDifficulty(4, 1, 0.7)
    label = torch.zeros(4, dtype=torch.long)
    weight = difficulty(torch.arange(4), label, torch.tensor([4.0, 4.0, 0.0, 2.0]), torch.tensor([0.0, 2.0, 2.0, 1.0]))
    torch.testing.assert_close(weight, torch.tensor([1.0, 0.5, 0.0, 0.5]))


@pytest.mark.parametrize(
    "options", [{"q": 1.5}, {"momentum": 1.0}, {"biased_input_dropout": 1.0}, {"biased_learning_rate_scale": -1.0}]
)
def test_impossible_options_are_refused(options, table, build) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        build("LfF", table, **options)
