"""Seeds derived from named parts, so that every random draw has a generator of its own."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from torch import nn

from logit_correction.distributed import rank


def derive_seed(*parts: int | str) -> int:
    """Mix integers and names into one 63-bit seed, of a generator for one purpose, stage, epoch or step."""
    numbers = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in parts]
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1


def step_seed(first: int, step: int) -> int:
    """Return the seed of a step by one multiplication; ``derive_seed`` would take 2 % of a step of a small network.

    The factor is 2^64 over the golden ratio: its multiples spread evenly, and as it is odd none repeats.
    """
    return (first + step * 0x9E3779B97F4A7C15) % 2**64


def make_generator(*parts: int | str) -> torch.Generator:
    """Return a generator of the CPU, seeded with ``derive_seed(*parts)``."""
    return torch.Generator().manual_seed(derive_seed(*parts))


class StepRandomness(nn.Module):
    """A generator for each training step, derived from a seed, the step's number and the process's rank.

    Its whole state is one counter in the state dict, so a resumed run draws what an uninterrupted one would.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed, self.count = seed, 0
        self._generators: dict[torch.device, torch.Generator] = {}
        self._first: int | None = None

    def next(self, device: torch.device) -> torch.Generator:
        """Return the generator of the next step on ``device``."""
        if self._first is None:
            self._first = derive_seed(self.seed, "step", rank())
        if device not in self._generators:
            self._generators[device] = torch.Generator(device=device)
        seed = step_seed(self._first, self.count)
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
        self.first, self.on_cuda = derive_seed(seed, "layers", rank()), device.type == "cuda"

    def seed(self, step: int) -> None:
        """Seed the generators for step number ``step`` of the run."""
        seed = step_seed(self.first, step)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed asks every backend, sixty times as long
        if self.on_cuda:
            torch.cuda.manual_seed(seed)
