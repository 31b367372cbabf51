"""Estimates of the group prior against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction.functional import count_prior

SIZES = {"labels": st.integers(1, 4), "attributes": st.integers(1, 4), "rows": st.integers(1, 30)}


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), smoothing=st.floats(0.0, 5.0), **SIZES)
def test_count_prior_equals_smoothed_counts(
    seed: int, smoothing: float, labels: int, attributes: int, rows: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(0, labels, (rows,), generator=generator)
    attribute = torch.randint(-1, attributes, (rows,), generator=generator)
    attribute[0] = 0
    pairs = [(y, a) for y, a in zip(label.tolist(), attribute.tolist(), strict=True) if a >= 0]
    cells = [[pairs.count((y, a)) + smoothing for a in range(attributes)] for y in range(labels)]
    expected = torch.tensor(cells, dtype=torch.float64) / sum(map(sum, cells))
    actual = count_prior(label, attribute, labels, attributes, smoothing)
    assert actual.dtype == torch.get_default_dtype()
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-7)


def test_count_prior_takes_arrays_and_lists_and_needs_known_attributes() -> None:
    label = np.array([0, 0, 1])
    attribute = np.array([0, 1, -1])
    expected = torch.tensor([[0.5, 0.5], [0.0, 0.0]])
    for kind in (list, torch.from_numpy, np.asarray):
        assert torch.equal(count_prior(kind(label), kind(attribute), 2, 2), expected)
    for wrong, message in ((np.full(3, -1), "No row has"), (attribute[:2], "one shape"), (attribute / 2, "whole")):
        with pytest.raises(ValueError, match=message):
            count_prior(label, wrong, 2, 2)
