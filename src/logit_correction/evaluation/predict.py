"""Running a model over a split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from logit_correction.types import Batch


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode for the length of the block."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


@torch.no_grad()
def collect(function: Callable[[Batch], dict[str, Tensor]], batches: Iterable[Batch]) -> dict[str, Tensor]:
    """Apply ``function`` to every batch and join what it returns, on the CPU, in the batches' order."""
    parts: dict[str, list[Tensor]] = {}
    for batch in batches:
        for name, value in function(batch).items():
            parts.setdefault(name, []).append(value)
    return {name: torch.cat(values).cpu() for name, values in parts.items()}
