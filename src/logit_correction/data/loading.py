"""Batches of one split, in an order that the seed and the epoch alone decide.

A training can be stopped and resumed in the middle of an epoch, and can run in several processes. In both cases it sees
the batches of a single uninterrupted run: the order of an epoch, and the random numbers of its augmentation, are drawn
once for the whole epoch, and each process takes its share of every batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from logit_correction.data.augment import DRAW_RANGE
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.seeds import make_generator
from logit_correction.types import Batch, Inputs

#: Rows and bytes of inputs that are evaluated at a time.
MAX_EVALUATION_ROWS = 1000
MAX_EVALUATION_BYTES = 64 * 2**20


def compute_evaluation_batch_size(store: InputStore) -> int:
    """Return how many rows to evaluate at a time: at most 1,000, and 64 MiB of inputs."""
    return max(1, min(MAX_EVALUATION_ROWS, MAX_EVALUATION_BYTES // max(1, store.row_bytes)))


class BatchLoader:
    """Yields batches of one split on one device.

    Inputs lie on the device if they fit there; others are read ahead by a thread. Only a split that is shuffled is
    augmented.

    Attributes:
        steps: Batches of an epoch.
        total: Rows of an epoch, of all processes together.
    """

    def __init__(
        self,
        table: DataTable,
        split: str,
        *,
        batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = False,
        sample_weight: Tensor | None = None,
        drop_last: bool = False,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Prepare the split.

        Args:
            table: The data.
            split: ``train``, ``valid``, ``test`` or ``new``.
            batch_size: Rows of a batch, of all processes together; by default the size for evaluations.
            seed: Seed of the order and of the augmentation.
            shuffle: Whether each epoch has an order of its own, and images are augmented.
            sample_weight: (n,) of ``Stage``: floats are probabilities of drawing a row, whole numbers repeat it.
            drop_last: Whether an epoch leaves out the rows that do not fill a batch, other rows in each epoch; an
                epoch of fewer rows than a batch keeps them.
            device: Where batches lie.
            rank: Number of this process, 0..``world_size`` - 1.
            world_size: Processes that share every batch.
        """
        store = table.inputs
        self.batch_size = compute_evaluation_batch_size(store) if batch_size is None else batch_size
        self.device = torch.device(device)
        self.rank = rank
        self.world_size = world_size
        self.seed = seed
        self.shuffle = shuffle
        self.augment = table.augment if shuffle else None
        if self.augment is not None:
            self.augment = self.augment.to(self.device)
            store = self.augment.choose_store_to_augment(store)
        self._reads_ahead = isinstance(store, ArrayStore) and not store.fits_on_device(self.device)
        self._store = store if self._reads_ahead else store.to(self.device)
        self._factor = store.scale / 255
        rows = table.split[split]
        self.rows = rows.to(device)
        self.label = table.label[rows].to(device)
        self.num_rows = len(rows)
        self.sample_weight = None if sample_weight is None else sample_weight.detach().cpu()
        self._set_num_steps(drop_last)

    def _set_num_steps(self, drop_last: bool) -> None:
        """Decide the rows and the batches of an epoch."""
        total = self.num_rows
        if self.sample_weight is not None and not self.sample_weight.is_floating_point():
            total = int(self.sample_weight.sum())
        if drop_last and total > self.batch_size:
            total -= total % self.batch_size
        self.steps = math.ceil(total / self.batch_size)
        left_over = total % self.batch_size
        least = min(2, self.batch_size // self.world_size) * self.world_size
        if (self.shuffle or self.world_size > 1) and 0 < left_over < least and self.steps > 1:
            # Rows left over join the batch before them: batch normalisation cannot do with one row, no process with
            # none, and alone they would weigh as much as a whole batch.
            self.steps -= 1
        if self.world_size > 1:  # at least one row, and if possible two, for each process
            total = max(total, min(2 * self.world_size, self.batch_size))
        self.total = total

    def __len__(self) -> int:
        return self.steps

    def epoch(self, epoch: int = 0, first_step: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch.

        Args:
            epoch: Number of the epoch, from 0; each has an order of its own if the split is shuffled.
            first_step: The first batch to yield; those before it are not read.
        """
        order = self._draw_order(epoch)
        shares = [self._compute_process_bounds(step) for step in range(self.steps)]
        draws = None
        if self.augment is not None:  # drawn for all processes together, by the place in the order
            generator = make_generator(self.seed, "augment", epoch)
            draws = torch.randint(DRAW_RANGE, (len(order), self.augment.num_draws), generator=generator)
            draws = draws.to(self.device)
        if self.world_size > 1:
            order = torch.cat([order[start:end] for start, end in shares])
        order = order.to(self.device)
        # All but the inputs is gathered and cut up once an epoch, which takes a fraction of doing so in each step.
        sizes = [end - start for start, end in shares]
        rows = self.rows.index_select(0, order)
        row_parts = (rows.cpu() if self._reads_ahead else rows).split(sizes)
        labels = self.label.index_select(0, order).split(sizes)
        indices = order.split(sizes)
        for step, inputs in enumerate(self._iterate_inputs(row_parts[first_step:]), first_step):
            if isinstance(inputs, Tensor):
                inputs = inputs.to(self.device)
                if self.augment is not None and draws is not None:
                    inputs = self.augment(inputs, draws[slice(*shares[step])], row_parts[step])
                if inputs.dtype == torch.uint8:
                    inputs = inputs.float().mul_(self._factor)
            yield Batch(inputs, labels[step], indices[step])

    def _iterate_inputs(self, parts: Sequence[Tensor]) -> Iterator[Inputs]:
        """Yield the inputs of parts of the rows; from a file the next part is read while the caller works."""
        if not self._reads_ahead:
            yield from map(self._fetch_inputs, parts)
            return
        with ThreadPoolExecutor(1) as reader:
            pending = [reader.submit(self._fetch_inputs, rows) for rows in parts[:1]]
            for rows in parts[1:]:
                pending.append(reader.submit(self._fetch_inputs, rows))
                yield pending.pop(0).result()
            yield from (read.result() for read in pending)

    def _fetch_inputs(self, rows: Tensor) -> Inputs:
        """Return the inputs of rows, as unsigned bytes if they are augmented, or moved to the device."""
        if self.augment is None and not (self._reads_ahead and self._store.holds_bytes):
            return self._store.fetch(rows)
        images = self._store.images(rows)
        if images is None:
            raise InputError("only images can be augmented: take augment none")
        return images

    def _compute_batch_bounds(self, step: int) -> tuple[int, int]:
        """Return where the batch of all processes begins in the order, and where it ends."""
        start = step * self.batch_size
        return start, self.total if step == self.steps - 1 else start + self.batch_size

    def _compute_process_bounds(self, step: int) -> tuple[int, int]:
        """Return where this process's part of a batch begins and ends; parts differ by a row at most."""
        start, end = self._compute_batch_bounds(step)
        size = end - start
        return start + size * self.rank // self.world_size, start + size * (self.rank + 1) // self.world_size

    def compute_loss_weight(self, step: int) -> float:
        """Return how much this process's mean over its part of a batch counts; 1 if all parts have the same size."""
        start, end = self._compute_batch_bounds(step)
        first, last = self._compute_process_bounds(step)
        return (last - first) * self.world_size / (end - start)

    def _draw_order(self, epoch: int) -> Tensor:
        generator = make_generator(self.seed, "order", epoch)
        order = torch.arange(self.num_rows)
        weight = self.sample_weight
        if weight is None:
            if self.shuffle:
                order = torch.randperm(self.num_rows, generator=generator)
        elif weight.is_floating_point():
            order = torch.multinomial(weight.double(), self.num_rows, replacement=True, generator=generator)
        else:
            repeated = order.repeat_interleave(weight.long())
            order = repeated[torch.randperm(len(repeated), generator=generator)]
        if len(order) < self.total:
            order = order.repeat(math.ceil(self.total / len(order)))
        return order[: self.total]
