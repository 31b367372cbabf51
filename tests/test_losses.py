"""The logit-corrected loss as a module: against its formula in float64, and against the functional form."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.losses import GroupPrior, LogitCorrectedLoss

COUNTS = torch.tensor([[45.0, 5.0, 1.0], [5.0, 45.0, 3.0]])


def draw_rows(count: int = 40) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(count, 2, generator=generator)
    label = torch.randint(2, (count,), generator=generator)
    return logits, label, torch.randint(-1, 3, (count,), generator=generator)


def reference_corrected_loss(
    logits: Tensor, label: Tensor, attribute: Tensor, counts: Tensor, strength: float
) -> float:
    """-log of softmax(logits + strength log P(., a))_y, row by row in float64; unknown rows are not corrected."""
    total = 0.0
    for row, y, a in zip(logits.double().tolist(), label.tolist(), attribute.tolist(), strict=True):
        weights = [
            math.exp(value) * (float(counts[k, a] / counts.sum()) ** strength if a >= 0 else 1.0)
            for k, value in enumerate(row)
        ]
        total -= math.log(weights[y] / sum(weights))
    return total / len(label)


@pytest.mark.parametrize("strength", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("form", ["counts", "prior"])
def test_loss_equals_reference_corrected_cross_entropy(form: str, strength: float) -> None:
    prior = GroupPrior(2, 3, averaging="fixed", floor=0.0)
    prior.set_table(COUNTS / COUNTS.sum())
    loss = LogitCorrectedLoss(COUNTS if form == "counts" else prior, strength)
    actual = loss(*draw_rows())
    assert float(actual) == pytest.approx(reference_corrected_loss(*draw_rows(), COUNTS, strength), rel=1e-5)


def test_loss_uses_a_prior_that_is_updated() -> None:
    prior = GroupPrior(2, 3)
    loss = LogitCorrectedLoss(prior)
    before = loss(*draw_rows())
    prior.set_table(COUNTS / COUNTS.sum())
    assert not torch.equal(loss(*draw_rows()), before)
    expected = reference_corrected_loss(*draw_rows(), COUNTS / COUNTS.sum() + prior.floor, 1.0)
    assert float(loss(*draw_rows())) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_label_smoothing_is_proportional_to_the_prior(reduction: Any) -> None:
    logits, label, attribute = draw_rows()
    loss = LogitCorrectedLoss(COUNTS, reduction=reduction, label_smoothing=0.1)
    table = torch.cat([COUNTS, torch.ones(2, 1)], dim=1).double()  # of an unknown attribute all labels are alike
    prior = (table / table.sum(0)).T[attribute]
    target = 0.9 * torch.nn.functional.one_hot(label, 2) + 0.1 * prior
    losses = -((logits + prior.log()).log_softmax(1) * target).sum(1)
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
    torch.testing.assert_close(loss(logits, label, attribute), expected.float())
    # Without a prior it is torch's smoothing.
    plain = torch.nn.CrossEntropyLoss(reduction=reduction, label_smoothing=0.1)(logits, label)
    torch.testing.assert_close(loss(logits, label, torch.full_like(attribute, -1)), plain)
    label[::3] = -100  # rows that do not count
    plain = torch.nn.CrossEntropyLoss(reduction=reduction, label_smoothing=0.1)(logits, label)
    torch.testing.assert_close(loss(logits, label, torch.full_like(attribute, -1)), plain)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.int64])
def test_attributes_of_any_integer_type_are_accepted_and_others_refused(kind: torch.dtype) -> None:
    loss = LogitCorrectedLoss(torch.tensor([[45.0, 5.0], [5.0, 45.0]]))
    logits = torch.zeros(3, 2)
    label = torch.tensor([0, 0, 1])
    attribute = torch.tensor([0, 1, 1])
    torch.testing.assert_close(loss(logits, label.to(kind), attribute.to(kind)), loss(logits, label, attribute))
    for other in (attribute.float(), attribute.bool(), attribute.tolist(), None):
        with pytest.raises(TypeError, match="tensor of whole numbers"):
            loss(logits, label, other)


@settings(max_examples=20)
@given(
    count=st.sampled_from([1, 2, 9]),
    labels=st.sampled_from([2, 3, 17, 2000]),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
    scale=st.sampled_from([1.0, 100.0, 1e4]),
    seed=st.integers(0, 10_000),
    strength=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_priors_with_zeros_give_finite_losses_and_gradients(
    count: int, labels: int, dtype: torch.dtype, scale: float, seed: int, strength: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = (scale * (2 * torch.rand(count, labels, generator=generator, dtype=torch.float64) - 1)).to(dtype)
    label = torch.randint(labels, (count,), generator=generator)
    table = torch.rand(labels, 3, generator=generator) * (torch.rand(labels, 3, generator=generator) < 0.5)
    table[0, 0] = 1.0
    table[:, 2] = 0.0  # an attribute value without rows
    attribute = torch.randint(-1, 3, (count,), generator=generator)
    table[label[0]] = 0.0  # a label with prior 0 that is the label of a row
    if bool(table.sum() == 0):
        table[1 - min(1, int(label[0])), 0] = 1.0
    logits.requires_grad_()
    loss = LogitCorrectedLoss(table, strength)(logits, label, attribute)
    loss.backward()
    assert bool(loss.isfinite()) and logits.grad is not None and bool(logits.grad.isfinite().all())
    plain = cross_entropy(logits.detach().double(), label)
    slack = 64 * torch.finfo(dtype).eps * max(1.0, scale)
    assert abs(float(loss.detach()) - float(plain)) <= 30 * strength + slack  # the least log prior is -30


def test_label_weights_equal_those_of_torch() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(9, 3, generator=draw)
    label = torch.tensor([0, 1, 2] * 2 + [-100, 0, 1])
    attribute = torch.tensor([0, 1, -1] * 3)
    weight = torch.tensor([1.0, 5.0, 0.5])
    prior = torch.tensor([[4.0, 1.0], [1.0, 4.0], [2.0, 2.0]])
    for reduction in ("mean", "sum", "none"):
        loss = LogitCorrectedLoss(prior, weight=weight, reduction=reduction)
        expected = cross_entropy(logits + loss.offset(attribute), label, weight, reduction=reduction)
        torch.testing.assert_close(loss(logits, label, attribute), expected)


@pytest.mark.parametrize("weight", [[1.0, 2.0], [1.0] * 4, [1.0, -1.0, 1.0], [[1.0, 1.0, 1.0]]])
def test_weights_that_are_not_one_for_each_label_are_refused(weight: list[float]) -> None:
    with pytest.raises(ValueError, match=r"for each label, in the shape \(3,\)"):
        LogitCorrectedLoss(torch.ones(3, 2), weight=weight)
    assert LogitCorrectedLoss(torch.ones(3, 2), weight=[1, 2, 3]).weight is not None


@pytest.mark.parametrize("label", [torch.tensor([0.0, 1.0]), torch.tensor([[0], [1]]), torch.tensor([[0.0], [1.0]])])
def test_labels_of_a_wrong_shape_or_type_are_refused(label: torch.Tensor) -> None:
    with pytest.raises(TypeError, match="label must be a tensor of whole numbers"):
        LogitCorrectedLoss(torch.eye(2) + 1)(torch.zeros(2, 2), label, torch.tensor([0, 1]))
