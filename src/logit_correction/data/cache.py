"""Files that are made once and kept: decoded images, tokens, arrays."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from logit_correction.errors import InputError


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


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Return ``path``, made by ``make`` if it is not there.

    ``make`` writes to a temporary path beside it, which is moved to its place in the end. So the file is complete
    or absent, and two processes that make it at once do the work twice and no harm.

    Raises:
        InputError: If the folder cannot be written.
    """
    if path.exists():
        return path
    temporary = path.with_name(f".{path.stem}-{uuid.uuid4().hex[:12]}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        make(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}): make room, or name another folder by "
            "LOGIT_CORRECTION_CACHE"
        ) from error
    finally:
        with suppress(OSError):  # it is there only if making it failed
            temporary.unlink()
    return path
