"""Files that are made once and kept: decoded images, features of encoders, and rows given from Python.

A kept file is named by a digest of what it was made of, so another source makes another file, and a damaged one is
found by its checksum and made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from logit_correction.atomic_files import replace_atomically, write_text_file
from logit_correction.checksums import compute_file_checksum
from logit_correction.errors import InputError
from logit_correction.paths import reject_special_file
from logit_correction.types import Array

#: Folders of the cache that hold what can be made or given again, and what that is. Data sets may lie next to them.
CACHE_FOLDERS = {
    "tables": "data frames that were given from Python",
    "arrays": "arrays and lists that were given from Python",
    "pictures": "images at the size of a network",
    "features": "features of encoders",
}

#: Hexadecimal digits of the digests that name files.
DIGEST_LENGTH = 32

SECONDS_OF_DAY = 86_400


class CacheUnavailable(InputError):
    """A file cannot be written to the cache."""


def get_cache_folder() -> Path:
    """Return the folder for what can be made again: $LOGIT_CORRECTION_CACHE, else ~/.cache/logit_correction."""
    folder = os.environ.get("LOGIT_CORRECTION_CACHE")
    return Path(folder).expanduser() if folder else Path.home() / ".cache" / "logit_correction"


def list_cached_files(days: float) -> dict[str, list[Path]]:
    """Return the files in each of ``CACHE_FOLDERS`` that this package wrote at least so many days ago.

    Such a file is named by a digest, so files that a user has put there are left out.
    """
    latest = time.time() - days * SECONDS_OF_DAY
    return {
        name: [
            path
            for path in (get_cache_folder() / name).glob("*")
            if re.search(rf"(?<!\w)[0-9a-f]{{{DIGEST_LENGTH}}}", path.name)
            and path.is_file()
            and path.stat().st_mtime <= latest
        ]
        for name in CACHE_FOLDERS
    }


def compute_digest(parts: Iterable[str | bytes | int]) -> str:
    """Return a name of 32 hexadecimal digits for these parts, in this order."""
    state = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.hexdigest()[:DIGEST_LENGTH]


def cache_file(folder: Path, content: bytes, suffix: str) -> Path:
    """Return a file that holds these bytes and has their checksum as its name; it is written if it is not there.

    Args:
        folder: The folder of the file.
        content: Its bytes.
        suffix: The end of its name, such as ``.npz``.
    """
    path = folder / f"{hashlib.sha256(content).hexdigest()[:DIGEST_LENGTH]}{suffix}"
    with _prepare_folder(path):
        if not path.is_file() or _is_changed(path):
            with replace_atomically(path) as temporary:
                temporary.write_bytes(content)
    return path


def is_cached_file(path: Path, remedy: str) -> bool:
    """Return whether ``cache_file`` has named a file.

    Args:
        path: The file.
        remedy: What to do if it holds something else since, or is gone.

    Raises:
        InputError: If its content was changed, or it was removed, as ``cache --clear`` does.
    """
    is_named_by_content = re.fullmatch(rf"[0-9a-f]{{{DIGEST_LENGTH}}}", path.stem) is not None
    if is_named_by_content and not path.exists():
        raise InputError(f"{path}, the copy of rows that were given in Python, is gone: {remedy} with the same rows")
    if is_named_by_content and path.is_file() and _is_changed(path):
        raise InputError(f"{path} has been changed since it was written (its checksum is not its name): {remedy}")
    return is_named_by_content


def _is_changed(path: Path) -> bool:
    return compute_file_checksum(path)[:DIGEST_LENGTH] != path.stem


def cache_array(path: Path, write: Callable[[Path], Any]) -> tuple[Array, Any]:
    """Return the array in a file, mapped from it, and the plain values that ``write`` returned.

    An array that is missing, or is not what was written there, is written. Of several processes that ask at once one
    writes the file and the others wait. The operating system holds in memory what fits.

    Args:
        path: The file of the array.
        write: Writes the array to the path that it is given, and returns values that JSON can hold.

    Raises:
        CacheUnavailable: If the file cannot be written.
    """
    from filelock import FileLock

    notes_file = path.with_suffix(".json")

    def compute_checksum(file: Path, notes: Any) -> str:
        return compute_digest([path.name, json.dumps(notes), compute_file_checksum(reject_special_file(file))])

    with _prepare_folder(path), FileLock(path.with_suffix(".lock")):
        try:
            checksum, notes = json.loads(reject_special_file(notes_file).read_text(encoding="utf-8"))
            if checksum == compute_checksum(path, notes):
                return _open_copy_on_write_memmap(path), notes
        except (OSError, ValueError, TypeError, RecursionError):  # not there, or damaged
            pass
        with replace_atomically(path) as temporary:
            notes = write(temporary)
            write_text_file(notes_file, json.dumps([compute_checksum(temporary, notes), notes]))
        return _open_copy_on_write_memmap(path), notes


def _open_copy_on_write_memmap(path: Path) -> Array:
    """Return the array in a file; what is written into it stays in this process."""
    return np.lib.format.open_memmap(
        reject_special_file(path), mode="c"
    )  # unlike np.load opens neither archives nor pickles


@contextmanager
def _prepare_folder(path: Path) -> Iterator[None]:
    """Make the folder of ``path``; raise ``CacheUnavailable`` if the system refuses to write there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        remedy = "make room, or name another folder by LOGIT_CORRECTION_CACHE"
        raise CacheUnavailable(f"{path} cannot be written ({error.strerror or error}): {remedy}") from error
