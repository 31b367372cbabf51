"""Arrays of bytes that are made once and kept in the cache folder beside their checksum."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from logit_correction.data.cache import made_once
from logit_correction.errors import InputError

try:
    import fcntl
except ImportError:  # Windows has no such locks; two processes then do the work twice
    fcntl = None  # type: ignore[assignment]


def checksum_of(values: NDArray[np.uint8]) -> str:
    """Return the SHA-256 of the values in C order, whatever file they lie in."""
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()


def verified_array(path: Path, make: Callable[[], NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], str]:
    """Return the array kept at ``path`` and its checksum; one that is missing or damaged is made.

    The checksum lies beside it in a file with the suffix ``.sha256`` and is compared at each reading. Of several
    processes that ask at once one makes the array and the others wait for it.

    Raises:
        InputError: If the folder cannot be written.
    """
    found = _intact(path)
    if found is not None:
        return found
    with _alone(path):
        found = _intact(path)
        if found is not None:
            return found
        values = make()
        checksum = checksum_of(values)
        for file in (path, path.with_suffix(".sha256")):
            file.unlink(missing_ok=True)
        made_once(path.with_suffix(".sha256"), lambda file: np.savetxt(file, [checksum], fmt="%s"))
        made_once(path, lambda file: np.save(file, values))
    return values, checksum


def _intact(path: Path) -> tuple[NDArray[np.uint8], str] | None:
    try:
        expected = path.with_suffix(".sha256").read_text().strip()
        values = np.load(path)
    except (OSError, ValueError, EOFError):
        return None
    return (values, expected) if values.dtype == np.uint8 and checksum_of(values) == expected else None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process makes ``path``; the operating system frees the lock of one that dies."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}): make room, or name another folder by "
            "LOGIT_CORRECTION_CACHE"
        ) from error
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
