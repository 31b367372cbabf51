"""Group MixUp: partners, ramp-up and mixing."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from logit_correction.functional import group_mixup, mix_rows, mixup_partner, ramp_up_mixing_strength

LABEL = torch.tensor([0, 1, 0, 1, 2, 0, 2, 2, 1, 0])
MINORITY = torch.tensor([0, 1, 1, 0, 0, 1, 0, 0, 0, 0], dtype=torch.bool)  # none with label 2


def make_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def reference_partners(label: Tensor, candidate: Tensor, row: int) -> list[int]:
    same = [i for i in range(len(label)) if label[i] == label[row]]
    return [i for i in same if candidate[i]] or same


@pytest.mark.parametrize(("epoch", "length"), [(0, 2), (1, 2), (2, 2), (3, 2), (7.5, 50), (0, 0), (4, 0)])
def test_ramp_up_equals_its_formula(epoch: float, length: float) -> None:
    progress = min(epoch / length, 1.0) if length else 1.0
    assert ramp_up_mixing_strength(epoch, length) == pytest.approx(0.5 * math.exp(-5 * (1 - progress) ** 2))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    labels=st.integers(1, 5),
    rows=st.integers(1, 40),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_mixup_partner_has_the_same_label_and_is_a_candidate_if_any_exists(
    seed: int, labels: int, rows: int, share: float
) -> None:
    generator = make_generator(seed)
    label = torch.randint(0, labels, (rows,), generator=generator)
    candidate = torch.rand(rows, generator=generator) < share
    partner = mixup_partner(label, candidate, labels, generator)
    assert partner.dtype == torch.long
    for row in range(rows):
        assert int(partner[row]) in reference_partners(label, candidate, row)


@pytest.mark.parametrize("shape", [(10,), (10, 2, 3)])
@pytest.mark.parametrize("kind", ["number", "scalar", "rows"])
def test_mix_rows_equals_a_loop_over_rows(shape: tuple[int, ...], kind: str) -> None:
    inputs = torch.randn(shape, generator=make_generator(1), dtype=torch.float64)
    partner = torch.randint(0, 10, (10,), generator=make_generator(2))
    rows = torch.rand(10, generator=make_generator(3), dtype=torch.float64)
    weight: Tensor | float = {"number": 0.3, "scalar": torch.tensor(0.3), "rows": rows}[kind]
    expected = torch.empty_like(inputs)
    for i in range(10):
        row_weight = float(rows[i]) if kind == "rows" else 0.3
        expected[i] = row_weight * inputs[i] + (1 - row_weight) * inputs[partner[i]]
    before = inputs.clone()
    torch.testing.assert_close(mix_rows(inputs, partner, weight), expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(inputs, before)


@pytest.mark.parametrize("form", ["every-row", "minority-rows"])
def test_group_mixup_mixes_inputs_and_priors_with_the_same_partners(form: str) -> None:
    inputs = torch.randn(10, 4, generator=make_generator(1), dtype=torch.float64)
    prior = torch.rand(10, 3, generator=make_generator(2), dtype=torch.float64)
    mixed, mixed_prior = group_mixup(inputs, prior, LABEL, MINORITY, weight=0.6, form=form, generator=make_generator(7))
    partner = mixup_partner(LABEL, MINORITY, 3, make_generator(7), form)
    for i, j in enumerate(partner.tolist()):
        torch.testing.assert_close(mixed[i], 0.6 * inputs[i] + 0.4 * inputs[j])
        torch.testing.assert_close(mixed_prior[i], 0.6 * prior[i] + 0.4 * prior[j])


def test_minority_rows_form_mixes_minority_rows_with_majority_rows_of_their_label() -> None:
    rows = torch.arange(len(LABEL))
    for seed in range(20):
        partner = mixup_partner(LABEL, MINORITY, 3, make_generator(seed), "minority-rows")
        assert torch.equal(partner[~MINORITY], rows[~MINORITY])
        assert not MINORITY[partner[MINORITY]].any()
        assert torch.equal(LABEL[partner], LABEL)
