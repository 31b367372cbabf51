"""The preset ``paper`` against formulas of the published training, written out in NumPy and plain torch.

The reference implementations call nothing of the package. They follow the facts of the published code and the paper:
the biased network's learning rate, the prior of cells without rows, its floor and its columns, the factor q of the
generalized cross-entropy, the ramp of Group MixUp, and the order of the updates.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from logit_correction import LC, Batch, DataInfo, TrainingRows
from logit_correction.functional import generalized_cross_entropy, ramp_up_mixing_strength
from logit_correction.losses import GroupPrior
from logit_correction.runs.options import complete_config
from logit_correction.seeds import StepRandomness
from logit_correction.training.config import TrainingConfig
from logit_correction.training.fit import compute_schedule_factor, make_optimizer

LABELS = 3
FEATURES = 5
ROWS = 12
# both of the published code
EXTRA_ROWS = 1e-4
FLOOR = 1e-4


class ReferencePrior:
    """The published prior with loops over rows: a table (L, L) of mean p_y(x) for each label and predicted label."""

    def __init__(self, averaging: str, momentum: float, normalize_columns: bool) -> None:
        self.averaging = averaging
        self.momentum = momentum
        self.normalize_columns = normalize_columns
        self.table = np.zeros((LABELS, LABELS))
        self.visited = np.zeros((LABELS, LABELS), dtype=bool)

    def update(self, label: np.ndarray, probability: np.ndarray) -> None:
        predicted = probability.argmax(axis=1)
        if self.averaging == "moving-rows":
            for y, a, p in zip(label, predicted, probability, strict=True):
                past = self.table[y, a] if self.visited[y, a] else p[y]
                self.table[y, a] = self.momentum * past + (1 - self.momentum) * p[y]
                self.visited[y, a] = True
            return
        for y in range(LABELS):
            for a in range(LABELS):
                rows = (label == y) & (predicted == a)
                mean = probability[rows, y].sum() / (rows.sum() + EXTRA_ROWS)
                past = self.table[y, a]
                self.table[y, a] = mean if self.averaging == "batch" else self._blend(past, mean)

    def _blend(self, past: float, new: float) -> float:
        return self.momentum * past + (1 - self.momentum) * new

    def columns(self, attribute: np.ndarray) -> np.ndarray:
        """P(., a) of each row's attribute, (B, L)."""
        table = self.table.copy()
        if self.normalize_columns:
            for a in range(LABELS):
                if table[:, a].sum() > 0:
                    table[:, a] = table[:, a] / table[:, a].sum()
        return table[:, attribute].T


def draw_batches(count: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Labels and probabilities of batches; the combination of label 0 and attribute 2 is in every fifth batch alone."""
    generator = np.random.default_rng(seed)
    batches = []
    for number in range(count):
        label = generator.integers(0, LABELS, ROWS)
        logits = 2 * generator.standard_normal((ROWS, LABELS))
        logits[label == 0, 2] -= 50 if number % 5 else 0
        probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        batches.append((label, probability))
    return batches


@pytest.mark.parametrize("normalize_columns", [False, True])
@pytest.mark.parametrize("averaging", ["batch", "moving", "moving-rows"])
def test_published_prior_equals_reference_with_empty_groups(averaging: Any, normalize_columns: bool) -> None:
    reference = ReferencePrior(averaging, 0.5, normalize_columns)
    prior = GroupPrior(
        LABELS,
        LABELS,
        estimator="published",
        averaging=averaging,
        momentum=0.5,
        floor=FLOOR,
        normalize_columns=normalize_columns,
    ).double()
    empty_groups = 0
    for label, probability in draw_batches(20):
        reference.update(label, probability)
        prior.update(torch.from_numpy(label), torch.from_numpy(probability))
        attribute = probability.argmax(axis=1)
        empty_groups += LABELS**2 - len(set(zip(label.tolist(), attribute.tolist(), strict=True)))
        torch.testing.assert_close(prior.table, torch.from_numpy(reference.table), rtol=1e-9, atol=1e-12)
        columns = torch.from_numpy(reference.columns(attribute))
        torch.testing.assert_close(prior.for_attribute(torch.from_numpy(attribute)), columns, rtol=1e-9, atol=1e-12)
        expected = torch.log(columns + FLOOR)  # from which the package subtracts each row's maximum
        expected = expected - expected.amax(dim=1, keepdim=True)
        torch.testing.assert_close(prior.log_for_attribute(torch.from_numpy(attribute)), expected)
    assert empty_groups > 20


def test_only_the_published_prior_counts_a_group_without_rows_as_zero() -> None:
    label = torch.tensor([0, 1])
    probability = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    values = {}
    for estimator in ("published", "cell"):
        for averaging in ("batch", "moving"):
            prior = GroupPrior(2, 2, estimator=estimator, averaging=averaging, momentum=0.5)  # type: ignore[arg-type]
            prior.update(torch.tensor([0]), torch.tensor([[0.3, 0.7]]))  # the one row of label 0 with attribute 1
            prior.update(label, probability)
            values[estimator, averaging] = round(float(prior.table[0, 1]), 3)
    assert values["published", "batch"] == 0.0
    assert values["published", "moving"] == 0.075  # 0.3 / 2 / 2
    assert values["cell", "batch"] == 0.25  # as before the first batch
    assert values["cell", "moving"] == 0.3


def test_generalized_cross_entropy_with_and_without_the_factor_q() -> None:
    q = 0.7
    label = torch.tensor([0, 2, 1])
    logits = torch.randn(3, LABELS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    probability = logits.softmax(dim=1)
    label_probability = probability.gather(1, label[:, None])
    cross_entropy_gradient = probability - nn.functional.one_hot(label, LABELS)
    for multiply_by_q, factor in ((False, 1.0), (True, q)):
        leaf = logits.clone().requires_grad_()
        loss = generalized_cross_entropy(leaf, label, q, multiply_by_q=multiply_by_q)
        torch.testing.assert_close(loss, factor * (1 - label_probability.squeeze(1) ** q) / q)
        loss.sum().backward()
        torch.testing.assert_close(leaf.grad, factor * label_probability**q * cross_entropy_gradient)


def test_ramp_of_group_mixup_is_the_published_sigmoid() -> None:
    for epoch, length in [(0.0, 2.0), (0.5, 2.0), (1.99, 2.0), (2.0, 2.0), (7.0, 2.0), (3.0, 50.0), (0.0, 0.0)]:
        share = 1.0 if length == 0 else min(epoch, length) / length
        strength = math.exp(-5 * (1 - share) ** 2)
        assert ramp_up_mixing_strength(epoch, length) == pytest.approx(strength / 2)


#: What the published code has on Waterbirds alone.
WATERBIRDS = {
    "attributes": {"q": 0.8, "temperature": 0.1, "loss_weight": 2, "weight_decay": 0.0},
    "prior": {"averaging": "batch", "momentum": None},
}


def build_paper_method(seed: int, options: dict[str, Any]) -> LC:
    """LC by the preset ``paper``, both networks linear and in float64; the biased one predicts the attribute."""
    config = complete_config({"preset": "paper", "data": {"name": "Digits"}, "method": options})
    info = DataInfo(num_labels=LABELS, num_rows=ROWS, input_shape=(FEATURES,), num_attributes=LABELS)
    method: LC = config.method.make(lambda: nn.Linear(FEATURES, LABELS), info, seed=seed)
    method = method.double()
    with torch.no_grad():
        method.attributes.network.weight.copy_(torch.cat((2 * torch.eye(3), torch.zeros(3, 2)), dim=1))
    method.setup(TrainingRows(torch.arange(ROWS) % LABELS))
    method.begin_stage(0, None)
    return method


def draw_training_batch(seed: int) -> Batch:
    """Four rows of each label, one of them bias-conflicting, so that its partners are determined."""
    label = torch.arange(ROWS) % LABELS
    attribute = torch.where(torch.arange(ROWS) < LABELS, (label + 1) % LABELS, label)
    shows_attribute = nn.functional.one_hot(attribute, LABELS).double()
    noise = torch.randn(ROWS, FEATURES - LABELS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return Batch(torch.cat((shows_attribute, noise), dim=1), label, torch.arange(ROWS))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax of each row."""
    exponential = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponential / exponential.sum(axis=1, keepdims=True)


class ReferenceOptimizer:
    """SGD without momentum, or Adam, on one linear network (weight, bias)."""

    def __init__(self, name: str, learning_rate: float, weight_decay: float = 0.0) -> None:
        self.name = name
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.mean: list[Any] = [0.0, 0.0]
        self.square: list[Any] = [0.0, 0.0]
        self.steps = 0

    def step(self, parameters: list[np.ndarray], gradients: list[np.ndarray]) -> list[np.ndarray]:
        self.steps += 1
        return [self._update(i, value, gradients[i] + self.weight_decay * value) for i, value in enumerate(parameters)]

    def _update(self, i: int, value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        if self.name == "sgd":
            return value - self.learning_rate * gradient
        self.mean[i] = 0.9 * self.mean[i] + 0.1 * gradient
        self.square[i] = 0.999 * self.square[i] + 0.001 * gradient**2
        mean = self.mean[i] / (1 - 0.9**self.steps)
        square = self.square[i] / (1 - 0.999**self.steps)
        return value - self.learning_rate * mean / (np.sqrt(square) + 1e-8)


@pytest.mark.parametrize(
    ("optimizer_name", "options"), [("sgd", {}), ("adam", {}), ("sgd", WATERBIRDS)], ids=["sgd", "adam", "waterbirds"]
)
def test_steps_of_the_paper_preset_equal_the_published_training(optimizer_name: Any, options: dict[str, Any]) -> None:
    is_waterbirds = options is WATERBIRDS
    q = 0.8 if is_waterbirds else 0.7
    temperature = 0.1 if is_waterbirds else 1.0
    loss_weight = 2 if is_waterbirds else 1
    weight_decay = 0.1 if is_waterbirds else 0.0  # of the robust network alone
    learning_rate = 1e-2
    method = build_paper_method(seed=3, options=options)
    robust = [value.detach().numpy().copy() for value in method.network.parameters()]
    biased = [value.detach().numpy().copy() for value in method.attributes.network.parameters()]
    robust_optimizer = ReferenceOptimizer(optimizer_name, learning_rate, weight_decay)
    biased_optimizer = ReferenceOptimizer(optimizer_name, learning_rate / 10)
    prior = ReferencePrior("batch" if is_waterbirds else "moving", 0.5, normalize_columns=True)
    randomness = StepRandomness(3)  # the one thing of the package: the weight of the mix is drawn from it

    config = TrainingConfig(optimizer=optimizer_name, sgd_momentum=0.0, weight_decay=weight_decay)
    optimizer = make_optimizer(method.parameter_groups(), config, learning_rate)
    for step in range(3):
        batch = draw_training_batch(step)
        epoch = step / 2
        loss = method(batch, epoch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        inputs = batch.inputs.numpy()
        label = batch.label.numpy()
        target = np.eye(LABELS)[label]
        biased_logits = inputs @ biased[0].T + biased[1]
        probability = softmax(biased_logits)
        label_probability = probability[np.arange(ROWS), label]
        attribute = probability.argmax(axis=1)
        assert ((attribute != label) == (np.arange(ROWS) < LABELS)).all()
        prior.update(label, softmax(biased_logits / temperature))

        strength = math.exp(-5 * (1 - min(epoch, 2) / 2) ** 2)
        generator = randomness.next(torch.device("cpu"))
        weight = float(torch.empty(()).uniform_(1 - strength, 1 - strength / 2, generator=generator))
        partner = label  # row y is the bias-conflicting row of label y
        columns = prior.columns(attribute)
        mixed = weight * inputs + (1 - weight) * inputs[partner]
        mixed_columns = weight * columns + (1 - weight) * columns[partner]
        corrected = mixed @ robust[0].T + robust[1] + np.log(mixed_columns + FLOOR)

        biased_gradient = loss_weight * (q * label_probability**q)[:, None] * (probability - target) / ROWS
        robust_gradient = (softmax(corrected) - target) / ROWS
        biased = biased_optimizer.step(biased, [biased_gradient.T @ inputs, biased_gradient.sum(axis=0)])
        robust = robust_optimizer.step(robust, [robust_gradient.T @ mixed, robust_gradient.sum(axis=0)])

        for parameter, value in zip(method.network.parameters(), robust, strict=True):
            np.testing.assert_allclose(parameter.detach().numpy(), value, rtol=2e-5, atol=1e-7)
        for parameter, value in zip(method.attributes.network.parameters(), biased, strict=True):
            np.testing.assert_allclose(parameter.detach().numpy(), value, rtol=2e-5, atol=1e-7)


def test_options_of_the_biased_network_reach_its_optimizer() -> None:
    attributes = {"weight_decay": 0.0, "schedule_epochs": 1, "learning_rate_scale": 0.1, "loss_weight": 2}
    config = complete_config({"preset": "paper", "data": {"name": "Digits"}, "method": {"attributes": attributes}})
    info = DataInfo(num_labels=2, num_rows=4, input_shape=(3,))
    method = config.method.make(lambda: nn.Linear(3, 2), info, seed=0)
    training = TrainingConfig(optimizer="sgd", weight_decay=0.1, schedule="linear")
    network, biased = make_optimizer(method.parameter_groups(), training, 0.5).param_groups
    assert (network["lr"], network["weight_decay"]) == (0.5, 0.1)
    assert (biased["lr"], biased["weight_decay"], biased["schedule_epochs"]) == (0.05, 0.0, 1)
    factors = [compute_schedule_factor("linear", step, 1 * 4, training) for step in (0, 1, 4, 9)]
    assert factors == [1.0, 0.75, 0.0, 0.0]
