"""Files that are made once and kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logit_correction.errors import InputError
from logit_correction.files import plain, replacing


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


def kept_array(path: Path, write: Callable[[Path], object]) -> NDArray[Any]:
    """Return the array kept at ``path``, mapped from the file; one that is missing or damaged is written.

    Of several processes that ask at once one writes the file and the others wait. The operating system holds in memory
    what fits.
    """
    from filelock import FileLock

    with _writing(path), FileLock(path.with_suffix(".lock")):
        try:
            return _mapped(path)
        except (OSError, ValueError, EOFError, SyntaxError):  # not there, or no file of an array
            path.unlink(missing_ok=True)
        return _mapped(made_once(path, write))


def _mapped(path: Path) -> NDArray[Any]:
    """Return the array in a file; what is written into it stays in this process."""
    return np.lib.format.open_memmap(plain(path), mode="c")  # unlike np.load opens neither archives nor pickles


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
        fix = "make room, or name another folder by LOGIT_CORRECTION_CACHE"
        raise InputError(f"{path} cannot be written ({error.strerror or error}): {fix}") from error
