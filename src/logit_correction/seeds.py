"""Seeds derived from named parts, so that every random draw has a generator of its own.

A run must give the same result again, also when it was interrupted and resumed, and adding one random draw must not
change all later ones. So no draw uses the global state of torch or NumPy.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import torch
from torch import nn

from logit_correction.distributed import get_rank


def derive_seed(*parts: int | str) -> int:
    """Return a seed of 63 bits that depends on all parts and their order.

    Args:
        parts: The user's seed, the purpose of the draws, and what else distinguishes them, such as stage or epoch.
    """
    numbers = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in parts]
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1


def compute_step_seed(training_seed: int, step: int) -> int:
    """Return the seed of a training step, which is quicker than ``derive_seed``: that takes 2 % of a small step.

    Args:
        training_seed: Seed of the whole training.
        step: Number of the step, 0 or more. It is multiplied by 2^64 over the golden ratio: the multiples spread
            evenly, and none repeats, since the factor is odd.

    Returns:
        A number of 64 bits.
    """
    return (training_seed + step * 0x9E3779B97F4A7C15) % 2**64


def make_generator(*parts: int | str) -> torch.Generator:
    """Return a generator of the CPU, seeded with ``derive_seed(*parts)``."""
    return torch.Generator().manual_seed(derive_seed(*parts))


@contextmanager
def seed_default_generator(*parts: int | str) -> Iterator[None]:
    """Seed torch's own generator of the CPU inside the block, for layers that draw from it; afterwards it is as before.

    Args:
        parts: As of ``derive_seed``.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(*parts))
        yield


class StepRandomness(nn.Module):
    """A generator for each training step, derived from a seed, the step's number and the process's rank.

    Its whole state is one counter in the state dict, so a resumed run draws what an uninterrupted one would.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.count = 0
        self._generators: dict[torch.device, torch.Generator] = {}

    @cached_property
    def _first(self) -> int:
        return derive_seed(self.seed, "step", get_rank())  # processes have ranks later than methods are made

    def next(self, device: torch.device) -> torch.Generator:
        """Return the generator of the next step on ``device``."""
        if device not in self._generators:
            self._generators[device] = torch.Generator(device=device)
        seed = compute_step_seed(self._first, self.count)
        self.count += 1
        return self._generators[device].manual_seed(seed)

    def get_extra_state(self) -> dict[str, int]:
        return {"count": self.count}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.count = state["count"]


class LayerRandomness:
    """Seeds torch's own generators before each step, for layers such as dropout that draw from them.

    A step's seed comes from its number, so a resumed run draws what an uninterrupted one would.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self._first = derive_seed(seed, "layers", get_rank())
        self._on_cuda = device.type == "cuda"

    def seed(self, step: int) -> None:
        """Seed the generators for step number ``step`` of the run."""
        seed = compute_step_seed(self._first, step)
        torch.default_generator.manual_seed(
            seed
        )  # torch.manual_seed also seeds other backends, which takes sixty times as long
        if self._on_cuda:
            torch.cuda.manual_seed(seed)
