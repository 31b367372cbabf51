"""The four kinds of spurious correlation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction.types import Correlation

KINDS = {
    "one-to-one": [[0], [1], [2]],
    "many-to-one": [[0], [0], [1]],
    "one-to-many": [[0, 1], [2], [3]],
    "many-to-many": [[0, 1], [1], [2]],
}


def draw_probabilities(rows: int, labels: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, labels, generator=generator, dtype=torch.float64).softmax(dim=1)


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_derived_from_the_table(kind: str) -> None:
    correlation = Correlation.from_table(KINDS[kind])
    assert correlation.kind == kind
    assert correlation.to_table() == KINDS[kind]
    assert (correlation.num_labels, correlation.num_attributes) == tuple(correlation.weights.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_posterior_equals_the_sums_of_the_paper(kind: str) -> None:
    table = KINDS[kind]
    correlation = Correlation.from_table(table)
    probs = draw_probabilities(6, 3)
    expected = torch.zeros(6, correlation.num_attributes, dtype=torch.float64)
    for i in range(6):
        for y, row in enumerate(table):
            for a in row:
                expected[i, a] += probs[i, y] / len(row)
    actual = correlation.posterior(probs)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(actual.sum(dim=1), torch.ones(6, dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
def test_minority_rows_are_those_outside_the_table(kind: str) -> None:
    table = KINDS[kind]
    correlation = Correlation.from_table(table)
    label = torch.arange(3).repeat_interleave(correlation.num_attributes)
    attribute = torch.arange(correlation.num_attributes).repeat(3)
    expected = [a not in table[y] for y, a in zip(label.tolist(), attribute.tolist(), strict=True)]
    assert correlation.is_minority(label, attribute).tolist() == expected
    assert not correlation.is_minority(label, torch.full_like(attribute, -1)).any()


@settings(max_examples=20)
@given(rows=st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=5))
def test_from_table_and_to_table_are_inverse(rows: list[set[int]]) -> None:
    table = [sorted(row) for row in rows]
    correlation = Correlation.from_table(dict(enumerate(table)), num_attributes=6)
    assert correlation.to_table() == table
    torch.testing.assert_close(correlation.weights.sum(dim=1), torch.ones(len(table), dtype=torch.float64))
    assert eval(repr(correlation)) == correlation
