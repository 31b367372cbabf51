"""Files that are made once and kept: decoded images, tokens, arrays."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from logit_correction.errors import InputError
from logit_correction.files import replacing


def cache_folder() -> Path:
    """Return the folder for what can be made again: $LOGIT_CORRECTION_CACHE, else ~/.cache/logit_correction.

    It is not made here, and may be deleted at any time while nothing runs.
    """
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


def verified_array(path: Path, make: Callable[[], NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], str]:
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
        for file in (path, path.with_suffix(".sha256")):
            file.unlink(missing_ok=True)
        made_once(path.with_suffix(".sha256"), lambda file: file.write_text(checksum, encoding="ascii"))
        made_once(path, lambda file: np.save(file, values))
    return values, checksum


def checksum_of(values: NDArray[np.uint8]) -> str:
    """Return the SHA-256 of the values in C order, whatever file they lie in."""
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()


def _intact(path: Path) -> tuple[NDArray[np.uint8], str] | None:
    try:
        expected = path.with_suffix(".sha256").read_text().strip()
        values = np.load(path)
    except (OSError, ValueError, EOFError):
        return None
    return (values, expected) if values.dtype == np.uint8 and checksum_of(values) == expected else None


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
