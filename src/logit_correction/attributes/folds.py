"""Several networks trained at once, each on its own part of every batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from logit_correction.types import Inputs


def take_rows(inputs: Inputs, rows: Tensor) -> Inputs:
    """Return some rows of a batch of inputs."""
    if isinstance(inputs, Tensor):
        return inputs.index_select(0, rows)
    return {name: part.index_select(0, rows) for name, part in inputs.items()}


def gather_members(member: Tensor, share: float = 0.5) -> tuple[Tensor, Tensor]:
    """Gather the members of a batch (B,) into a fixed number of places, so that nothing waits for the device.

    About ``share`` of the rows are members. The places are that many and four standard deviations more, so hardly ever
    (about once in 30,000 steps) does a member find no place and sit out. Places left over repeat members with weight 0.

    Returns:
        Rows (C,) and their weights (C,), which sum to 1 unless there are no members.

    >>> rows, weight = gather_members(torch.tensor([False, True, False, True]))
    >>> rows[weight > 0], weight.sum()
    (tensor([1, 3]), tensor(1.))
    """
    size = len(member)
    room = min(size, math.ceil(size * share) + math.ceil(4 * math.sqrt(size * share * (1 - share))))
    order = member.long().argsort(descending=True, stable=True)
    count = member.sum()
    place = torch.arange(room, device=member.device)
    rows = order.index_select(0, place % count.clamp_min(1))
    return rows, (place < count) / count.clamp(1, room)
