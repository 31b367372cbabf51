"""Batches of images: the same whether they are read ahead or not, from wherever one enters."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from logit_correction.data.augment import CropFlip, resized_crop_flip
from logit_correction.data.loading import BatchLoader
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable

ROWS = 22


@pytest.fixture
def tables() -> dict[str, DataTable]:
    """The same images, the second ones read ahead."""
    images = torch.randint(0, 256, (ROWS, 3, 10, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    resident = DataTable(
        inputs=ArrayStore(images),
        label=torch.arange(ROWS) % 2,
        attribute=torch.full((ROWS,), -1),
        split={"train": order[:14], "valid": order[14:18], "test": order[18:]},
        label_names=["a", "b"],
        attribute_names=[],
    )
    large = ArrayStore(images)
    large.fits = lambda device: False  # type: ignore[method-assign]
    return {"resident": resident, "large": replace(resident, inputs=large)}


def batches(table: DataTable, split: str = "train", epoch: int = 1, first: int = 0, **options: object) -> list:
    options = {"batch_size": 4, "seed": 3, "shuffle": True, **options}
    return list(BatchLoader(table, split, **options).epoch(epoch, first))  # type: ignore[arg-type]


def same(one: list, other: list) -> None:
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a.inputs, b.inputs) and torch.equal(a.label, b.label) and torch.equal(a.index, b.index)


@pytest.mark.parametrize(
    ("augment", "weight"),
    [(None, None), (CropFlip(), torch.arange(14) % 3), (resized_crop_flip, torch.arange(14) % 3)],
)
def test_the_place_of_inputs_changes_no_batch(
    augment: object, weight: torch.Tensor | None, tables: dict[str, DataTable]
) -> None:
    resident, large = (replace(table, augment=augment) for table in tables.values())
    expected = batches(resident, sample_weight=weight)
    same(batches(large, sample_weight=weight), expected)
    same(batches(large, first=2, sample_weight=weight), expected[2:])
    if weight is not None:  # a row that is seen twice an epoch is changed anew each time
        index, inputs = (torch.cat([getattr(batch, name) for batch in expected]) for name in ("index", "inputs"))
        twice = inputs[index == 2]
        assert len(twice) == 2 and torch.equal(twice[0], twice[1]) == (augment is None)
