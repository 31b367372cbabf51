"""Running networks over rows outside of the training loop: batches of a store's inputs, and threads of a processor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from logit_correction.data.loading import compute_evaluation_batch_size
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.types import Inputs, convert_inputs


@contextmanager
def restore_num_threads() -> Iterator[None]:
    """Restore torch's number of processor threads at the end of the block, or of the decorated function.

    A training sets the number for its own network; the caller's process goes on with its own.
    """
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def iterate_batches(store: InputStore, device: torch.device, max_rows: int | None = None) -> Iterator[Inputs]:
    """Yield the inputs of all rows of a store, in order, on a device.

    Args:
        store: N rows.
        device: Where the batches are to be.
        max_rows: Most rows of a batch; by default what fits into memory.
    """
    batch_size = compute_evaluation_batch_size(store)
    if max_rows is not None:
        batch_size = min(max_rows, batch_size)
    moved_by_batch = isinstance(store, ArrayStore) and not store.fits_on_device(device)
    placed = store if moved_by_batch else store.to(device)
    row_indices = torch.arange(len(store), device="cpu" if moved_by_batch else device)
    for rows in row_indices.split(batch_size):
        if len(rows):
            yield convert_inputs(placed.fetch(rows), lambda tensor: tensor.to(device))
