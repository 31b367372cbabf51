"""Who holds a lock: a process on some machine, and whether it still lives."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: Bytes of a holder's record.
SIZE = 512

#: Kinds of file systems that several machines may share, as Linux names them.
_SHARED = (
    "nfs",
    "cifs",
    "smb",
    "lustre",
    "beegfs",
    "gpfs",
    "ceph",
    "gluster",
    "afs",
    "fuse.sshfs",
    "fuse.gluster",
    "9p",
)


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock.

    Attributes:
        host: Name of its machine.
        kernel: What tells its running system from others: two processes with the same see each other's locks.
        namespace: What its process number counts in; a container has numbers of its own.
        pid: Its process number.
        started: When it started, since numbers are used again; empty where that cannot be told.
        token: What tells this taking of the lock from all others.
        locked: Whether it has the operating system's lock too.
    """

    host: str
    kernel: str
    namespace: str
    pid: int
    started: str
    token: str
    locked: bool

    def lives(self) -> bool | None:
        """Return whether the process lives; None where that cannot be looked up from here."""
        own = here("", False)
        if (self.kernel, self.namespace) != (own.kernel, own.namespace):
            return None
        return _lives(self.pid, self.started)


def here(token: str, locked: bool) -> Holder:
    """Return this process as a holder."""
    host, kernel, namespace = _machine()
    pid = os.getpid()
    return Holder(host, kernel, namespace, pid, _state_and_start(pid)[1], token, locked)


@cache
def _machine() -> tuple[str, str, str]:
    """Name of the machine, what tells its running system from others, and the namespace of process numbers."""
    host = socket.gethostname()[:128]
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return host, kernel, os.readlink("/proc/self/ns/pid")
    except OSError:
        return host, host, ""


def _lives(pid: int, started: str) -> bool | None:
    if os.name != "posix":
        return None
    state, start = _state_and_start(pid)
    if start:
        return state not in ("Z", "X") and start == started  # a zombie only waits to be fetched
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return not started


def _state_and_start(pid: int) -> tuple[str, str]:
    """State and start time of a process as Linux tells them, or empty."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return "", ""


def age(descriptor: int, folder: Path) -> float:
    """Return the seconds since the file was touched, by the file system's clock, which is not always this machine's."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            now = os.fstat(probe.fileno()).st_mtime
    except OSError:  # a folder that is only read
        now = time.time()
    return now - os.fstat(descriptor).st_mtime


def is_shared(folder: Path) -> bool:
    """Return whether other machines may write into the folder too, as far as Linux can tell."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return False
    place = os.path.realpath(folder)
    points = [(len(words[1]), words[2]) for words in mounts if _lies_in(place, words[1].replace("\\040", " "))]
    return bool(points) and max(points)[1].startswith(_SHARED)


def _lies_in(place: str, point: str) -> bool:
    return place == point or place.startswith(point.rstrip("/") + "/")
