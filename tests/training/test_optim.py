"""Optimisers and their schedules in closed form."""

from __future__ import annotations

import math

import pytest
import torch

from logit_correction.config import TrainingConfig
from logit_correction.training.optim import make_optimizer, scheduled_factor, set_learning_rates


def groups() -> list[dict[str, object]]:
    return [
        {"params": [torch.nn.Parameter(torch.ones(2))], "name": "a"},
        {"params": [torch.nn.Parameter(torch.ones(2))], "name": "b", "learning_rate_scale": 0.1},
        {
            "params": [torch.nn.Parameter(torch.ones(2))],
            "name": "c",
            "learning_rate_scale": 3,
            "schedule": "none",
        },
    ]


@pytest.mark.parametrize(("name", "kind"), [("adam", "Adam"), ("adamw", "AdamW"), ("sgd", "SGD")])
def test_the_optimiser_is_the_named_one_with_its_options(name: str, kind: str) -> None:
    config = TrainingConfig(optimizer=name, weight_decay=0.3, sgd_momentum=0.7)
    optimizer = make_optimizer(groups(), config, 0.2)
    assert type(optimizer).__name__ == kind
    for group, rate, schedule in zip(
        optimizer.param_groups, (0.2, 0.02, 0.6), ("cosine", "cosine", "none"), strict=True
    ):
        assert group["lr"] == group["start"] == pytest.approx(rate)
        assert group["schedule"] == schedule and group["weight_decay"] == 0.3
        assert group.get("momentum", 0.7) == 0.7


def test_cosine_falls_from_one_to_zero() -> None:
    config = TrainingConfig()
    factors = [scheduled_factor("cosine", step, 40, config) for step in range(41)]
    assert factors[0] == 1 and factors[20] == pytest.approx(0.5) and factors[40] == pytest.approx(0)
    assert factors == pytest.approx([math.cos(math.pi * step / 80) ** 2 for step in range(41)])
    assert factors == sorted(factors, reverse=True)


def test_steps_fall_by_their_factor() -> None:
    config = TrainingConfig(step_every=10, step_factor=0.2)
    factors = [scheduled_factor("step", step, 1000, config) for step in (0, 9, 10, 19, 20, 35)]
    assert factors == pytest.approx([1, 1, 0.2, 0.2, 0.04, 0.008])


def test_no_schedule_stays_at_one() -> None:
    assert {scheduled_factor("none", step, 100, TrainingConfig()) for step in range(100)} == {1.0}


def test_each_group_follows_its_own_schedule_from_its_own_start() -> None:
    config = TrainingConfig(schedule="step", step_every=2, step_factor=0.5)
    optimizer = make_optimizer(groups(), config, 0.2)
    seen = []
    for step in range(5):
        set_learning_rates(optimizer.param_groups, step, 5, config)
        seen.append([group["lr"] for group in optimizer.param_groups])
    expected = [[0.2 * f, 0.02 * f, 0.6] for f in (1, 1, 0.5, 0.5, 0.25)]
    for one, other in zip(seen, expected, strict=True):
        assert one == pytest.approx(other)


def test_the_state_of_an_optimiser_brings_its_rates_along() -> None:
    config = TrainingConfig()
    first, second = make_optimizer(groups(), config, 0.2), make_optimizer(groups(), config, 0.9)
    set_learning_rates(first.param_groups, 3, 10, config)
    second.load_state_dict(first.state_dict())
    for step in (3, 7):
        for optimizer in (first, second):
            set_learning_rates(optimizer.param_groups, step, 10, config)
        assert [g["lr"] for g in first.param_groups] == [g["lr"] for g in second.param_groups]
