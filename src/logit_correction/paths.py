"""Checks of paths before they are read."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def reject_special_file(path: Path) -> Path:
    """Return ``path`` unless it is a queue, a socket or a device, from which a read might never return.

    Raises:
        OSError: It is one of these.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return path


def is_within(path: Path, base: str) -> bool:
    """Return whether a path, after all links, lies in a folder whose real path is ``base``."""
    return Path(os.path.realpath(path)).is_relative_to(base)
