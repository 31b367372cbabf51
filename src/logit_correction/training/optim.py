"""Networks on their device, optimisers and learning rate schedules."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from logit_correction.config import TrainingConfig
from logit_correction.methods.base import Algorithm


def prepare(algorithm: Algorithm, config: TrainingConfig, device: torch.device) -> None:
    """Bring a method's networks to the device, in the order of memory and compiled as the config asks."""
    algorithm.to(device)
    if config.channels_last:
        algorithm.to(memory_format=torch.channels_last)
    for network in algorithm.built if config.compile else ():
        # In place, so that names in checkpoints stay; a network's halves are called one by one where features
        # are mixed or swapped, and a head is one layer.
        features = getattr(network, "features", None)  # of a user's network it may be anything
        if isinstance(features, torch.nn.Module):
            features.compile(mode=None if config.compile is True else config.compile)
        else:
            # Without CUDA graphs, whose results the next pass overwrites: logits are kept for longer, while of
            # features the head makes logits at once.
            network.compile()


def make_optimizer(groups: list[dict[str, Any]], config: TrainingConfig, learning_rate: float) -> torch.optim.Optimizer:
    """Build the optimiser of one stage.

    Args:
        groups: ``Algorithm.parameter_groups()``.
        config: Optimiser, weight decay, schedule.
        learning_rate: Of a group whose ``learning_rate_scale`` is 1.
    """
    decay = config.weight_decay or 0.0
    if decay and not config.decay_norm_and_bias:
        groups = [part for group in groups for part in _by_decay(group)]
    starts = [learning_rate * group.get("learning_rate_scale", 1.0) for group in groups]
    prepared = [
        {"schedule": config.schedule, **group, "lr": start, "start": start}
        for group, start in zip(groups, starts, strict=True)
    ]
    if config.optimizer == "sgd":
        return torch.optim.SGD(prepared, lr=learning_rate, momentum=config.sgd_momentum, weight_decay=decay)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(prepared, lr=learning_rate, weight_decay=decay, fused=True)


def _by_decay(group: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a group: biases and the weights of normalisation, which have one dimension, do not decay."""
    parameters = list(group["params"])
    matrices = [parameter for parameter in parameters if parameter.dim() > 1]
    vectors = [parameter for parameter in parameters if parameter.dim() <= 1]
    parts = [{**group, "params": matrices}, {**group, "params": vectors, "weight_decay": 0.0}]
    return [part for part in parts if part["params"]]


def clear_gradients(groups: Iterable[dict[str, Any]]) -> None:
    """Forget all gradients, as ``zero_grad`` does, but without its hooks for profilers and compilers: 15 us a step."""
    for group in groups:
        for parameter in group["params"]:
            parameter.grad = None


def clip_gradients(groups: Iterable[dict[str, Any]], largest: float) -> None:
    """Scale the gradients of each network, whose groups have one name, to a norm of at most ``largest``."""
    networks: dict[Any, list[torch.Tensor]] = {}
    for number, group in enumerate(groups):
        networks.setdefault(group.get("name", number), []).extend(group["params"])
    for parameters in networks.values():
        torch.nn.utils.clip_grad_norm_(parameters, largest)


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
