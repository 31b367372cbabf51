"""What would make a host wait for a GPU, noticed on a machine without one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}


class DeviceTransferRecorder(TorchDispatchMode):
    """Notes what is sent to a device by a copy that is waited for; ``non_blocking=True`` is not."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.operations: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._waits(func.overloadpacket, args, kwargs):
            self.operations.append(str(func))
        return func(*args, **kwargs)

    def _waits(self, packet: Any, args: Any, kwargs: Any) -> bool:
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
