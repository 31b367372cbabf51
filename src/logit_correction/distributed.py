"""Sums, joins and broadcasts over the processes that train together.

Training runs alike with one process and with several (``torchrun``): with one, each function returns its argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")


def get_world_size() -> int:
    """Return the number of processes that train together; 1 without torch.distributed."""
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if is_distributed else 1


def get_rank() -> int:
    """Return the number of this process among those that train together; 0 without torch.distributed."""
    return torch.distributed.get_rank() if get_world_size() > 1 else 0


def is_lost_process_error(error: RuntimeError) -> bool:
    """Return whether an error means that another process has ended."""
    return get_world_size() > 1 and (isinstance(error, torch.distributed.DistError) or "gloo/transport" in str(error))


def sum_over_processes(value: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes, without a gradient; with one process the tensor itself."""
    if get_world_size() == 1:
        return value
    total = value.detach().clone()
    torch.distributed.all_reduce(total)
    return total


def concatenate_over_processes(value: Tensor) -> Tensor:
    """Return the rows (B, ...) of all processes one after another, without a gradient; B may differ."""
    if get_world_size() == 1:
        return value
    sizes = torch.cat(_all_gather_equal_shapes(torch.tensor([len(value)], device=value.device))).tolist()
    padded = value.new_zeros((max(sizes), *value.shape[1:]))
    padded[: len(value)] = value.detach()
    return torch.cat([part[:size] for part, size in zip(_all_gather_equal_shapes(padded), sizes, strict=True)])


def _all_gather_equal_shapes(value: Tensor) -> list[Tensor]:
    """Return the tensors of all processes, which have the same shape."""
    parts = [torch.empty_like(value) for _ in range(get_world_size())]
    torch.distributed.all_gather(parts, value)
    return parts


def average_gradients_in_place(parameters: Iterable[Tensor]) -> None:
    """Replace the gradients of parameters by their means over all processes.

    A process without a gradient counts as 0; a parameter that has a gradient in no process keeps None. Where this
    process has none, it reads whether another one has, which waits for the device.
    """
    if get_world_size() == 1:
        return
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    has_gradient = trained[0].new_tensor([parameter.grad is not None for parameter in trained])
    gradients = [
        (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).flatten() for parameter in trained
    ]
    total = sum_over_processes(torch.cat([*gradients, has_gradient]))
    *sums, num_gradients = total.split([*map(len, gradients), len(trained)])
    for parameter, gradient_sum, count in zip(trained, sums, num_gradients, strict=True):
        if parameter.grad is not None or count > 0:
            parameter.grad = (gradient_sum / get_world_size()).view_as(parameter).to(parameter.dtype)


def broadcast_in_place(value: Tensor) -> None:
    """Replace a tensor, in place, by that of the first process."""
    if get_world_size() > 1:
        torch.distributed.broadcast(value, 0)


def broadcast_object(value: Value) -> Value:
    """Return the argument of the first process, in every process; it is sent by pickle."""
    if get_world_size() == 1:
        return value
    values = [value]
    torch.distributed.broadcast_object_list(values, 0)
    return values[0]


def wait_for_processes() -> None:
    """Wait until every process has called this."""
    if get_world_size() > 1:
        # Gathering nothing waits as a barrier does, which fails on the processor in some versions of torch.
        torch.distributed.all_gather_object([None] * get_world_size(), None)
