"""What would make a host wait for a GPU, noticed on a machine without one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

#: Operations whose value, or the size of whose result, the host has to read.
READING = {
    aten._local_scalar_dense,
    aten.item,
    aten.is_nonzero,
    aten.equal,
    aten.nonzero,
    aten.argwhere,
    aten.masked_select,
    aten._unique,
    aten._unique2,
    aten.unique_dim,
    aten.unique_consecutive,
    aten.bincount,
}
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}


class Watched(TorchDispatchMode):
    """Notes the operations that ``waits`` for."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []

    def waits(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the host would wait."""
        raise NotImplementedError

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.waits(func, args, kwargs):
            self.operations.append(str(func))
        return func(*args, **kwargs)


class Read(Watched):
    """Notes what reads values, on any device."""

    def waits(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a value is read: masks are turned into numbers of rows, of which nobody knows how many there are."""
        packet = operation.overloadpacket
        if packet in INDEXING:
            return any(isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8) for part in args[1])
        if packet is aten.repeat_interleave:
            return kwargs.get("output_size") is None
        return packet in READING


class Sent(Watched):
    """Notes what is sent to a device by a copy that is waited for; ``non_blocking=True`` is not."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def waits(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether numbers go to the device."""
        packet = operation.overloadpacket
        if packet is aten._to_copy:
            to = torch.device(kwargs.get("device") or args[0].device)
            return self._goes(args[0], to) and not kwargs.get("non_blocking")
        if packet is aten.copy_:
            return self._goes(args[1], args[0].device) and not (args[2:] and args[2]) and not kwargs.get("non_blocking")
        if packet is aten.lift_fresh:  # torch.tensor([...], device=...), which has been sent
            return args[0].device.type == self.device
        if packet in INDEXING:
            return any(isinstance(part, Tensor) and self._goes(part, args[0].device) for part in args[1])
        return False

    def _goes(self, values: Tensor, device: torch.device) -> bool:
        return values.device.type != self.device == device.type
