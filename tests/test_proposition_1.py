"""Proposition 1 by computation, on the example's problem and on random discrete ones."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction.functional import logit_corrected_cross_entropy

from .conftest import import_file

EXAMPLE = Path(__file__).parents[1] / "examples" / "proposition_1.py"


def test_lc_minimiser_is_the_balanced_bayes_rule_and_cross_entropy_is_not() -> None:
    bayes, corrected, plain = import_file(EXAMPLE).solve().values()
    assert torch.equal(corrected[0], bayes[0])
    assert (plain[0] == bayes[0]).double().mean() < 0.9
    assert plain[1].mean() < bayes[1].mean() - 0.1  # group-balanced accuracy
    assert plain[1].min() < bayes[1].min() - 0.3  # worst group


def test_example_prints_without_a_file_and_draws_into_a_given_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], [str(tmp_path / "figure.png")]):
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *words])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        assert capsys.readouterr().out.count("worst group") == 3
        assert len(list(tmp_path.iterdir())) == len(words)


def draw_problem(seed: int, labels: int, attributes: int, values: int) -> tuple[torch.Tensor, torch.Tensor]:
    """P(x | y, a) as (X, L, K) and P(y, a) as (L, K), each x with the one attribute value x % K."""
    generator = torch.Generator().manual_seed(seed)
    owner = torch.arange(values * attributes) % attributes
    weight = torch.rand(len(owner), labels, attributes, generator=generator, dtype=torch.float64)
    weight = (weight + 0.01) * torch.nn.functional.one_hot(owner, attributes)[:, None, :]
    prior = torch.rand(labels, attributes, generator=generator, dtype=torch.float64) ** 3 + 1e-3
    return weight / weight.sum(dim=0), prior / prior.sum()


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), labels=st.integers(2, 4), attributes=st.integers(1, 4))
def test_closed_form_minimiser_has_zero_gradient_and_greatest_group_balanced_accuracy(
    seed: int, labels: int, attributes: int
) -> None:
    input_given_group, prior = draw_problem(seed, labels, attributes, values=5)
    owner = torch.arange(len(input_given_group)) % attributes
    mass = (input_given_group * prior).sum(dim=2)  # P(x, y)
    # Free logits for each x: the loss is convex, so a zero gradient marks its minimum.
    logits = (mass.log() - prior.log()[:, owner].T).requires_grad_()
    loss = torch.zeros((), dtype=torch.float64)
    for y in range(labels):
        label = torch.full((len(mass),), y)
        loss = loss + (mass[:, y] * logit_corrected_cross_entropy(logits, label, prior.log()[:, owner].T)).sum()
    loss.backward()
    assert logits.grad is not None and logits.grad.abs().max() < 1e-12

    balanced = input_given_group.sum(dim=2)  # group-balanced accuracy adds up P(x | y, a) over what is predicted y
    reached = balanced.gather(1, logits.argmax(dim=1, keepdim=True)).sum()
    torch.testing.assert_close(reached, balanced.amax(dim=1).sum())
