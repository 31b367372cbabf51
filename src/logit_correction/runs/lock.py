"""One process at a time writes into a run folder.

The lock is a file in the folder. Where the file system has locks, the operating system's lock on it counts, and is gone
with its process. The file also names its holder and is touched every few seconds, so that machines that share the
folder without sharing locks know of each other: a holder that gave no sign of life for a minute is taken for dead.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from logit_correction.runs.holder import SIZE, Holder, age, here, is_shared
from logit_correction.types import InputError, TrainingError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no such locks; the lease has to do
    fcntl = None

#: Name of the lock's file.
LOCK = ".lock"

#: Seconds between two signs of life, and without one until a holder on another machine is taken for dead.
BEAT_SECONDS, LEASE_SECONDS = 10.0, 60.0

#: Seconds to wait for a lock that is just being taken or given back, and for a rival on another machine to show up.
_PATIENCE, _SETTLE = 2.0, 1.0


class FolderHeld(InputError):
    """Another living process writes into the folder."""


@dataclass
class _Held:
    """A lock that this process has."""

    path: Path
    descriptor: int
    holder: Holder
    thread: int
    ended: threading.Event
    lost: bool = False


_held: dict[Path, _Held] = {}


def _forget() -> None:
    """Let go of the descriptors in a forked child: a lock must not outlive the process that took it."""
    for held in _held.values():
        with suppress(OSError):
            os.close(held.descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def holder_of(folder: Path) -> Holder | None:
    """Return the living process that writes into the folder, or None; this process's own lock counts too."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        holder = _read(descriptor)
        return holder if holder is not None and _lives(holder, descriptor, folder) else None
    finally:
        os.close(descriptor)


def check_free(folder: Path) -> None:
    """Return if no other process writes into the folder.

    Raises:
        FolderHeld: Says who does.
    """
    held = _held.get(_key(folder))
    if held is not None and held.thread == threading.get_ident():
        return
    holder = holder_of(folder)
    if holder is not None:
        raise _refusal(folder, holder)


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold the lock of an existing folder for the length of the block; a block within one in the same thread is free.

    Raises:
        FolderHeld: Another living process holds it.
        InputError: The folder cannot be written.
        TrainingError: At the end: the lock was lost to another process, since this one gave no sign of life.
    """
    key = _key(folder)
    if key in _held and _held[key].thread == threading.get_ident():
        yield
        return
    held = _held[key] = _acquire(folder)
    beat = threading.Thread(target=_beat, args=(held,), name=f"lock of {folder}", daemon=True)
    beat.start()
    try:
        yield
    finally:
        held.ended.set()
        _held.pop(key, None)
        _release(held)
        if held.lost:
            raise TrainingError(
                f"another process took {folder} over, since this one gave no sign of life for {LEASE_SECONDS:g} s"
            )


def _key(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _refusal(folder: Path, holder: Holder | None) -> FolderHeld:
    who = "another process" if holder is None else f"process {holder.pid} on {holder.host}"
    return FolderHeld(f"--out {folder} is in use: {who} is writing into it; wait for it, or give another folder")


def _acquire(folder: Path) -> _Held:
    path, deadline = folder / LOCK, time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise InputError(f"--out {folder} cannot be written ({error.strerror}): give another folder") from error
        try:
            locked = _try_lock(descriptor)
            before = _read(descriptor)
            in_force = before is not None and _in_force(before, descriptor, folder, locked)
            if locked is not False and not in_force and _same_file(descriptor, path):
                holder = here(uuid.uuid4().hex, bool(locked))
                _write(descriptor, holder)
                foreign = before is not None and before.kernel != holder.kernel
                if foreign or not locked or is_shared(folder):
                    _settle(folder, holder)
                return _Held(path, descriptor, holder, threading.get_ident(), threading.Event())
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if in_force or time.monotonic() > deadline:
            raise _refusal(folder, before)
        time.sleep(0.05)


def _try_lock(descriptor: int) -> bool | None:
    """Take the operating system's lock: True; somebody has it: False; the file system has none: None."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _in_force(holder: Holder, descriptor: int, folder: Path, locked: bool | None) -> bool:
    """Whether the holder named in the file has the lock still, given how our own try at it went."""
    if locked and holder.locked and holder.kernel == here("", True).kernel:
        return False  # its lock has gone, and so has it
    return _lives(holder, descriptor, folder)


def _lives(holder: Holder, descriptor: int, folder: Path) -> bool:
    lives = holder.lives()
    return age(descriptor, folder) < LEASE_SECONDS if lives is None else lives


def _same_file(descriptor: int, path: Path) -> bool:
    """Whether the file that was opened is still the one at ``path``: its holder removes it in the end."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _settle(folder: Path, holder: Holder) -> None:
    """Wait for a rival on another machine, whose lock cannot be seen; the last to have written wins."""
    time.sleep(_SETTLE)
    found = _read_at(folder / LOCK)
    if found is None or found.token != holder.token:
        raise _refusal(folder, found)


def _read(descriptor: int) -> Holder | None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        return Holder(**json.loads(os.read(descriptor, SIZE)))
    except (OSError, ValueError, TypeError):
        return None


def _read_at(path: Path) -> Holder | None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, holder: Holder) -> None:
    """Write in one piece, always of the same length, so that nobody reads half of it."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, json.dumps(asdict(holder)).encode().ljust(SIZE))
    os.fsync(descriptor)


def _beat(held: _Held) -> None:
    while not held.ended.wait(BEAT_SECONDS):
        try:
            found = _read_at(held.path)
            if found is not None and found.token != held.holder.token:
                held.lost = True
                _thread.interrupt_main()  # training saves and stops, as by Ctrl-C
                return
            os.utime(held.path)
        except OSError as error:
            print(f"warning: {held.path}: no sign of life could be given ({error.strerror})", file=sys.stderr)


def _release(held: _Held) -> None:
    with suppress(OSError):
        if not held.lost and _same_file(held.descriptor, held.path):
            held.path.unlink()
    with suppress(OSError):
        os.close(held.descriptor)
