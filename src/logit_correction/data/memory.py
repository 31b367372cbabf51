"""How much memory inputs may take: the one rule between resident and streamed."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from logit_correction.errors import InputError

#: Share of the free memory that inputs may take.
SHARE = 0.5


def memory_limit_bytes(gib: float | None = None) -> int:
    """Return how many bytes of inputs may stay in memory.

    Args:
        gib: GiB that the user gives; None takes the environment variable LOGIT_CORRECTION_MEMORY (GiB), else half of
            the free memory.

    Raises:
        InputError: If a limit is negative or no number.
    """
    named = os.environ.get("LOGIT_CORRECTION_MEMORY", "")
    if gib is None and named:
        try:
            gib = float(named)
        except ValueError as error:
            raise InputError(f"LOGIT_CORRECTION_MEMORY is {named!r}, but must be a number of GiB") from error
    if gib is None:
        return int(SHARE * free_memory())
    if not 0 <= gib < float("inf"):
        raise InputError(f"the memory limit is {gib}, but must be a number of GiB that is not negative")
    return int(gib * 2**30)


def free_memory() -> int:
    """Return the bytes that this process may still take, of the machine and of its container."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if hasattr(os, "sysconf") else 2**32
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
    except (OSError, ValueError):  # no such group, or "max": no limit
        return free
    return max(0, min(free, limit - used))


def fits_device(num_bytes: int, device: torch.device) -> bool:
    """Return whether inputs may lie on ``device`` beside the networks: in half of what is free there."""
    return device.type != "cuda" or num_bytes <= SHARE * torch.cuda.mem_get_info(device)[0]
