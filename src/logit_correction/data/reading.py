"""Reading and changing images beside the training step, in processes of their own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from logit_correction.data.augment import Augmentation, mixed_seeds
from logit_correction.data.stores import InputStore
from logit_correction.errors import TrainingError
from logit_correction.threads import available_cores
from logit_correction.types import Inputs

#: Fewer rows an epoch than this are read in the process that trains: starting others would take longer.
LEAST_ROWS = 1000

#: Batches that each process reads ahead.
AHEAD = 2


@dataclass
class BatchReader(Dataset["Inputs | TrainingError"]):
    """The inputs of each step, on the CPU: unsigned bytes where the store holds images, else what it gives.

    Attributes:
        store: The inputs.
        rows: (steps' rows) long, the row of the store at every place of the epoch.
        places: For each step, its first place and the place after its last.
        augment: Changes each image; its seed is that of the place in the epoch.
        seed: Seed of the epoch.
        images: Whether to read images rather than inputs.
    """

    store: InputStore
    rows: Tensor
    places: list[tuple[int, int]]
    augment: Augmentation | None
    seed: int
    images: bool

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, step: int) -> Inputs | TrainingError:
        """Read the inputs of a step; an error is returned, since a process that raises it changes its message."""
        try:
            return self._inputs(step)
        except TrainingError as error:
            return error

    def _inputs(self, step: int) -> Inputs:
        start, end = self.places[step]
        rows = self.rows[start:end]
        images = self.store.images(rows) if self.images else None
        if images is None:
            return self.store.fetch(rows)
        if self.augment is None:
            return images
        seeds = place_seeds(self.seed, start, end).tolist()
        return torch.stack([self.augment(one, seed) for one, seed in zip(images, seeds, strict=True)])

    def read(self, first_step: int, workers: int, pin: bool) -> Iterator[Inputs]:
        """Yield the inputs of each step from ``first_step`` on.

        Args:
            first_step: Where to begin.
            workers: Processes that read ahead; with 0 a batch is read when it is asked for.
            pin: Put batches where a CUDA device can copy them from while it works.

        Raises:
            TrainingError: Something cannot be read.
        """
        loader = DataLoader(
            self,
            batch_size=None,
            sampler=range(first_step, len(self)),
            num_workers=workers,
            pin_memory=pin,
            prefetch_factor=AHEAD if workers else None,
            worker_init_fn=_ignore_interrupts,
            generator=torch.Generator(),  # else it would draw from the one that others share
        )
        for inputs in loader:
            if isinstance(inputs, TrainingError):
                raise inputs
            yield inputs


def place_seeds(seed: int, start: int, end: int, device: torch.device | str = "cpu") -> Tensor:
    """Return the seed of every place of an epoch from ``start`` to ``end``; it does not depend on who works on it."""
    return mixed_seeds(torch.arange(start, end, device=device) ^ int(mixed_seeds(seed)), 1)


def choose_workers(workers: int, num_rows: int, processes: int) -> int:
    """Return how many processes read ahead for each of ``processes`` that train; -1 lets this function choose.

    >>> choose_workers(3, 10, 1), choose_workers(-1, 10, 1)
    (3, 0)
    """
    if workers >= 0:
        return workers
    if num_rows < LEAST_ROWS:
        return 0
    return max(1, min(8, available_cores() // (2 * processes)))


def _ignore_interrupts(_: int) -> None:
    """Let requests to stop reach only the process that trains: it stops after the step, for which it needs its batch.

    A terminal and a cluster's scheduler send them to all processes of a run. Who reads ends with who trains.
    """
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, signal.SIG_IGN)
