"""Sums, joins and broadcasts over the processes that train together; with one process they do nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")


def num_processes() -> int:
    """Return the number of processes that train together; 1 without torch.distributed."""
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if several else 1


def rank() -> int:
    """Return the number of this process among those that train together; 0 without torch.distributed."""
    return torch.distributed.get_rank() if num_processes() > 1 else 0


def is_lost_process(error: RuntimeError) -> bool:
    """Return whether an error means that another process has ended."""
    return num_processes() > 1 and (isinstance(error, torch.distributed.DistError) or "gloo/transport" in str(error))


def sum_over_processes(value: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes, without a gradient; with one process the tensor itself."""
    if num_processes() == 1:
        return value
    total = value.detach().clone()
    torch.distributed.all_reduce(total)
    return total


def concatenate_over_processes(value: Tensor) -> Tensor:
    """Return the rows (B, ...) of all processes one after another, without a gradient; B may differ."""
    if num_processes() == 1:
        return value
    own = torch.tensor([len(value)], device=value.device)
    sizes = torch.cat(_gathered(own)).tolist()
    filled = value.new_zeros((max(sizes), *value.shape[1:]))
    filled[: len(value)] = value.detach()
    return torch.cat([part[:size] for part, size in zip(_gathered(filled), sizes, strict=True)])


def _gathered(value: Tensor) -> list[Tensor]:
    """Return the tensors of all processes, which have one shape."""
    parts = [torch.empty_like(value) for _ in range(num_processes())]
    torch.distributed.all_gather(parts, value)
    return parts


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace gradients by their means over all processes; one that no process has stays None.

    Of a parameter without a gradient here the process asks whether others have one, which waits for the device.
    """
    if num_processes() == 1:
        return
    own = [one for one in parameters if one.requires_grad]
    present = torch.tensor([one.grad is not None for one in own], dtype=own[0].dtype, device=own[0].device)
    values = [(torch.zeros_like(one) if one.grad is None else one.grad).flatten() for one in own]
    *means, present = sum_over_processes(torch.cat([*values, present])).split([*map(len, values), len(own)])
    for place, (one, mean) in enumerate(zip(own, means, strict=True)):
        if one.grad is not None or present[place] > 0:
            one.grad = (mean / num_processes()).view_as(one).to(one.dtype)


def broadcast_from_first(value: Tensor) -> None:
    """Give every process the tensor of the first one, in place."""
    if num_processes() > 1:
        torch.distributed.broadcast(value, 0)


def broadcast_object(value: Value) -> Value:
    """Return what the first process gives, in every process; it is pickled on its way."""
    if num_processes() == 1:
        return value
    values = [value]
    torch.distributed.broadcast_object_list(values, 0)
    return values[0]


def wait_for_processes() -> None:
    """Return when every process has come here."""
    if num_processes() > 1:
        # Gathering nothing waits as a barrier does, which fails on the processor in some versions of torch.
        torch.distributed.all_gather_object([None] * num_processes(), None)
