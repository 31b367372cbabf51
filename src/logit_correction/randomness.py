"""Random numbers of training steps: a generator for each, made from a seed and a counter."""

from __future__ import annotations

import torch
from torch import nn

from logit_correction.distributed import rank
from logit_correction.seeds import derive_seed, step_seed


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
        """Return the counter for the state dict."""
        return {"count": self.count}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Take the counter from a state dict."""
        self.count = state["count"]
