"""Group metrics against fairlearn, scipy and plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from logit_correction.functional import (
    group_accuracy,
    group_balanced_accuracy,
    group_count,
    group_margin,
    group_mean,
    group_membership,
    worst_group_accuracy,
)


def draw_rows(seed: int, rows: int, labels: int, attributes: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    prediction = torch.randint(0, labels, (rows,), generator=generator)
    label = torch.randint(0, labels, (rows,), generator=generator)
    return prediction, label, torch.randint(0, attributes, (rows,), generator=generator)


@pytest.mark.parametrize(
    ("label", "attribute", "message"),
    [(2, 0, "label"), (-1, 0, "label"), (0, 3, "attribute"), (0, -2, "attribute")],
)
def test_group_membership_refuses_indices_out_of_range(label: int, attribute: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"Every {message} must lie between"):
        group_membership(torch.tensor([label]), torch.tensor([attribute]), 2, 3)


def test_arrays_of_different_lengths_are_refused() -> None:
    three_rows = torch.tensor([0, 1, 1])
    one_row = torch.tensor([0])
    groups = group_membership(three_rows, three_rows, 2, 2)
    for prediction, label in ((one_row, three_rows), (one_row, one_row)):  # which torch would spread over all rows
        with pytest.raises(ValueError, match="There are"):
            group_balanced_accuracy(prediction, label, groups)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(0, 40),
    labels=st.integers(1, 4),
    attributes=st.integers(1, 4),
)
def test_group_metrics_of_sparse_and_dense_membership_are_equal(
    seed: int, rows: int, labels: int, attributes: int
) -> None:
    prediction, label, attribute = draw_rows(seed, rows, labels, attributes + 1)
    arguments = (label, attribute - 1, labels, attributes)
    dense = group_membership(*arguments)
    sparse = group_membership(*arguments, sparse=True)
    assert sparse.is_sparse and torch.equal(sparse.to_dense(), dense)
    values = torch.randn(rows, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(group_count(dense), dense.sum(0)) and torch.equal(group_count(sparse), dense.sum(0))
    for group in range(labels * attributes):
        group_values = values[dense[:, group]]
        least = group_values.min() if len(group_values) else torch.tensor(math.nan)
        for membership in (dense, sparse):
            torch.testing.assert_close(group_margin(values, membership)[group], least, equal_nan=True)
            torch.testing.assert_close(
                group_mean(values, membership)[group], group_values.double().mean(), equal_nan=True
            )
    for metric in (group_accuracy, group_balanced_accuracy, worst_group_accuracy):
        values_of_both = (metric(prediction, label, membership) for membership in (dense, sparse))
        torch.testing.assert_close(*values_of_both, equal_nan=True)
