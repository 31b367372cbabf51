"""Files that are made once and kept, and how much memory inputs may take."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from logit_correction.errors import InputError, reason_of
from logit_correction.files import plain, replacing

#: Share of the free memory that inputs may take.
SHARE = 0.5


def cache_folder() -> Path:
    """Return the folder for what can be made again: $LOGIT_CORRECTION_CACHE, else ~/.cache/logit_correction."""
    named = os.environ.get("LOGIT_CORRECTION_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "logit_correction"


def digest(parts: Iterable[str | bytes | int]) -> str:
    """Return a name of 32 hexadecimal digits for these parts, in this order.

    >>> digest(["a", "bc"]) == digest(["ab", "c"])
    False
    """
    state = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.hexdigest()[:32]


def made_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Return ``path``, made by ``make`` if it is not there; it is complete or absent.

    Raises:
        InputError: If the folder cannot be written.
    """
    if not path.exists():
        with _writing(path), replacing(path) as temporary:
            make(temporary)
    return path


def mapped_array(path: Path) -> NDArray[Any] | None:
    """Return the array of a ``.npy`` file, mapped into memory, or None if it is missing or damaged."""
    try:
        return np.lib.format.open_memmap(plain(path), mode="r")  # unlike np.load opens neither archives nor pickles
    except Exception:  # NumPy raises many kinds
        return None


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``np.savez`` wrote to a file; ``ValueError`` if it is damaged or holds pickles."""
    try:
        with np.load(plain(path), allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    except OSError:
        raise
    except Exception as error:  # zipfile and NumPy raise many kinds
        raise ValueError(reason_of(error)) from error


def verified_array(path: Path, make: Callable[[], NDArray[Any]]) -> tuple[NDArray[Any], str]:
    """Return the array kept at ``path`` and its checksum; one that is missing or damaged is made.

    The checksum lies beside it and is compared at each reading. Of several processes that ask at once one makes the
    array and the others wait for it.

    Raises:
        InputError: If the folder cannot be written.
    """
    from filelock import FileLock

    beside = path.with_suffix(".sha256")
    with _writing(path):  # only the waiting: what goes wrong later has errors of its own
        lock = FileLock(path.with_suffix(".lock")).acquire()
    with lock:
        kept = mapped_array(path)
        expected = beside.read_text().strip() if beside.is_file() else ""
        if kept is not None and kept.dtype.isnative and expected == checksum_of(kept):
            return np.array(kept), expected
        values = make()
        checksum = checksum_of(values)
        remove(path, beside)
        made_once(beside, lambda file: file.write_text(checksum, encoding="ascii"))
        made_once(path, lambda file: np.save(file, values))
    return values, checksum


def checksum_of(values: NDArray[Any]) -> str:
    """Return the SHA-256 of the values in C order, whatever file they lie in."""
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()


def remove(*files: Path) -> None:
    """Remove what lies in the place of kept files."""
    for file in files:
        with _writing(file):
            file.unlink(missing_ok=True)


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


def memory_limit_bytes(gib: float | None = None) -> int:
    """Return how many bytes of inputs may stay in memory: GiB, or LOGIT_CORRECTION_MEMORY, or half of what is free.

    Raises:
        InputError: If a limit is negative or no number.
    """
    named = os.environ.get("LOGIT_CORRECTION_MEMORY", "")
    if gib is None and not named:
        return int(SHARE * free_memory())
    try:
        limit = float(named) if gib is None else gib
    except ValueError:
        limit = -1.0
    if not 0 <= limit < float("inf"):
        raise InputError(f"the memory limit is {named if gib is None else gib}, but must be a number of GiB, 0 or more")
    return int(limit * 2**30)


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
