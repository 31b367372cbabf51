"""Batches of a split, fetched by index from resident tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from logit_correction.data.table import DataTable
from logit_correction.seeds import make_generator
from logit_correction.types import Batch, InputError


class BatchLoader:
    """Yields batches of one split on one device.

    The order of an epoch depends on the seed and the epoch alone, so a resumed run sees the batches that an
    uninterrupted one would have seen, and any epoch can be entered in the middle.
    """

    def __init__(
        self,
        table: DataTable,
        split: str,
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = False,
        with_attributes: bool = False,
        row_weight: Tensor | None = None,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Prepare the split.

        Args:
            table: The data.
            split: train, valid or test.
            batch_size: Rows of one step over all processes together.
            seed: Seed of the order.
            shuffle: Draw a new order each epoch.
            with_attributes: Hand out attributes; refused where the split has unknown ones.
            row_weight: See ``Stage.row_weight``.
            device: Where the tensors shall lie.
            rank: Number of this process.
            world_size: Number of processes; each gets its share of every batch.

        Raises:
            InputError: If the sizes do not fit, or attributes are asked for and unknown.
        """
        if batch_size < 1 or batch_size % world_size:
            raise InputError(f"batch_size {batch_size} must be positive and divisible by the {world_size} processes")
        if with_attributes and not table.has_attributes(split):
            raise InputError(
                f"the method needs the attribute of every {split} row, but some are unknown: give them, or take a "
                "method that does not need them"
            )
        rows = table.split[split]
        self.device, self.rank, self.world_size, self.seed, self.shuffle = (
            device,
            rank,
            world_size,
            seed,
            shuffle,
        )
        self.share = batch_size // world_size
        self.inputs = table.inputs.to(device)
        self.rows, self.label = rows.to(device), table.label[rows].to(device)
        self.attribute = table.attribute[rows].to(device) if with_attributes else None
        self.row_weight = _checked_weight(row_weight, len(rows))
        total = len(rows)
        if self.row_weight is not None and not self.row_weight.is_floating_point():
            total = int(self.row_weight.sum())
        self.steps = math.ceil(total / batch_size)
        self.num_rows = len(rows)

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return self.steps

    def epoch(self, epoch: int = 0, first_step: int = 0) -> Iterator[Batch]:
        """Yield the batches of ``epoch`` from ``first_step`` on."""
        order = self._order(epoch).to(self.device)
        for step in range(first_step, self.steps):
            start = (step * self.world_size + self.rank) * self.share
            index = order[start : start + self.share]
            yield self._batch(index)

    def _batch(self, index: Tensor) -> Batch:
        attribute = None if self.attribute is None else self.attribute.index_select(0, index)
        inputs = self.inputs.fetch(self.rows.index_select(0, index))
        return Batch(inputs, self.label.index_select(0, index), index, attribute)

    def _order(self, epoch: int) -> Tensor:
        generator = make_generator(self.seed, "order", epoch)
        index = torch.arange(self.num_rows)
        if self.row_weight is None:
            order = torch.randperm(self.num_rows, generator=generator) if self.shuffle else index
        elif self.row_weight.is_floating_point():
            order = torch.multinomial(self.row_weight, self.num_rows, replacement=True, generator=generator)
        else:
            repeated = index.repeat_interleave(self.row_weight)
            order = repeated[torch.randperm(len(repeated), generator=generator)]
        if self.world_size > 1:
            # Every process must take the same number of rows in every step, so the last batch is filled up.
            missing = self.steps * self.share * self.world_size - len(order)
            order = torch.cat([order, order.repeat(missing // len(order) + 1)[:missing]])
        return order


def _checked_weight(row_weight: Tensor | None, num_rows: int) -> Tensor | None:
    if row_weight is None:
        return None
    weight = row_weight.detach().cpu()
    if weight.shape != (num_rows,) or not bool((weight >= 0).all()) or float(weight.sum()) <= 0:
        raise ValueError(f"row_weight must hold {num_rows} weights that are not negative and not all zero")
    return weight.double() if weight.is_floating_point() else weight.long()
