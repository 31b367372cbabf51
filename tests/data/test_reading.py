"""Batches that are read and augmented apart from the step: the same in every process, from wherever one enters."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace

import pytest
import torch

from logit_correction.data.augment import CropFlip, ResizedCropFlip
from logit_correction.data.loading import BatchLoader
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable

ROWS = 22


@pytest.fixture
def tables() -> dict[str, DataTable]:
    """The same images, of which other processes read the second ones."""
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
    [
        (None, None),
        (CropFlip(), None),
        (CropFlip(), torch.arange(14) % 3),
        (ResizedCropFlip(), torch.arange(14) % 3),
    ],
)
def test_neither_place_nor_workers_change_a_batch(
    augment: object, weight: torch.Tensor | None, tables: dict[str, DataTable]
) -> None:
    resident, large = (replace(table, augment=augment) for table in tables.values())
    expected = batches(resident, sample_weight=weight)
    same(batches(large, sample_weight=weight), expected)
    same(batches(large, first=2, workers=2, sample_weight=weight), expected[2:])
    if weight is not None:  # a row that is seen twice an epoch is changed anew each time
        index, inputs = (torch.cat([getattr(batch, name) for batch in expected]) for name in ("index", "inputs"))
        twice = inputs[index == 2]
        assert len(twice) == 2 and torch.equal(twice[0], twice[1]) == (augment is None)


def test_reading_leaves_the_common_generator_alone(tables: dict[str, DataTable]) -> None:
    torch.manual_seed(8)
    expected = torch.rand(2)
    for workers in (0, 1):
        torch.manual_seed(8)
        batches(tables["large"], workers=workers)
        assert torch.equal(torch.rand(2), expected)


def test_a_request_to_stop_leaves_those_who_read_at_work(tables: dict[str, DataTable]) -> None:
    expected = batches(tables["resident"], batch_size=1)
    reading = BatchLoader(tables["large"], "train", batch_size=1, seed=3, shuffle=True, workers=1).epoch(1)
    found = [next(reading)]
    (worker,) = multiprocessing.active_children()
    os.kill(worker.pid or 0, signal.SIGINT)
    found += reading
    same(found, expected)
    worker.join()
    assert worker.exitcode == 0
