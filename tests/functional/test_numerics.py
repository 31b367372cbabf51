"""Losses and priors: every precision, great logits, zeros in the prior, one row, two to two thousand labels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.functional.prior import LEAST_LOG
from logit_correction.losses import LogitCorrectedLoss
from logit_correction.prior import GroupPrior

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
sizes = st.sampled_from([2, 3, 17, 2000])
rows = st.sampled_from([1, 2, 9])
dtypes = st.sampled_from(DTYPES)
scales = st.sampled_from([1.0, 100.0, 1e4])
seeds = st.integers(0, 10_000)


def drawn(count: int, labels: int, scale: float, dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    """Logits (B, L) between -scale and scale in a precision, and labels."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * (2 * torch.rand(count, labels, generator=generator, dtype=torch.float64) - 1)
    return logits.to(dtype), torch.randint(labels, (count,), generator=generator)


@settings(deadline=None, max_examples=30)
@given(count=rows, labels=sizes, dtype=dtypes, scale=scales, seed=seeds, strength=st.sampled_from([0.0, 0.5, 1.0]))
def test_priors_with_zeros_give_finite_losses_and_gradients(
    count: int, labels: int, dtype: torch.dtype, scale: float, seed: int, strength: float
) -> None:
    logits, label = drawn(count, labels, scale, dtype, seed)
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(labels, 3, generator=generator) * (torch.rand(labels, 3, generator=generator) < 0.5)
    table[0, 0] = 1.0
    table[:, 2] = 0.0  # an attribute value that nobody has
    attribute = torch.randint(-1, 3, (count,), generator=generator)
    table[label[0]] = 0.0  # a label that nobody has, and yet a row's own
    if bool(table.sum() == 0):
        table[1 - min(1, int(label[0])), 0] = 1.0
    logits.requires_grad_()
    loss = LogitCorrectedLoss(table, strength)(logits, label, attribute)
    loss.backward()
    assert bool(loss.isfinite()) and logits.grad is not None and bool(logits.grad.isfinite().all())
    plain = cross_entropy(logits.detach().double(), label)
    slack = 64 * torch.finfo(dtype).eps * max(1.0, scale)
    assert abs(float(loss.detach()) - float(plain)) <= -LEAST_LOG * strength + slack


@pytest.mark.parametrize("averaging", ["moving", "batch", "dataset"])
@pytest.mark.parametrize("estimator", ["joint", "cell", "algorithm-1"])
@pytest.mark.parametrize(("dtype", "labels"), [(torch.float16, 2), (torch.bfloat16, 17), (torch.float32, 300)])
def test_an_estimated_prior_stays_a_table_of_shares(
    labels: int, dtype: torch.dtype, estimator: Any, averaging: Any
) -> None:
    prior = GroupPrior(labels, labels, estimator=estimator, averaging=averaging, momentum=0.9)
    for step in range(3):
        logits, label = drawn(9, labels, 1e4 if step else 1.0, dtype, step)
        prior.update(label, logits.softmax(1))
    prior.end_epoch()
    eps = torch.finfo(dtype).eps
    assert prior.table.dtype == torch.float32 and bool(((prior.table >= 0) & (prior.table <= 1 + 8 * eps)).all())
    assert bool(prior.log_for_attribute(torch.arange(-1, labels)).isfinite().all())
    if estimator == "joint":
        assert abs(float(prior.table.double().sum()) - 1) <= 64 * eps + 1e-5
