"""Attributes are drawn as often as the minority ratio says, for every kind of correlation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from logit_correction.data.digits import draw_attributes, parse_correlation
from logit_correction.types import Correlation
from logit_correction_lab.sources.published import draw_attributes_with_conflicts

KINDS = ("one-to-one", "many-to-one", "one-to-many", "many-to-many")


def make_seeded_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("kind", KINDS)
def test_parse_correlation_gives_the_named_kind_with_every_colour(kind: str) -> None:
    correlation = parse_correlation(kind, 10)
    assert correlation.kind == kind and correlation.num_labels == 10
    used = {value for row in correlation.to_table() for value in row}
    assert used == set(range(correlation.num_attributes))
    assert correlation.num_attributes == {"many-to-one": 9, "one-to-many": 11}.get(kind, 10)


def compute_expected_share(correlation: Correlation, ratio: float) -> Tensor:
    """P(a | y) of the drawing scheme, (L, K)."""
    return (1 - ratio) * correlation.weights + ratio / correlation.num_attributes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ratio", [0.2, 1.0])
def test_draw_attributes_gives_each_group_its_expected_share(kind: str, ratio: float) -> None:
    correlation = parse_correlation(kind, 10)
    per_label = 20_000
    label = torch.arange(10).repeat_interleave(per_label)
    attribute = draw_attributes(label, correlation, ratio, make_seeded_generator())
    counts = torch.stack(
        [torch.bincount(attribute[label == y], minlength=correlation.num_attributes) for y in range(10)]
    )
    assert counts.shape == (10, correlation.num_attributes)
    share = compute_expected_share(correlation, ratio)
    spread = (share * (1 - share) * per_label).sqrt()
    assert bool(((counts - share * per_label).abs() <= 5 * spread + 1e-6).all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fraction", [0.3, 1.0])
def test_draw_attributes_with_conflicts_gives_a_fixed_number_of_conflicts(kind: str, fraction: float) -> None:
    correlation = parse_correlation(kind, 10)
    label = torch.randint(10, (30_000,), generator=make_seeded_generator(3))
    attribute = draw_attributes_with_conflicts(label, correlation, fraction, make_seeded_generator(4))
    conflicting = correlation.is_minority(label, attribute)
    outside = (correlation.weights == 0).double().mean(1)
    for value in range(10):
        rows = label == value
        share = min(fraction, float(outside[value]))
        assert int(conflicting[rows].sum()) == round(share * int(rows.sum()))
