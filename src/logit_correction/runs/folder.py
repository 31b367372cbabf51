"""The files of a run folder, and what may be written where."""

from __future__ import annotations

import json
import shlex
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from logit_correction.config import RunConfig
from logit_correction.errors import InputError, TrainingError
from logit_correction.evaluation.report import REPORT, Report
from logit_correction.files import NoRoom, check_new, disk_of, writable, write_text
from logit_correction.registry import UntrustedCode, known_names_only
from logit_correction.runs.lock import LOCK

CONFIG, METRICS, PAGE = "config.yaml", "metrics.csv", "report.html"
PREDICTIONS, VALIDATION, CHECKPOINT = "predictions.parquet", "validation.parquet", "checkpoint.pt"

Owner = TypeVar("Owner")

#: Where an unfinished run stands; gone when the run is finished.
RESUME = "resume.pt"


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
    """Return if a run with a complete config may be written into the folder; writes nothing.

    Raises:
        InputError: If the folder is a file, holds another run or anything else, or cannot be looked into.
    """
    with writable(folder):
        if not (folder / CONFIG).is_file():
            check_new(folder, (LOCK,), "run")  # a killed run may have left no more
        elif resume:
            check_same(folder, config)
        else:
            held = "a finished run:" if is_finished(folder) else "an unfinished run: go on with --resume, or"
            raise InputError(f"--out {folder} already holds {held} give another folder")


def check_same(folder: Path, config: RunConfig) -> None:
    """Return if the folder holds no run, or one with this very config (complete).

    Raises:
        InputError: Names the first option that differs.
    """
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
    from logit_correction.runs.parts import complete

    if not (folder / CONFIG).is_file():
        return None
    try:
        stored = RunConfig.read(folder / CONFIG)
        # Another class need not be imported to be another one.
        with suppress(UntrustedCode), known_names_only(folder / CONFIG, but=list(flat_options(config).values())):
            stored = complete(stored)  # with the defaults of options younger than the run
    except InputError as error:
        raise InputError(f"{folder} holds a run that cannot go on here ({error}): give another folder") from error
    there, here = flat_options(stored), flat_options(config)
    to_the_data = ("epochs", "batch_size", "weight_decay")  # see runs.defaults
    left = {name for name in to_the_data if here.get(name) is None}
    for name in {**here, **there}:
        if not config.network.name and name.partition(".")[0] == "network":
            continue
        if name not in left and name not in ignore and there.get(name) != here.get(name):
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
    """Make the folder, unless it is there, and try to write into it.

    Raises:
        InputError: If that cannot be done.
    """
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
    """Return the folder to write, and what gives back an object with whose life a temporary folder ends.

    Args:
        out: The folder that was asked for; None makes a temporary one.
        name: What to call the folder inside that one.
    """
    if out is not None:
        return Path(out), lambda owner: owner
    place = tempfile.TemporaryDirectory(prefix="logit-correction-")

    def tie(owner: Owner) -> Owner:
        weakref.finalize(owner, place.cleanup)
        return owner

    return Path(place.name) / name, tie


def check_parent(path: Path, option: str = "--out") -> None:
    """Return if a file can be written at ``path``, which ``option`` gives.

    Raises:
        InputError: If its folder is missing or ``path`` is a folder.
    """
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder: give a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{option} {path}: its folder does not exist; make it first")


def check_disk(folder: Path, needed_bytes: int) -> None:
    """Return if the disk that the folder is or will be on has room for ``needed_bytes``, what lies there included.

    Raises:
        InputError: Otherwise.
    """
    disk = disk_of(folder)
    if folder.is_dir():  # of a run that goes on: its checkpoint is among what it needs
        needed_bytes -= sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    if disk.total and disk.free < needed_bytes:  # what is no disk, such as /proc, has neither
        raise InputError(
            f"--out {folder}: the disk has {disk.free / 2**20:.0f} MiB free, but the run needs about "
            f"{needed_bytes / 2**20:.0f} MiB: make room or give another folder"
        )
