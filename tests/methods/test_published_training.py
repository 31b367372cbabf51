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
from torch import Tensor, nn

from logit_correction import LC, Batch, DataInfo, TrainingRows
from logit_correction.functional import generalized_cross_entropy, ramp_up
from logit_correction.losses import GroupPrior
from logit_correction.methods.parts import GroupMixUp
from logit_correction.runs.options import complete
from logit_correction.training.config import TrainingConfig
from logit_correction.training.fit import make_optimizer, scheduled_factor

LABELS, FEATURES, ROWS = 3, 5, 12
EXTRA_ROWS, FLOOR = 1e-4, 1e-4  # both of the published code


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
def test_published_prior_after_twenty_batches_with_empty_groups(averaging: Any, normalize_columns: bool) -> None:
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
        expected = torch.log(columns + FLOOR)  # of which the package takes each row's greatest value off
        expected = expected - expected.amax(dim=1, keepdim=True)
        torch.testing.assert_close(prior.log_for_attribute(torch.from_numpy(attribute)), expected)
    assert empty_groups > 20


def test_a_group_without_rows_counts_as_zero_in_the_published_prior_alone() -> None:
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
    own = probability.gather(1, label[:, None])
    cross_entropy_gradient = probability - nn.functional.one_hot(label, LABELS)
    for multiply_by_q, factor in ((False, 1.0), (True, q)):
        leaf = logits.clone().requires_grad_()
        loss = generalized_cross_entropy(leaf, label, q, multiply_by_q=multiply_by_q)
        torch.testing.assert_close(loss, factor * (1 - own.squeeze(1) ** q) / q)
        loss.sum().backward()
        torch.testing.assert_close(leaf.grad, factor * own**q * cross_entropy_gradient)


def test_ramp_of_group_mixup_is_the_published_sigmoid() -> None:
    for epoch, length in [(0.0, 2.0), (0.5, 2.0), (1.99, 2.0), (2.0, 2.0), (7.0, 2.0), (3.0, 50.0), (0.0, 0.0)]:
        share = 1.0 if length == 0 else min(epoch, length) / length
        strength = math.exp(-5 * (1 - share) ** 2)
        assert ramp_up(epoch, length) == pytest.approx(strength / 2)


def paper_options(**changes: Any) -> dict[str, Any]:
    """The options of LC by the preset ``paper``."""
    config = complete({"preset": "paper", "data": {"name": "ColoredMNIST"}, **changes})
    return dict(config.method.options)


def build_lc(options: dict[str, Any]) -> LC:
    """LC with linear networks of two layers, in float64, as the preset makes it."""
    from logit_correction.registry import component  # as a training does
    from logit_correction.attributes import ESTIMATORS
    from logit_correction.attributes.base import AttributeEstimator
    from logit_correction.methods.parts import MIXING, PRIORS, Mixing, PriorRule

    info = DataInfo(num_labels=LABELS, num_rows=ROWS, input_shape=(FEATURES,), num_attributes=LABELS)
    parts = {
        "attributes": component("attributes", options["attributes"], ESTIMATORS, AttributeEstimator),
        "prior": component("prior", options["prior"], PRIORS, PriorRule),
        "mixing": component("mixing", options["mixing"], MIXING, Mixing),
    }
    method = LC(lambda: nn.Linear(FEATURES, LABELS), info, **parts, strength=options["strength"], seed=3)
    return method.double()
