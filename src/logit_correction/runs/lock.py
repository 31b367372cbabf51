"""One process at a time writes into a run folder: filelock's lock on a file in it, which also names its holder.

The operating system holds the lock (``flock``), so it is gone with its process, however that ends, and a forked child
does not keep it. Machines see each other's locks where their shared file system carries ``flock``. Where it has none,
filelock takes the file's existence for the lock.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout, lock_descriptor

from logit_correction.errors import InputError

#: Name of the lock's file.
LOCK = ".lock"

#: Seconds to wait for a lock that another process just looks at, or is just giving back.
_PATIENCE = 0.5


class FolderHeld(InputError):
    """Another living process writes into the folder."""


def owner_of(folder: Path) -> str | None:
    """Return who writes into the folder, such as "process 12 on host", or None; this process counts too."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return None
    try:
        return None if lock_descriptor(descriptor, blocking=False) else _named(folder)
    except OSError:  # a file system without locks: the file is the lock
        return _named(folder)
    finally:
        os.close(descriptor)


def check_free(folder: Path) -> None:
    """Return if no other process, and no other thread of this one, writes into the folder.

    Raises:
        FolderHeld: Says who does.
    """
    if (folder / LOCK).exists():
        with acquire(folder):
            pass


@contextmanager
def acquire(folder: Path) -> Iterator[None]:
    """Hold the lock of an existing folder for the length of the block; a block within one in the same thread is free.

    Raises:
        FolderHeld: Another living process, or another thread, holds it.
        InputError: The folder cannot be written.
    """
    path = folder.resolve() / LOCK
    lock = FileLock(path, is_singleton=True)
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout as error:
        who = _named(folder)
        raise FolderHeld(
            f"--out {folder} is in use: {who} is writing into it; wait for it, or give another folder"
        ) from error
    except OSError as error:
        raise InputError(f"--out {folder} cannot be written ({error.strerror}): give another folder") from error
    outermost = lock.lock_counter == 1 and not isinstance(lock, SoftFileLock)  # that one writes and removes by itself
    try:
        if outermost:
            with suppress(OSError):  # the name is a courtesy
                path.write_text(f"{os.getpid()}\n{socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        if outermost and lock.is_locked:  # not in a forked child
            with suppress(OSError):
                path.unlink()
        lock.release()


def _named(folder: Path) -> str:
    """Name the holder by the lock's file: its process number and its machine, a line each."""
    try:
        pid, host = (folder / LOCK).read_text(encoding="utf-8").split()[:2]
    except (OSError, ValueError):
        return "another process"
    return f"process {pid} on {host}"
