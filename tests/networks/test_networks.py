"""What every network of ours promises, and the fully connected one."""

from __future__ import annotations

import pytest
import torch

from logit_correction.networks import NETWORKS
from logit_correction.networks.mlp import MLP
from logit_correction.registry import resolve
from logit_correction.types import DataInfo, InputError

INFOS = [
    DataInfo(num_labels=4, num_rows=10, input_shape=(3, 8, 8)),
    DataInfo(num_labels=2, num_rows=10, input_shape=(3, 28, 28), num_attributes=5),
]


def random_inputs(info: DataInfo, rows: int = 6) -> torch.Tensor:
    return torch.rand((rows, *info.input_shape), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("info", INFOS)
class TestEveryNetwork:
    def test_gives_finite_logits_and_every_parameter_a_gradient(self, name: str, info: DataInfo) -> None:
        network = resolve("network", name, NETWORKS)(info)
        logits = network(random_inputs(info))
        assert logits.shape == (6, info.num_labels) and bool(torch.isfinite(logits).all())
        logits.square().sum().backward()
        assert all(p.grad is not None and bool(p.grad.any()) for p in network.parameters())

    def test_is_its_head_after_its_features(self, name: str, info: DataInfo) -> None:
        network = resolve("network", name, NETWORKS)(info).eval()
        features = network.features(random_inputs(info))
        assert features.dim() == 2 and len(features) == 6
        assert torch.equal(network.head(features), network(random_inputs(info)))

    def test_judges_each_row_by_itself_in_evaluation(self, name: str, info: DataInfo) -> None:
        network, inputs = resolve("network", name, NETWORKS)(info).eval(), random_inputs(info)
        one_by_one = torch.cat([network(inputs[row : row + 1]) for row in range(6)])
        torch.testing.assert_close(one_by_one, network(inputs), rtol=1e-4, atol=1e-5)

    def test_its_state_is_all_that_it_is(self, name: str, info: DataInfo) -> None:
        first, second = (resolve("network", name, NETWORKS)(info).eval() for _ in range(2))
        assert not torch.equal(first(random_inputs(info)), second(random_inputs(info)))
        second.load_state_dict(first.state_dict())
        assert torch.equal(first(random_inputs(info)), second(random_inputs(info)))


def test_the_mlp_has_the_layers_that_it_is_asked_for() -> None:
    info = DataInfo(num_labels=10, num_rows=1, input_shape=(3, 28, 28))
    assert [tuple(p.shape) for p in MLP(info).parameters() if p.dim() == 2] == [
        (100, 2352),
        (100, 100),
        (100, 100),
        (10, 100),
    ]
    published = MLP(info, hidden=[100, 100, 16])
    assert published.head.weight.shape == (10, 16)
    assert published.features(torch.zeros(2, 3, 28, 28)).shape == (2, 16)


def test_the_mlp_equals_its_formula() -> None:
    network = MLP(DataInfo(num_labels=3, num_rows=1, input_shape=(2, 3)), hidden=[5, 4]).double()
    inputs = torch.randn(7, 2, 3, dtype=torch.float64)
    weights = list(network.parameters())
    value = inputs.reshape(7, 6)
    for layer in range(2):
        value = (value @ weights[2 * layer].T + weights[2 * layer + 1]).clamp_min(0)
    torch.testing.assert_close(network(inputs), value @ weights[4].T + weights[5])


@pytest.mark.parametrize("hidden", [[], [0], [10, -1]])
def test_impossible_widths_are_refused(hidden: list[int]) -> None:
    with pytest.raises(InputError, match="hidden widths"):
        MLP(INFOS[0], hidden=hidden)
