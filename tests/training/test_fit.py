"""What the loop does, against a plain loop written out here, and what it refuses."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.data.loading import BatchLoader
from logit_correction.errors import TrainingError
from logit_correction.methods.base import Algorithm
from logit_correction.methods.erm import ERM
from logit_correction.networks.small import MLP
from logit_correction.seeds import derive_seed
from logit_correction.training.record import read_checkpoint
from logit_correction.types import Batch, Step


class TwoNetworks(Algorithm):
    """Two networks with learning rates of their own; that of the second stays constant or falls to 0 in two epochs."""

    def __init__(self, network: Any, info: Any, *, is_constant: bool = True, seed: int = 0) -> None:
        super().__init__(network, info, seed=seed)
        self.other = self.build(network, "other")
        self.schedule = {"schedule": "none"} if is_constant else {"schedule": "linear", "schedule_epochs": 2}

    def forward(self, batch: Batch, epoch: float) -> Step:
        losses = [
            cross_entropy(network_of_two(batch.inputs), batch.label) for network_of_two in (self.network, self.other)
        ]
        return Step(losses[0] + 10 * losses[1], {"loss_other": losses[1].detach()})

    def parameter_groups(self) -> list[dict[str, object]]:
        other = {"params": list(self.other.parameters()), "name": "other", "learning_rate_scale": 0.1}
        return [*super().parameter_groups(), {**other, **self.schedule}]


def reference_training_loop(fit: Any, clip: float) -> list[float]:
    """Train a copy of the fit's algorithm step by step with SGD; return the losses."""
    algorithm = fit.algorithm
    config = fit.config
    losses = []
    momentum = {}
    loader = BatchLoader(
        fit.table,
        "train",
        batch_size=config.batch_size,
        seed=derive_seed(config.seed, "stage", 0),
        shuffle=True,
        drop_last=config.drop_last,
    )
    total = config.epochs * len(loader)
    for epoch in range(config.epochs):
        for number, batch in enumerate(loader.epoch(epoch)):
            step = epoch * len(loader) + number
            algorithm.zero_grad()
            loss = algorithm(batch, epoch + number / len(loader)).loss
            loss.backward()
            losses.append(float(loss.detach()))
            cosine = config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / total))
            is_constant = algorithm.schedule["schedule"] == "none"
            linear = 1.0 if is_constant else max(0.0, 1 - step / (2 * len(loader)))
            rates = {"network": cosine, "other": 0.1 * config.learning_rate * linear}
            for name, module in (("network", algorithm.network), ("other", algorithm.other)):
                norm = math.sqrt(sum(float(p.grad.square().sum()) for p in module.parameters()))
                factor = min(1.0, clip / norm) if clip else 1.0
                for place, parameter in enumerate(module.parameters()):
                    key = (name, place)
                    momentum[key] = 0.9 * momentum.get(key, 0) + factor * parameter.grad
                    parameter.data -= rates[name] * momentum[key]
    return losses


@pytest.mark.parametrize(("clip", "is_constant", "drop_last"), [(0.0, True, False), (0.4, False, True)])
def test_fit_equals_reference_loop_with_schedules_and_clipping_per_network(
    clip: float, is_constant: bool, drop_last: bool, make_table, trainer
) -> None:
    table = make_table()
    config = {"optimizer": "sgd", "learning_rate": 0.05, "gradient_clip": clip, "log_every": 1, "batch_size": 20}
    fit = trainer.fit(table, TwoNetworks, options={"is_constant": is_constant}, drop_last=drop_last, **config)
    reference = copy.copy(fit)
    reference.algorithm = copy.deepcopy(fit.algorithm)
    losses = reference_training_loop(reference, clip)
    fit.run()
    for actual, expected in zip(fit.algorithm.parameters(), reference.algorithm.parameters(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)
    assert [row["loss"] for row in fit.record.rows if "loss" in row] == pytest.approx(losses, rel=1e-4)
    assert len(losses) == 3 * (2 if drop_last else 3)  # of 48 rows


def test_selection_rule_keeps_the_weights_of_the_best_validation_metric(make_table, trainer) -> None:
    # Validation labels are moved on by one, so the more is learned, the worse the figures.
    table = make_table()
    table.label[table.split["valid"]] = (table.label[table.split["valid"]] + 1) % 3
    states: list[dict[str, Tensor]] = []

    class Watched(ERM):
        def end_epoch(self) -> list[str]:
            states.append({k: v.clone() for k, v in self.network.state_dict().items()})
            return []

    rules = ["valid_average", "valid_worst_class", "valid_group_balanced", "valid_worst_group"]
    fits = {rule: trainer.fit(table, Watched, place=rule, epochs=10, selection=rule) for rule in rules}
    for fit in fits.values():
        states.clear()
        fit.run()
    rows = table.split["valid"]
    label = table.label[rows]
    attribute = table.attribute[rows]
    scores: dict[str, list[float]] = {rule: [] for rule in rules}
    for state in states:
        network = MLP(table.info, hidden=(8, 8))
        network.load_state_dict(state)
        right = (network(table.inputs.fetch(rows)).argmax(1) == label).double()
        classes = [float(right[label == y].mean()) for y in range(3)]
        groups = [right[(label == y) & (attribute == a)] for y in range(3) for a in range(3)]
        groups = [float(group.mean()) for group in groups if len(group)]
        values = (float(right.mean()), min(classes), sum(groups) / len(groups), min(groups))
        for rule, value in zip(rules, values, strict=True):
            scores[rule].append(value)
    for rule, fit in fits.items():
        logged = [row[rule] for row in fit.record.rows if rule in row]
        assert logged == pytest.approx(scores[rule])
        (best,) = fit.progress.best.values()
        assert best.score == max(logged) and best.epoch == len(logged) - logged[::-1].index(max(logged))
        for key, value in states[best.epoch - 1].items():
            assert torch.equal(best.state[f"network.{key}"], value)
    assert min(best.epoch for fit in fits.values() for best in fit.progress.best.values()) < 10


class NonFiniteLoss(ERM):
    """The loss of one step is not finite; its first steps are counted."""

    def __init__(self, network: Any, info: Any, *, at: int, value: float = math.nan, seed: int = 0) -> None:
        super().__init__(network, info, seed=seed)
        self.at = at
        self.value = value
        self.count = 0

    def forward(self, batch: Batch, epoch: float) -> Step:
        self.count += 1
        step = super().forward(batch, epoch)
        return Step(step.loss * (self.value if self.count == self.at else 1.0), step.logs)


@pytest.mark.parametrize(("at", "value"), [(1, math.inf), (3, math.nan), (6, math.inf)])
def test_non_finite_loss_stops_the_run_and_names_the_step(at: int, value: float, make_table, trainer) -> None:
    table = make_table()
    fit = trainer.fit(table, NonFiniteLoss, options={"at": at, "value": value}, checkpoint_seconds=0)
    with pytest.raises(TrainingError, match=f"loss became (nan|inf) at step {at}: lower `learning_rate`"):
        fit.run()
    if at <= 2:  # rows are written, and checkpoints with them, every second step
        assert not fit.checkpoint_path.exists()
        return
    checkpoint = read_checkpoint(fit.checkpoint_path)
    assert 0 < checkpoint["progress"]["total_steps"] < at
    assert all(bool(torch.isfinite(v).all()) for v in checkpoint["algorithm"].values() if isinstance(v, Tensor))


class NonFiniteGradient(ERM):
    """Its loss is finite, its gradient is not."""

    def forward(self, batch: Batch, epoch: float) -> Step:
        step = super().forward(batch, epoch)
        return Step(step.loss + (0 * self.network.head.weight).sqrt().sum(), step.logs)


def test_non_finite_weights_are_never_saved(make_table, trainer) -> None:
    fit = trainer.fit(make_table(), NonFiniteGradient, checkpoint_seconds=0)
    with pytest.raises(TrainingError, match=r"loss became|not finite"):
        fit.run()
    assert not fit.checkpoint_path.exists()
