"""What a batch loader hands out, in which order, and to which process."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from logit_correction.data.augment import CropFlip, ResizedCropFlip
from logit_correction.data.loading import BatchLoader
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.types import Correlation


def build_numbered_table(train: int = 10, others: int = 3) -> DataTable:
    """Every input is the number of its row; the splits do not lie in order."""
    total = train + 2 * others
    order = torch.randperm(total, generator=torch.Generator().manual_seed(5))
    return DataTable(
        inputs=ArrayStore(torch.arange(total, dtype=torch.float32)[:, None]),
        label=torch.arange(total) % 2,
        attribute=torch.arange(total) % 3,
        split={"train": order[:train], "valid": order[train : train + others], "test": order[train + others :]},
        label_names=["a", "b"],
        attribute_names=["x", "y", "z"],
        correlation=Correlation.from_table([[0], [1]], 3),
    )


def collect_indices(loader: BatchLoader, epoch: int = 0, first_step: int = 0) -> list[int]:
    return torch.cat([batch.index for batch in loader.epoch(epoch, first_step)]).tolist()


def test_batch_holds_the_inputs_and_labels_of_its_rows() -> None:
    table = build_numbered_table()
    loader = BatchLoader(table, "train", batch_size=4, shuffle=True)
    for batch in loader.epoch(2):
        rows = table.split["train"][batch.index]
        assert torch.equal(batch.inputs, rows[:, None].float())
        assert torch.equal(batch.label, table.label[rows])


def test_order_depends_on_seed_and_epoch_only() -> None:
    def load_order(seed: int, epoch: int) -> list[int]:
        loader = BatchLoader(build_numbered_table(30), "train", batch_size=7, seed=seed, shuffle=True)
        torch.manual_seed(seed + 99 + epoch)
        return collect_indices(loader, epoch)

    assert (
        load_order(0, 3)
        == load_order(0, 3)
        == collect_indices(BatchLoader(build_numbered_table(30), "train", shuffle=True), 3)
    )
    assert len({tuple(load_order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


@pytest.mark.parametrize("weight", [None, torch.arange(10), torch.arange(10) / 9])
def test_epoch_can_start_at_any_step(weight: Tensor | None) -> None:
    loader = BatchLoader(build_numbered_table(), "train", batch_size=4, shuffle=True, sample_weight=weight)
    all_steps = [batch.index.tolist() for batch in loader.epoch(1)]
    for step in range(len(loader) + 1):
        assert [batch.index.tolist() for batch in loader.epoch(1, step)] == all_steps[step:]


def test_dropping_the_last_batch_leaves_out_other_rows_in_each_epoch() -> None:
    loader = BatchLoader(build_numbered_table(), "train", batch_size=4, shuffle=True, drop_last=True)
    left_out = set()
    for epoch in range(8):
        sizes = [len(batch.index) for batch in loader.epoch(epoch)]
        assert sizes == [4, 4] and len(loader) == 2
        rows = set(collect_indices(loader, epoch))
        assert len(rows) == 8
        left_out |= set(range(10)) - rows
    assert len(left_out) > 4
    few = BatchLoader(build_numbered_table(), "train", batch_size=16, shuffle=True, drop_last=True)
    assert sorted(collect_indices(few)) == list(range(10))


def test_float_weights_draw_rows_in_proportion() -> None:
    weight = torch.tensor([0.0, 1.0, 1.0, 2.0, 4.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    loader = BatchLoader(build_numbered_table(), "train", batch_size=4, sample_weight=weight)
    assert len(loader) == 3
    epochs = 800
    drawn = torch.cat([torch.tensor(collect_indices(loader, epoch)) for epoch in range(epochs)])
    assert len(drawn) == 10 * epochs
    share = torch.bincount(drawn, minlength=10) / len(drawn)
    expected = weight / weight.sum()
    spread = (expected * (1 - expected) / len(drawn)).sqrt()
    assert bool(((share - expected).abs() <= 4.5 * spread).all())


@settings(max_examples=20)
@example(rows=14, share=1, world=3, weighted=False)  # two rows are left over for three processes
@given(rows=st.integers(1, 30), share=st.integers(1, 8), world=st.integers(2, 4), weighted=st.booleans())
def test_each_row_is_loaded_by_one_process(rows: int, share: int, world: int, weighted: bool) -> None:
    weight = torch.arange(rows) % 3 + 1 if weighted else None
    options = {"batch_size": share * world, "shuffle": True, "world_size": world, "sample_weight": weight}
    loaders = [BatchLoader(build_numbered_table(rows), "train", rank=rank, **options) for rank in range(world)]
    steps = list(zip(*([batch.index for batch in loader.epoch(1)] for loader in loaders), strict=True))
    assert {len(loader) for loader in loaders} == {len(steps)}
    for number, parts in enumerate(steps):
        sizes = [len(part) for part in parts]
        assert min(sizes) >= min(2, share) and max(sizes) - min(sizes) <= 1
        weights = [loader.compute_loss_weight(number) for loader in loaders]
        assert weights == [pytest.approx(size * world / sum(sizes)) for size in sizes]
    expected = torch.ones(rows, dtype=torch.long) if weight is None else weight
    loaded = torch.cat([part for parts in steps for part in parts])
    if int(expected.sum()) >= 2 * world:
        assert loaded.bincount(minlength=rows).equal(expected)
        single_process = BatchLoader(build_numbered_table(rows), "train", **options | {"world_size": 1})
        assert loaded.tolist() == collect_indices(single_process, 1)  # in the same order for any number of processes
    else:
        assert bool((loaded.bincount(minlength=rows) >= expected).all())


def load_batches(table: DataTable, first: int = 0, weight: Tensor | None = None) -> list:
    loader = BatchLoader(table, "train", batch_size=4, seed=3, shuffle=True, sample_weight=weight)
    return list(loader.epoch(1, first))


def assert_equal_batches(first: list, second: list) -> None:
    assert len(first) == len(second) > 0
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.inputs, b.inputs) and torch.equal(a.label, b.label) and torch.equal(a.index, b.index)


@pytest.mark.parametrize(
    ("augment", "weight"),
    [(None, None), (CropFlip(), torch.arange(14) % 3), (ResizedCropFlip(), torch.arange(14) % 3)],
)
def test_images_read_ahead_equal_those_in_memory(augment: object, weight: Tensor | None) -> None:
    images = torch.randint(0, 256, (20, 3, 10, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    resident = ArrayStore(images)
    large = ArrayStore(images)
    large.fits = lambda device: False  # type: ignore[method-assign]
    table = replace(build_numbered_table(14), inputs=resident, augment=augment)
    expected = load_batches(table, weight=weight)
    table_read_ahead = replace(table, inputs=large)
    assert_equal_batches(load_batches(table_read_ahead, weight=weight), expected)
    assert_equal_batches(load_batches(table_read_ahead, 2, weight), expected[2:])
    if weight is not None:  # a row that is seen twice an epoch is changed anew each time
        index, inputs = (torch.cat([getattr(batch, name) for batch in expected]) for name in ("index", "inputs"))
        twice = inputs[index == 2]
        assert len(twice) == 2 and torch.equal(twice[0], twice[1]) == (augment is None)
