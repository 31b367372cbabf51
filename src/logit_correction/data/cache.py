"""Files that are made once and kept."""

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
from numpy.typing import NDArray

from logit_correction.atomic_files import replace_atomically, write_text_file
from logit_correction.checksums import compute_file_checksum
from logit_correction.errors import InputError
from logit_correction.paths import reject_special_file

#: Folders of the cache that hold what can be made or given again, and what that is. Data sets may lie beside them.
CACHE_FOLDERS = {
    "tables": "data frames that were given from Python",
    "arrays": "arrays and lists that were given from Python",
    "pictures": "images at the size of a network",
    "features": "features of encoders",
}


class CacheUnavailable(InputError):
    """A file cannot be written to the cache."""


def get_cache_folder() -> Path:
    """Return the folder for what can be made again: $LOGIT_CORRECTION_CACHE, else ~/.cache/logit_correction."""
    named = os.environ.get("LOGIT_CORRECTION_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "logit_correction"


def list_cached_files(days: float = 0.0) -> dict[str, list[Path]]:
    """Return the files in each of ``CACHE_FOLDERS``, those written at least so many days ago, and no others.

    Such a file is named by a digest, so what somebody else has put there is left out.
    """
    latest = time.time() - days * 86_400
    files: dict[str, list[Path]] = {}
    for name in CACHE_FOLDERS:
        there = [path for path in (get_cache_folder() / name).glob("*") if re.search(r"(?<!\w)[0-9a-f]{32}", path.name)]
        files[name] = [path for path in there if path.is_file() and path.stat().st_mtime <= latest]
    return files


def compute_digest(parts: Iterable[str | bytes | int]) -> str:
    """Return a name of 32 hexadecimal digits for these parts, in this order."""
    state = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.hexdigest()[:32]


def cache_file(folder: Path, content: bytes, suffix: str) -> Path:
    """Return a file in a folder that holds these bytes and has their checksum as its name."""
    path = folder / f"{hashlib.sha256(content).hexdigest()[:32]}{suffix}"
    with _writing(path):
        if not path.is_file() or compute_file_checksum(path)[:32] != path.stem:
            with replace_atomically(path) as temporary:
                temporary.write_bytes(content)
    return path


def is_cached_file(path: Path, again: str) -> bool:
    """Return whether ``cache_file`` has named a file; ``InputError`` if it holds something else since."""
    named = re.fullmatch(r"[0-9a-f]{32}", path.stem) is not None
    if named and path.is_file() and compute_file_checksum(path)[:32] != path.stem:
        raise InputError(f"{path} has been changed since it was written (its checksum is not its name): {again}")
    return named


def cache_array(path: Path, write: Callable[[Path], Any]) -> tuple[NDArray[Any], Any]:
    """Return the array kept at ``path``, mapped from the file, and the plain values that ``write`` returned.

    One that is missing, or is not what was written there, is written. Of several processes that ask at once one writes
    the file and the others wait. The operating system holds in memory what fits.
    """
    from filelock import FileLock

    beside = path.with_suffix(".json")

    def checksum(file: Path, told: Any) -> str:
        return compute_digest([path.name, json.dumps(told), compute_file_checksum(reject_special_file(file))])

    with _writing(path), FileLock(path.with_suffix(".lock")):
        try:
            known, told = json.loads(reject_special_file(beside).read_text(encoding="utf-8"))
            if known == checksum(path, told):
                return _mapped(path), told
        except (OSError, ValueError, TypeError, RecursionError):  # not there, or damaged
            pass
        with replace_atomically(path) as temporary:
            told = write(temporary)
            write_text_file(beside, json.dumps([checksum(temporary, told), told]))
        return _mapped(path), told


def _mapped(path: Path) -> NDArray[Any]:
    """Return the array in a file; what is written into it stays in this process."""
    return np.lib.format.open_memmap(
        reject_special_file(path), mode="c"
    )  # unlike np.load opens neither archives nor pickles


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Make the folder of ``path``; what the system refuses becomes an error that says how to fix it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        fix = "make room, or name another folder by LOGIT_CORRECTION_CACHE"
        raise CacheUnavailable(f"{path} cannot be written ({error.strerror or error}): {fix}") from error
