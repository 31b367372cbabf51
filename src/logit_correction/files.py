"""Files that are complete or absent: written beside their place, then moved there."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NoRoom(OSError):
    """A file could not be written, for the disk or what a user may have of it is full; ``filename`` names it."""


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary path beside ``path``; its file takes the place of ``path`` when the block ends well.

    If the block raises, the temporary file is removed and an older file at ``path`` stays as it was.

    Raises:
        NoRoom: The disk is full.
        OSError: The file cannot be moved to its place.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}-{uuid.uuid4().hex[:12]}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoRoom(error.errno, os.strerror(error.errno), str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
