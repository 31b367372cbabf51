"""Optimisers and learning rate schedules."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from logit_correction.config import TrainingConfig


def make_optimizer(groups: list[dict[str, Any]], config: TrainingConfig, learning_rate: float) -> torch.optim.Optimizer:
    """Build the optimiser of one stage.

    Args:
        groups: ``Algorithm.parameter_groups()``.
        config: Optimiser, weight decay, schedule.
        learning_rate: Of a group whose ``learning_rate_scale`` is 1.
    """
    prepared = []
    for group in groups:
        start = learning_rate * group.get("learning_rate_scale", 1.0)
        prepared.append({"schedule": config.schedule, **group, "lr": start, "start": start})
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            prepared, lr=learning_rate, momentum=config.sgd_momentum, weight_decay=config.weight_decay
        )
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(prepared, lr=learning_rate, weight_decay=config.weight_decay, fused=True)


def scheduled_factor(schedule: str, step: int, total_steps: int, config: TrainingConfig) -> float:
    """Return what the learning rate is multiplied by in ``step`` (0-based) of ``total_steps``.

    >>> scheduled_factor("cosine", 5, 10, TrainingConfig())
    0.5
    >>> scheduled_factor("step", 10_000, 50_000, TrainingConfig())
    0.5
    """
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * step / total_steps))
    if schedule == "step":
        return float(config.step_factor ** (step // config.step_every))
    return 1.0


def set_learning_rates(groups: Iterable[dict[str, Any]], step: int, total_steps: int, config: TrainingConfig) -> None:
    """Set every group's learning rate for ``step`` of its stage."""
    for group in groups:
        group["lr"] = group["start"] * scheduled_factor(group["schedule"], step, total_steps, config)
