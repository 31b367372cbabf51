"""Optimisers and schedules in closed form, and what the loop does to networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from logit_correction.methods.erm import ERM
from logit_correction.networks.small import ConvNet
from logit_correction.training.config import TrainingConfig
from logit_correction.training.fit import make_optimizer
from logit_correction.types import DataInfo

INFO = DataInfo(num_labels=3, num_rows=48, input_shape=(3, 8, 8))


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_weight_decay_can_leave_out_biases_and_normalisation(kind: Any) -> None:
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
