"""Small data that many tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from logit_correction.correlation import Correlation
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable

TableFactory = Callable[..., DataTable]


def biased_table(
    correlation: Correlation | None = None,
    *,
    pictures: bool = False,
    train: int = 48,
    valid: int = 20,
    test: int = 20,
    seed: int = 0,
) -> DataTable:
    """Random rows whose label is written weakly, and whose attribute is written strongly, into the inputs.

    Nine training rows in ten follow the correlation; labels come in turn, so that every split has them all.
    """
    correlation = correlation or Correlation.one_to_one(3)
    num_labels, num_attributes = correlation.num_labels, correlation.num_attributes
    generator = torch.Generator().manual_seed(seed)
    total = train + valid + test
    label = torch.arange(total) % num_labels
    aligned = torch.multinomial(correlation.weights[label], 1, generator=generator).squeeze(1)
    anything = torch.randint(num_attributes, (total,), generator=generator)
    free = (torch.rand(total, generator=generator) < 0.1) | (torch.arange(total) >= train)
    attribute = torch.where(free, anything, aligned)
    shape = (3, 4, 4) if pictures else (12,)
    values = 0.2 * torch.randn((total, *shape), generator=generator)
    flat = values.view(total, -1)
    flat[torch.arange(total), label] += 1.0
    flat[torch.arange(total), num_labels + attribute] += 2.0
    if pictures:
        values = ((0.2 + 0.35 * values).clamp(0, 1) * 255).round().to(torch.uint8)
    ends = [0, train, train + valid, total]
    return DataTable(
        inputs=ArrayStore(values),
        label=label,
        attribute=attribute,
        split={name: torch.arange(ends[i], ends[i + 1]) for i, name in enumerate(("train", "valid", "test"))},
        label_names=[f"label {i}" for i in range(num_labels)],
        attribute_names=[f"attribute {i}" for i in range(num_attributes)],
        correlation=correlation,
    )


@pytest.fixture
def make_table() -> TableFactory:
    """A factory of small biased tables; see ``biased_table`` for its options."""
    return biased_table
