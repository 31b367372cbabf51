"""Losses and margins against closed forms in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from logit_correction.functional import generalized_cross_entropy, logit_corrected_cross_entropy, margin


def draw_rows(seed: int, rows: int = 16, labels: int = 5, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, labels, generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, labels, (rows,), generator=generator)


def compute_probability(row: list[float], label: int) -> float:
    top = max(row)
    return math.exp(row[label] - top) / sum(math.exp(value - top) for value in row)


@pytest.mark.parametrize("q", [0.05, 0.3, 0.7, 0.8, 1.0])
def test_generalized_cross_entropy_equals_equation_3(q: float) -> None:
    logits, label = draw_rows(0)
    expected = [
        (1 - compute_probability(row, y) ** q) / q for row, y in zip(logits.tolist(), label.tolist(), strict=True)
    ]
    actual = generalized_cross_entropy(logits, label, q=q)
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [200.0, 2000.0])
def test_gradient_of_generalized_cross_entropy_is_finite_near_p_0_and_p_1(dtype: torch.dtype, size: float) -> None:
    logits = torch.tensor([[size, -size, 0.0], [-size, size, 0.0]], dtype=dtype, requires_grad=True)
    loss = generalized_cross_entropy(logits, torch.tensor([1, 1]))
    loss.sum().backward()
    assert logits.grad is not None and bool(logits.grad.isfinite().all())
    assert logits.grad[0].abs().max() < 1e-6  # an impossible row is ignored, not fought
    torch.testing.assert_close(loss.detach(), torch.tensor([1 / 0.7, 0.0], dtype=dtype))


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), labels=st.integers(2, 6), scale=st.floats(0.1, 20.0))
def test_corrected_cross_entropy_equals_equations_7_and_8(seed: int, labels: int, scale: float) -> None:
    logits, label = draw_rows(seed, rows=4, labels=labels, scale=scale)
    prior = torch.rand(4, labels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 1e-6
    actual = logit_corrected_cross_entropy(logits, label, prior.log())
    for i, y in enumerate(label.tolist()):
        f = logits[i].tolist()
        p = prior[i].tolist()
        eq_7 = math.log(sum(math.exp(f[k]) * p[k] for k in range(labels))) - f[y] - math.log(p[y])
        pairs = (math.exp(f[k] - f[y] + math.log(p[k] / p[y])) for k in range(labels) if k != y)
        eq_8 = math.log1p(sum(pairs))
        assert actual[i].item() == pytest.approx(eq_7, rel=1e-9, abs=1e-9)
        assert actual[i].item() == pytest.approx(eq_8, rel=1e-9, abs=1e-9)


def test_margin_equals_appendix_c() -> None:
    logits, label = draw_rows(8)
    expected = [
        row[y] - max(value for j, value in enumerate(row) if j != y)
        for row, y in zip(logits.tolist(), label.tolist(), strict=True)
    ]
    actual = margin(logits, label)
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64))
    assert torch.equal(actual > 0, logits.argmax(dim=1) == label)
