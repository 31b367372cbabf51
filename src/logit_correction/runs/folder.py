"""The folder of a run: its files, who may write into it, and what may be there already.

One process at a time writes into it and holds filelock's lock on a file in it, which also names the process. The
operating system holds the lock (``flock``), so it is gone with its process, however that ends. Machines see each
other's locks where their shared file system carries ``flock``; where it has none, the file's existence is the lock.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, SoftFileLock, Timeout, lock_descriptor

from logit_correction.config import RunConfig
from logit_correction.errors import InputError, TrainingError
from logit_correction.evaluation.report import REPORT, Report
from logit_correction.files import NoRoom, check_new, disk_of, writable, write_text
from logit_correction.registry import UntrustedCode, known_names_only

CONFIG, METRICS, PAGE = "config.yaml", "metrics.csv", "report.html"
PREDICTIONS, VALIDATION, CHECKPOINT = "predictions.parquet", "validation.parquet", "checkpoint.pt"

#: Those with a checksum in the folder.
SEALED = (REPORT, METRICS, PREDICTIONS, VALIDATION)

#: Where an unfinished run stands; gone when the run is finished.
RESUME = "resume.pt"

#: Held by the process that writes.
LOCK = ".lock"

#: Seconds to wait for a lock that another process just looks at, or is just giving back.
_PATIENCE = 0.5

Owner = TypeVar("Owner")


class FolderHeld(InputError):
    """Another living process writes into the folder."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write strict JSON that is complete or absent."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def is_finished(folder: Path) -> bool:
    """Return whether the folder holds a finished run; its report is the last file written but the page."""
    return (folder / REPORT).is_file()


def read_report(folder: Path) -> dict[str, Any]:
    """Return the content of the ``report.json`` of a finished run; see ``Report.read``."""
    return Report.read(folder).to_dict()


def check_out(folder: Path, config: RunConfig, resume: bool) -> None:
    """Raise ``InputError`` unless a run with a complete config may be written into the folder; writes nothing."""
    with writable(folder):
        if not (folder / CONFIG).is_file():
            check_new(folder, (LOCK,), "run")  # a killed run may have left no more
        elif resume:
            check_same(folder, config)
        else:
            held = "a finished run:" if is_finished(folder) else "an unfinished run: go on with --resume, or"
            raise InputError(f"--out {folder} already holds {held} give another folder")


def check_same(folder: Path, config: RunConfig) -> None:
    """Raise ``InputError`` if the folder holds a run with another config; names the first option that differs."""
    changed = difference(folder, config)
    if changed is not None:
        raise InputError(f"{changed}: go on with the same options, or give another --out")


def difference(folder: Path, config: RunConfig, ignore: Collection[str] = ()) -> str | None:
    """Return in which option the run in the folder differs from a complete config; None if in none, or without a run.

    Args:
        folder: Of the run.
        config: The config, complete.
        ignore: Names of options that may differ, such as ``data.root``.

    Raises:
        InputError: The folder holds a run that this version cannot read.
    """
    from logit_correction.runs.options import complete

    if not (folder / CONFIG).is_file():
        return None
    here = flat_options(config)
    try:
        stored = RunConfig.read(folder / CONFIG)
        # Another class need not be imported to be another one.
        with suppress(UntrustedCode), known_names_only(folder / CONFIG, but=list(here.values())):
            stored = complete(stored)  # with the defaults of options younger than the run
    except InputError as error:
        raise InputError(f"{folder} holds a run that cannot go on here ({error}): give another folder") from error
    there = flat_options(stored)
    to_the_data = [name for name in ("epochs", "batch_size", "weight_decay", "threads") if here.get(name) is None]
    for name in {**here, **there}:
        left = name in (*ignore, *to_the_data) or (not config.network.name and name.startswith("network"))
        if not left and there.get(name) != here.get(name):
            return f"{folder} holds a run with {name} = {there.get(name)}, not {here.get(name)}"
    return None


def flat_options(config: RunConfig) -> dict[str, Any]:
    """Return all options by the names that the command line has for them, such as ``method.q``."""
    flat: dict[str, Any] = {}

    def add(prefix: str, options: dict[str, Any]) -> None:
        for name, value in options.items():
            if isinstance(value, dict) and "name" in value:
                add(f"{prefix}{name}.", value)
            else:
                flat[prefix + name] = value

    add("", config.to_dict())
    # Choices first: another method has other options, and the method is what to name.
    return dict(sorted(flat.items(), key=lambda item: not item[0].endswith(".name")))


def make(folder: Path) -> None:
    """Make the folder, unless it is there; raise ``InputError`` if it cannot be written."""
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def sweep(folder: Path) -> None:
    """Remove what only an unfinished run needs, and half-written files of one that was killed."""
    (folder / RESUME).unlink(missing_ok=True)
    for name in (CONFIG, METRICS, REPORT, PAGE, PREDICTIONS, VALIDATION, CHECKPOINT, RESUME):
        for left in folder.glob(f".{Path(name).stem}-*{Path(name).suffix}"):
            left.unlink(missing_ok=True)


@contextmanager
def going_on_later(folder: Path) -> Iterator[None]:
    """Tell of a disk that gets full in the block or of another process that ends, and how to go on with the run.

    Raises:
        TrainingError: The disk is full, or another process has ended; every file is as it was before.
    """
    command = f"`train --resume --out {shlex.quote(str(folder))}`"
    try:
        yield
    except NoRoom as error:
        raise TrainingError(
            f"{error.filename} cannot be written ({error.strerror}): what was saved before it is kept; make room and "
            f"go on with {command}"
        ) from error
    except RuntimeError as error:
        from logit_correction.distributed import lost_process  # torch, which reading a folder needs not

        lost = lost_process(error)
        if lost is None:
            raise
        raise TrainingError(
            f"{lost} of this run has ended, perhaps for want of memory: what was saved is kept; go on with {command}"
        ) from error


def given_or_temporary(out: Path | str | None, name: str) -> tuple[Path, Callable[[Owner], Owner]]:
    """Return the folder that was asked for, or else a temporary one, and what ties its life to that of an object."""
    if out is not None:
        return Path(out), lambda owner: owner
    place = tempfile.TemporaryDirectory(prefix="logit-correction-")

    def tie(owner: Owner) -> Owner:
        weakref.finalize(owner, place.cleanup)
        return owner

    return Path(place.name) / name, tie


def check_parent(path: Path, option: str = "--out") -> None:
    """Raise ``InputError`` unless a file can be written at ``path``, which ``option`` gives."""
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder: give a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{option} {path}: its folder does not exist; make it first")


def check_disk(folder: Path, needed_bytes: int) -> None:
    """Raise ``InputError`` unless the disk of the folder has room for so many bytes, what lies there included."""
    disk = disk_of(folder)
    if folder.is_dir():  # of a run that goes on: its checkpoint is among what it needs
        needed_bytes -= sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    if disk.total and disk.free < needed_bytes:  # what is no disk, such as /proc, has neither
        raise InputError(
            f"--out {folder}: the disk has {disk.free / 2**20:.1f} MiB free, but the run needs about "
            f"{needed_bytes / 2**20:.1f} MiB: make room or give another folder"
        )


def owner_of(folder: Path) -> str | None:
    """Return who writes into the folder, such as "process 12 on host", or None; this process counts too."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return None
    try:
        return None if lock_descriptor(descriptor, blocking=False) else _holder(folder)
    except OSError:  # a file system without locks: the file is the lock
        return _holder(folder)
    finally:
        os.close(descriptor)


def check_free(folder: Path) -> None:
    """Raise ``FolderHeld`` if another process, or another thread of this one, writes into the folder; says who."""
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
        raise FolderHeld(
            f"--out {folder} is in use: {_holder(folder)} is writing into it; wait for it, or give another folder"
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


def _holder(folder: Path) -> str:
    """Name the holder by the lock's file: its process number and its machine, a line each."""
    try:
        pid, host = (folder / LOCK).read_text(encoding="utf-8").split()[:2]
    except (OSError, ValueError):
        return "another process"
    return f"process {pid} on {host}"
