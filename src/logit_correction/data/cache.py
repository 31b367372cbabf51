"""Files that are made once and kept, and how much memory inputs may take."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from logit_correction.errors import InputError, reason_of
from logit_correction.files import plain, replacing


def cache_folder() -> Path:
    """Return the folder for what can be made again: $LOGIT_CORRECTION_CACHE, else ~/.cache/logit_correction.

    It is not made here, and may be deleted at any time while nothing runs.
    """
    named = os.environ.get("LOGIT_CORRECTION_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "logit_correction"


def tables_folder() -> Path:
    """Return the folder for tables from Python, where nobody names another."""
    return cache_folder() / "tables"


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
    """Return ``path``, made by ``make`` if it is not there.

    ``make`` writes to a temporary path beside it, which is moved to its place in the end. So the file is complete
    or absent, and two processes that make it at once do the work twice and no harm.

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
    """Return the arrays that ``np.savez`` wrote to a file.

    Raises:
        OSError: If there is no such file, or the system does not give it.
        ValueError: If it is damaged, or anything else than ``np.savez`` writes: pickles, or what is packed and would
            take far more memory than room on the disk.
    """
    try:
        with zipfile.ZipFile(plain(path)) as archive:
            members = archive.infolist()
            taken = sum(part.file_size for part in members)
            if any(part.compress_type for part in members) or taken > path.stat().st_size:
                raise ValueError("it is packed")
            if (changed := archive.testzip()) is not None:
                raise ValueError(f"the checksum of {changed} is wrong")
        with np.load(path, allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    except OSError:
        raise
    except Exception as error:  # zipfile and NumPy raise many kinds
        raise ValueError(reason_of(error)) from error


def verified_array(path: Path, make: Callable[[], NDArray[Any]]) -> tuple[NDArray[Any], str]:
    """Return the array kept at ``path`` and its checksum; one that is missing or damaged is made.

    The checksum lies beside it in a file with the suffix ``.sha256`` and is compared at each reading. Of several
    processes that ask at once one makes the array and the others wait for it.

    Raises:
        InputError: If the folder cannot be written.
    """
    from filelock import FileLock

    found = _intact(path)
    if found is not None:
        return found
    with _writing(path):  # only the waiting: what goes wrong later has errors of its own
        lock = FileLock(path.with_suffix(".lock")).acquire()
    with lock:
        found = _intact(path)
        if found is not None:
            return found
        values = make()
        checksum = checksum_of(values)
        remove(path, path.with_suffix(".sha256"))
        made_once(path.with_suffix(".sha256"), lambda file: file.write_text(checksum, encoding="ascii"))
        made_once(path, lambda file: np.save(file, values))
    return values, checksum


def checksum_of(values: NDArray[Any]) -> str:
    """Return the SHA-256 of the values in C order, whatever file they lie in."""
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()


def remove(*files: Path) -> None:
    """Remove what lies in the place of kept files.

    Raises:
        InputError: If that cannot be.
    """
    for file in files:
        if file.exists() or file.is_symlink():
            with _writing(file):
                file.unlink()


def _intact(path: Path) -> tuple[NDArray[Any], str] | None:
    mapped = mapped_array(path)
    try:
        expected = plain(path.with_suffix(".sha256")).read_text().strip()
    except (OSError, ValueError):
        return None
    if mapped is None or not mapped.dtype.isnative or expected != checksum_of(mapped):
        return None
    return np.array(mapped), expected


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
