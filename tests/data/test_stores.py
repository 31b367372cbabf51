"""Stores of inputs against a plain loop over rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from logit_correction.data.stores import ArrayStore

ROWS = torch.tensor([4, 0, 4, 2])


def random_bytes(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


@pytest.mark.parametrize("values", [torch.randn(5, 2, dtype=torch.float64), random_bytes(5, 2)])
def test_changing_a_fetched_batch_leaves_the_store_alone(values: Tensor) -> None:
    store, factor = ArrayStore(values.clone(), 2.0), 1 if values.is_floating_point() else 255
    torch.testing.assert_close(store.fetch(ROWS), values[ROWS].float() * 2 / factor)
    store.fetch(ROWS).zero_()
    assert torch.equal(store.values, values) and store.images(ROWS) is None
