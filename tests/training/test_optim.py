"""Optimisers and schedules in closed form, and what the loop does to networks."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from logit_correction.methods.erm import ERM
from logit_correction.networks.small import ConvNet
from logit_correction.training.config import TrainingConfig
from logit_correction.training.fit import make_optimizer
from logit_correction.training.optimizer import Optimizer
from logit_correction.types import DataInfo

INFO = DataInfo(num_labels=3, num_rows=48, input_shape=(3, 8, 8))


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_weight_decay_can_leave_out_biases_and_normalization(kind: Any) -> None:
    method = ERM(lambda: ConvNet(INFO), INFO)
    everything = make_optimizer(method.parameter_groups(), TrainingConfig(weight_decay=0.1), 0.1)
    assert [group["weight_decay"] for group in everything.param_groups] == [0.1]
    config = TrainingConfig(weight_decay=0.1, decay_norm_and_bias=False, optimizer=kind)
    optimizer = make_optimizer(method.parameter_groups(), config, 0.1)
    before = {name: p.detach().clone() for name, p in method.named_parameters()}
    for p in method.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    moved = {name for name, p in method.named_parameters() if not torch.equal(p, before[name])}
    layers = {name: method.get_submodule(name.rpartition(".")[0]) for name in before}
    assert moved == {
        name for name, layer in layers.items() if name.endswith("weight") and isinstance(layer, nn.Conv2d | nn.Linear)
    }


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("adam", partial(torch.optim.Adam, fused=True)),
        ("adamw", partial(torch.optim.AdamW, fused=True)),
        ("sgd", partial(torch.optim.SGD, momentum=0.9)),
    ],
)
def test_optimizer_steps_as_torch_and_loads_its_state(kind: Any, reference: Any, decay: float) -> None:
    networks = [nn.Linear(5, 3), nn.Linear(5, 3)]
    networks[1].load_state_dict(networks[0].state_dict())
    config = TrainingConfig(optimizer=kind, weight_decay=decay)

    def make() -> Optimizer:
        return make_optimizer([{"params": list(networks[0].parameters())}], config, 0.05)

    optimizer = make()
    expected = reference(networks[1].parameters(), lr=0.05, weight_decay=decay)
    for step in range(6):
        for network, either_optimizer in zip(networks, (optimizer, expected), strict=True):
            generator = torch.Generator().manual_seed(step)
            either_optimizer.zero_grad()
            parameters = list(network.parameters())
            for parameter in parameters[: 1 if step == 0 else 2]:  # at first the bias has no gradient
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            either_optimizer.step()
        for actual, reference_parameter in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
            assert torch.equal(actual, reference_parameter)
        if step == 2:  # as a training that an older version began is resumed
            optimizer = make()
            optimizer.load_state_dict(deepcopy(expected.state_dict()))
