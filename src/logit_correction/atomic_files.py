"""Files and folders that are complete or absent, however the process that writes them ends.

What is written has a hidden temporary name next to its place and is moved there at the end. A process that is killed
leaves only such temporary files, which the next one removes.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import socket
import uuid
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from logit_correction.errors import InputError
from logit_correction.formatting import format_option

#: In a folder: files that are about to replace its own. Once it has this name the change is always finished.
CHANGE_FOLDER = ".change"

#: In such a change: a list of the files that it removes.
REMOVED_FILES = ".removed"

#: Temporary names: of what, on which machine, by which process, and random digits.
_TEMPORARY_NAME = re.compile(r"\..*-(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}")


class DiskFullError(OSError):
    """A file could not be written, since the disk or the user's quota is full; ``filename`` names it."""


@contextmanager
def _translate_system_errors(path: Path) -> Iterator[None]:
    """Raise ``DiskFullError`` if the disk or the quota is full, ``InputError`` if the path may not be written."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DiskFullError(error.errno, os.strerror(error.errno), str(path)) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise InputError(f"{path} cannot be written ({os.strerror(error.errno)}): give another place") from error
        raise


@contextmanager
def replace_atomically(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path; the file or folder written there replaces ``path`` when the block ends without error.

    If the block raises, the temporary file is removed and an older file at ``path`` stays.

    Raises:
        DiskFullError: The disk is full.
        InputError: The path may not be written.
    """
    path = Path(path)
    temporary = _make_temporary_path(path)
    try:
        with _translate_system_errors(path):
            yield temporary
            os.replace(temporary, path)
    finally:
        _remove_file_or_folder(temporary)


@contextmanager
def change_folder_atomically(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; its files replace those of ``folder`` together when the block ends without error.

    However the process ends, ``folder`` has all its old files, or ``complete_interrupted_change`` gives it all new
    ones. The caller holds the lock of the folder.

    Raises:
        DiskFullError: The disk is full.
        InputError: The folder may not be written.
    """
    complete_interrupted_change(folder)
    with _translate_system_errors(folder), replace_atomically(folder / CHANGE_FOLDER) as temporary:
        temporary.mkdir()
        yield temporary
    complete_interrupted_change(folder)


def complete_interrupted_change(folder: Path) -> None:
    """Move the files of a change to their places, after a process was stopped while it did so; else do nothing."""
    change = folder / CHANGE_FOLDER
    if change.is_symlink() or not change.is_dir():
        return
    with _translate_system_errors(folder):
        for path in list(change.iterdir()):
            if path.name == REMOVED_FILES:
                for name in path.read_text(encoding="utf-8").splitlines():
                    (folder / Path(name).name).unlink(missing_ok=True)
            else:
                os.replace(path, folder / path.name)
        shutil.rmtree(change)


def _remove_file_or_folder(path: Path) -> None:
    """Remove a file or a folder, as far as the system permits."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def _make_temporary_path(path: Path) -> Path:
    """Return a hidden name next to a path; remove what killed processes of this machine left under such names."""
    prefix = f".{path.stem}-{_get_machine_name()}-"
    for candidate in path.parent.glob(f"{glob.escape(prefix)}*{glob.escape(path.suffix)}"):
        if is_abandoned_temporary_path(candidate):
            _remove_file_or_folder(candidate)
    return path.with_name(f"{prefix}{os.getpid()}-{uuid.uuid4().hex[:8]}{path.suffix}")


def _get_machine_name() -> str:
    """Return eight digits that stand for this machine."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def is_abandoned_temporary_path(path: Path) -> bool:
    """Return whether a path is temporary and its process, on this machine, has ended."""
    match = _TEMPORARY_NAME.match(path.name)
    return match is not None and match["machine"] == _get_machine_name() and not _process_exists(int(match["process"]))


def _process_exists(process_id: int) -> bool:
    """Return whether a process runs; True if the system does not answer."""
    if os.name != "nt":  # on Windows signal 0 is Ctrl-C
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
    return True


def write_text_file(path: Path | str, text: str) -> None:
    """Write a text file in UTF-8, which is complete or absent.

    Args:
        path: The file; an older one is replaced.
        text: All that it will hold; half characters, which cut emojis leave, are escaped.
    """
    with replace_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextmanager
def create_folder_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary folder, which becomes ``path`` when the block ends without error and is removed otherwise.

    An empty folder at ``path`` stays and receives the files, since it may be a link, a mount, or the working directory.

    Raises:
        DiskFullError: The disk is full.
        InputError: ``path`` is a file, is not empty, or may not be written.
    """
    exists = path.is_dir()
    with translate_write_errors(path):
        temporary = _make_temporary_path(path.absolute() / "new" if exists else path.absolute())
        check_new_folder(path)
        temporary.mkdir(parents=True)
    try:
        with _translate_system_errors(path):
            yield temporary
            if exists:
                for file in list(temporary.iterdir()):
                    os.replace(file, path / file.name)
            else:
                os.replace(temporary, path)
    finally:
        _remove_file_or_folder(temporary)


def check_new_folder(folder: Path, allowed_names: Collection[str] = (), kind: str = "") -> None:
    """Check that the folder of ``--out`` does not exist or is empty.

    Args:
        folder: The folder to be written.
        allowed_names: Files that it may hold.
        kind: What it might have held instead, such as "run", for the message.

    Raises:
        InputError: It is a file, holds other files, or cannot be read.
    """
    with translate_write_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{format_option('out', folder)} is a file: give a folder")
        if folder.is_dir() and any(
            path.name not in allowed_names and not is_abandoned_temporary_path(path) for path in folder.iterdir()
        ):
            no_such = f" and holds no {kind}" if kind else ""
            raise InputError(f"{format_option('out', folder)} is not empty{no_such}: give a new or empty folder")


@contextmanager
def translate_write_errors(folder: Path) -> Iterator[None]:
    """Raise ``InputError`` for each ``OSError`` inside the block, which writes the folder of ``--out``."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{format_option('out', folder)} cannot be written ({error.strerror}): give another folder"
        ) from error
