"""What every network of ours promises, and the small ones that need no package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from logit_correction.attributes.online import Online
from logit_correction.errors import InputError
from logit_correction.functional import mix
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.methods.mixing import GroupMixUp
from logit_correction.networks import NETWORKS
from logit_correction.networks.base import mixing_place
from logit_correction.networks.pretrained import ResNet50
from logit_correction.networks.small import MLP, ConvNet, Linear, ResNet20
from logit_correction.registry import resolve
from logit_correction.types import Batch, DataInfo, Inputs, TrainingRows

SMALL = DataInfo(num_labels=4, num_rows=12, input_shape=(3, 8, 8))
GREY = DataInfo(num_labels=2, num_rows=12, input_shape=(1, 12, 10), num_attributes=5)
DEEP = DataInfo(num_labels=3, num_rows=12, input_shape=(5, 8, 8))
LARGE = DataInfo(num_labels=3, num_rows=12, input_shape=(3, 80, 80))
VECTORS = DataInfo(num_labels=3, num_rows=12, input_shape=(7,))
TOKENS = DataInfo(num_labels=3, num_rows=12, input_shape=(9,), tokens=True)

#: Name, options and the data that it is tried on.
CASES: list[tuple[str, dict[str, Any], DataInfo]] = [
    *[("MLP", {}, info) for info in (SMALL, GREY, VECTORS)],
    *[("Linear", {}, info) for info in (SMALL, VECTORS)],
    *[("ConvNet", {}, info) for info in (SMALL, GREY, DEEP)],
    *[("ConvNet", {"norm": norm, "channels": [4, 6], "convolutions": 1}, SMALL) for norm in ("batch", "none")],
    *[("ResNet20", {}, info) for info in (SMALL, GREY, DEEP)],
    ("ResNet20", {"depth": 8, "width": 4}, SMALL),
    ("ResNet18", {}, SMALL),
    ("Timm", {"model": "test_resnet"}, SMALL),
    ("Timm", {"model": "test_resnet"}, GREY),
    ("Timm", {"model": "test_vit"}, LARGE),
    ("TextClassifier", {"dropout": 0.0}, TOKENS),
    ("TextClassifier", {"dropout": 0.0, "pooling": "mean"}, TOKENS),
]
LARGE_CASES: list[tuple[str, dict[str, Any], DataInfo]] = [
    ("ResNet18", {}, DEEP),
    ("ResNet18", {"stem": "imagenet"}, GREY),
    ("ResNet50", {}, SMALL),
]

Make = Callable[[], nn.Module]


def random_inputs(info: DataInfo, rows: int = 6) -> Inputs:
    generator = torch.Generator().manual_seed(0)
    if not info.tokens:
        return torch.rand((rows, *info.input_shape), generator=generator)
    length = info.input_shape[0]
    mask = (torch.arange(length) < torch.arange(rows)[:, None] + 3).long()
    return {"input_ids": torch.randint(4, 19, (rows, length), generator=generator) * mask, "attention_mask": mask}


def take(inputs: Inputs, rows: slice) -> Inputs:
    return {name: part[rows] for name, part in inputs.items()} if isinstance(inputs, dict) else inputs[rows]


@pytest.fixture(
    params=[*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in LARGE_CASES)],
    ids=lambda case: f"{case[0]}-{'x'.join(map(str, case[2].input_shape))}",
)
def case(request: pytest.FixtureRequest) -> tuple[Make, DataInfo]:
    """A function that builds a network, and the data that it takes."""
    name, options, info = request.param
    if name == "Timm":
        pytest.importorskip("timm")
    if name == "TextClassifier":
        options = {**options, "model": str(request.getfixturevalue("tiny_bert"))}
    cls = resolve("network", name, NETWORKS)
    return lambda: cls(info, **options), info


def test_every_network_is_tried_here() -> None:
    assert {name for name, _, _ in [*CASES, *LARGE_CASES]} == {name for name in NETWORKS if name != "FromRun"}


class TestEveryNetwork:
    def test_gives_finite_logits_and_every_parameter_a_gradient(self, case: tuple[Make, DataInfo]) -> None:
        make, info = case
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = make()
        assert network.training and all(module.training for module in network.modules())
        logits = network(random_inputs(info))
        assert logits.shape == (6, info.num_labels) and bool(torch.isfinite(logits).all())
        (logits * torch.arange(1, info.num_labels + 1)).square().sum().backward()
        assert all(p.grad is not None for p in network.parameters())
        assert sum(bool(p.grad.any()) for p in network.parameters() if p.grad is not None) > 1

    def test_is_its_head_after_its_features(self, case: tuple[Make, DataInfo]) -> None:
        make, info = case
        network: Any = make().eval()
        features = network.features(random_inputs(info))
        assert features.dim() == 2 and len(features) == 6
        assert isinstance(network.head, nn.Linear) and network.head.in_features == features.shape[1]
        assert torch.equal(network.head(features), network(random_inputs(info)))

    def test_judges_each_row_by_itself_in_evaluation(self, case: tuple[Make, DataInfo]) -> None:
        make, info = case
        network, inputs = make().eval(), random_inputs(info)
        one_by_one = torch.cat([network(take(inputs, slice(row, row + 1))) for row in range(6)])
        torch.testing.assert_close(one_by_one, network(inputs), rtol=1e-3, atol=1e-4)

    def test_its_state_is_all_that_it_is(self, case: tuple[Make, DataInfo]) -> None:
        make, info = case
        first, second = make().eval(), make().eval()
        assert not torch.equal(first(random_inputs(info)), second(random_inputs(info)))
        second.load_state_dict(first.state_dict())
        assert torch.equal(first(random_inputs(info)), second(random_inputs(info)))

    def test_its_weights_come_from_the_seed_and_leave_the_global_state(self, case: tuple[Make, DataInfo]) -> None:
        make, info = case
        before = torch.get_rng_state()
        states = [ERM(make, info, seed=seed).state_dict() for seed in (3, 3, 4)]
        assert torch.equal(torch.get_rng_state(), before)
        names = [name for name in states[0] if name.endswith("head.weight")]
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0] if "extra" not in name)
        assert names and not any(torch.equal(states[0][name], states[2][name]) for name in names)

    def test_trains_with_lc(self, case: tuple[Make, DataInfo]) -> None:
        make, info = case
        if isinstance(make(), ResNet50):
            pytest.skip("as ResNet18, and slower")
        hidden = 0.0 if info.tokens else 0.5
        mixing = GroupMixUp(place="features" if info.tokens else "inputs")
        method = LC(make, info, attributes=Online(input_dropout=hidden), mixing=mixing)
        method.setup(TrainingRows(torch.arange(info.num_rows) % info.num_labels))
        method.begin_stage(0, None)
        optimizer = torch.optim.SGD(method.parameter_groups(), lr=1e-3)
        batch = Batch(random_inputs(info), torch.arange(6) % info.num_labels, torch.arange(6))
        before = [p.detach().clone() for p in method.network.parameters()]
        for step in range(2):
            loss = method(batch, step / 2).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert bool(torch.isfinite(loss))
        assert any(not torch.equal(p, old) for p, old in zip(method.network.parameters(), before, strict=True))


@pytest.mark.parametrize("name", ["ConvNet", "ResNet20", "ResNet18", "Timm"])
@pytest.mark.parametrize(("info", "shown"), [(VECTORS, r"shape \(7,\)"), (TOKENS, "texts of 9 tokens")])
def test_networks_of_images_refuse_other_inputs(name: str, info: DataInfo, shown: str) -> None:
    with pytest.raises(InputError, match=f"network {name} takes .*{shown}"):
        resolve("network", name, NETWORKS)(info)


@pytest.mark.parametrize("name", ["MLP", "Linear"])
def test_networks_of_numbers_refuse_tokens(name: str) -> None:
    with pytest.raises(InputError, match=f"network {name} takes numbers, .* TextClassifier"):
        resolve("network", name, NETWORKS)(TOKENS)


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


def test_mixing_behind_the_affine_start_of_the_mlp_is_mixing_its_inputs() -> None:
    network = MLP(DataInfo(num_labels=3, num_rows=1, input_shape=(2, 3, 4)), hidden=[5, 4]).double()
    inputs = torch.randn(7, 2, 3, 4, dtype=torch.float64)
    values, rest = mixing_place(network, inputs, "inputs")
    assert values.shape == (7, 5)
    torch.testing.assert_close(rest(values), network(inputs))
    partner, weight = torch.arange(7).flip(0), torch.rand(7, dtype=torch.float64)
    expected = network(mix(inputs, partner, weight))
    torch.testing.assert_close(rest(mix(values, partner, weight)), expected)
    found = torch.autograd.grad(rest(mix(values, partner, weight)).square().sum(), list(network.parameters()))
    wanted = torch.autograd.grad(expected.square().sum(), list(network.parameters()))
    for gradient, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient, other)


def test_a_start_that_would_widen_the_inputs_is_not_taken() -> None:
    network, inputs = MLP(DataInfo(num_labels=2, num_rows=1, input_shape=(4,)), hidden=[9]), torch.randn(3, 4)
    assert mixing_place(network, inputs, "inputs")[0] is inputs


@pytest.mark.parametrize("hidden", [[], [0], [10, -1]])
def test_impossible_widths_are_refused(hidden: list[int]) -> None:
    with pytest.raises(InputError, match="hidden widths"):
        MLP(SMALL, hidden=hidden)


def test_linear_is_one_layer() -> None:
    network = Linear(VECTORS)
    inputs = torch.randn(4, 7)
    assert [tuple(p.shape) for p in network.parameters()] == [(3, 7), (3,)]
    torch.testing.assert_close(network(inputs), inputs @ network.head.weight.T + network.head.bias)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"channels": []}, "channels"),
        ({"channels": [8, 0]}, "channels"),
        ({"convolutions": 0}, "convolutions 0"),
        ({"channels": [8] * 5}, "8x8 are too small for 5 blocks"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_impossible_convnets_are_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        ConvNet(SMALL, **options)


def count_products(network: nn.Module, inputs: torch.Tensor) -> int:
    """Multiply-adds of all convolutions and linear layers for one image."""
    total = 0

    def add(layer: nn.Module, _: Any, output: torch.Tensor) -> None:
        nonlocal total
        weight: Any = layer.weight
        total += weight.numel() * (output[0, 0].numel() if output.dim() == 4 else 1)

    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(add)
    network(inputs)
    return total


def test_the_work_of_the_convolutional_networks() -> None:
    digits = DataInfo(num_labels=10, num_rows=1, input_shape=(3, 28, 28))
    layers = [(28, 3, 16), (14, 16, 32), (7, 32, 64)]
    expected = sum(9 * size**2 * before * after for size, before, after in layers) + 9 * 64 * 100 + 100 * 10
    assert count_products(ConvNet(digits), torch.zeros(1, 3, 28, 28)) == expected < 10e6
    photos = DataInfo(num_labels=10, num_rows=1, input_shape=(3, 32, 32))
    # The paper's plain figure for 20 layers is 40.8 million.
    assert count_products(ResNet20(photos).eval(), torch.zeros(1, 3, 32, 32)) == pytest.approx(40.8e6, rel=0.01)


@pytest.mark.parametrize(("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)])
def test_the_residual_networks_have_the_weights_of_the_paper(depth: int, millions: float) -> None:
    info = DataInfo(num_labels=10, num_rows=1, input_shape=(3, 32, 32))
    count = sum(p.numel() for p in ResNet20(info, depth=depth).parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.05 if depth == 110 else 0.01)


@pytest.mark.parametrize(
    ("options", "info", "expected"),
    [
        ({"depth": 21}, SMALL, "depth is 21"),
        ({"depth": 2}, SMALL, "depth is 2"),
        ({"width": 0}, SMALL, "width is 0"),
        ({}, DataInfo(num_labels=2, num_rows=1, input_shape=(3, 3, 8)), "3x8 are too small"),
    ],
)
def test_impossible_residual_networks_are_refused(options: dict[str, Any], info: DataInfo, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        ResNet20(info, **options)
