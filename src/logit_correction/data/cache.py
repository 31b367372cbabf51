"""Files that are made once and kept, and how much memory inputs may take."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from logit_correction.errors import InputError
from logit_correction.files import plain, replacing, write_text

#: Share of the free memory that inputs may take.
SHARE = 0.5


def cache_folder() -> Path:
    """Return the folder for what can be made again: $LOGIT_CORRECTION_CACHE, else ~/.cache/logit_correction."""
    named = os.environ.get("LOGIT_CORRECTION_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "logit_correction"


def digest(parts: Iterable[str | bytes | int]) -> str:
    """Return a name of 32 hexadecimal digits for these parts, in this order."""
    state = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.hexdigest()[:32]


def made_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Return ``path``, made by ``make`` if it is not there; it is complete or absent."""
    if not path.exists():
        with _writing(path), replacing(path) as temporary:
            make(temporary)
    return path


def verified_array(path: Path, make: Callable[[], NDArray[Any]]) -> tuple[NDArray[Any], str]:
    """Return the array kept at ``path`` and its checksum; one that is missing or damaged is made."""
    values, checksum, _ = kept_array(path, lambda file: np.save(file, make()))
    return values, checksum


def kept_array(path: Path, write: Callable[[Path], Any], check: bool = True) -> tuple[NDArray[Any], str, Any]:
    """Return the array kept at ``path``, its checksum and a note; one that is missing or damaged is made.

    Checksum and note lie beside it. Of several processes that ask at once one makes the array and the others wait.

    Args:
        path: A ``.npy`` file.
        write: Writes the array to the file that it is given, and returns the note, of plain values.
        check: Read the array into memory and compare its checksum; otherwise it is mapped from the file.
    """
    from filelock import FileLock

    beside = path.with_suffix(".sha256")
    with _writing(path), FileLock(path.with_suffix(".lock")):
        kept = _kept(path, beside, check)
        if kept is None:
            path.unlink(missing_ok=True)
            beside.unlink(missing_ok=True)
            with replacing(path) as temporary:
                note = write(temporary)
                checksum = checksum_of(np.load(temporary, mmap_mode="r"))
                write_text(beside, f"{checksum}\n{json.dumps(note)}")
            kept = _kept(path, beside, check=False)
            assert kept is not None
    return (np.array(kept[0]) if check else kept[0], *kept[1:])


def _kept(path: Path, beside: Path, check: bool) -> tuple[NDArray[Any], str, Any] | None:
    """Return the array, mapped into memory, its checksum and the note; None if one is missing or damaged."""
    try:
        checksum, _, note = plain(beside).read_text(encoding="utf-8").partition("\n")
        values = np.lib.format.open_memmap(plain(path), mode="r")  # unlike np.load opens neither archives nor pickles
        found = values, checksum, json.loads(note or "null")
    except Exception:  # NumPy raises many kinds
        return None
    return None if check and (not values.dtype.isnative or checksum_of(values) != checksum) else found


def checksum_of(values: NDArray[Any]) -> str:
    """Return the SHA-256 of the values in C order, whatever file they lie in."""
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Make the folder of ``path``; what the system refuses becomes an error that says how to fix it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}): make room, or name another folder by "
            "LOGIT_CORRECTION_CACHE"
        ) from error


def memory_limit() -> int:
    """Return how many bytes of inputs may stay in memory: LOGIT_CORRECTION_MEMORY in GiB, or half of what is free."""
    named = os.environ.get("LOGIT_CORRECTION_MEMORY", "")
    if not named:
        return int(SHARE * _free_memory())
    try:
        return max(0, int(float(named) * 2**30))
    except (ValueError, OverflowError):
        raise InputError(f"LOGIT_CORRECTION_MEMORY is {named!r}: give a number of GiB") from None


def _free_memory() -> int:
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
