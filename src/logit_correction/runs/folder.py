"""The folder of a run: its files, who may write into it, and what may be there already."""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from logit_correction.atomic_files import check_new_folder, translate_write_errors, write_text_file
from logit_correction.errors import InputError
from logit_correction.evaluation.report import REPORT
from logit_correction.formatting import format_option
from logit_correction.runs.options import RunConfig
from logit_correction.training.config import TrainingConfig

CONFIG, METRICS, PAGE = "config.yaml", "metrics.csv", "report.html"
PREDICTIONS, VALIDATION, CHECKPOINT = "predictions.parquet", "validation.parquet", "checkpoint.pt"

#: Those with a checksum in the folder.
SEALED = (REPORT, METRICS, PREDICTIONS, VALIDATION)

#: Where an unfinished run stands; gone when the run is finished.
RESUME = "resume.pt"

#: Held by the process that writes, by filelock: it is gone with its process, however that ends.
LOCK = ".lock"

Owner = TypeVar("Owner")


class FolderHeld(InputError):
    """Another living process writes into the folder."""


def find_runs(places: Iterable[Path]) -> list[Path]:
    """Return run folders; one that ``train --seeds`` wrote stands for the runs in it."""
    found: list[Path] = []
    for place in places:
        runs = [config.parent for config in place.glob("seed-*/config.yaml")]
        found += sorted(runs, key=lambda run: (len(run.name), run.name)) or [place]  # seed-10 after seed-9
    return found


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write strict JSON that is complete or absent."""
    write_text_file(path, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def is_finished(folder: Path) -> bool:
    """Return whether the folder holds a finished run; its report is the last file written but the page."""
    return (folder / REPORT).is_file()


def check_run_folder(folder: Path, config: RunConfig, resume: bool) -> None:
    """Raise ``InputError`` unless a run with a complete config may be written into the folder; writes nothing."""
    with translate_write_errors(folder):
        if not (folder / CONFIG).is_file():
            if (first := find_runs([folder])[0]) != folder:
                raise InputError(
                    f"{format_option('out', folder)} holds the runs of {format_option('seeds')}: add "
                    f"{format_option('seeds', 'N')} to continue them all, or give {format_option('out')} "
                    f"{first} for one, or another folder"
                )
            check_new_folder(folder, (LOCK,), "run")  # a killed run may have left no more
        elif resume:
            check_same_config(folder, config)
        else:
            held = "a finished run:"
            if not is_finished(folder):
                held = f"an unfinished run: continue it by {format_option('resume', True)}, or"
            raise InputError(f"{format_option('out', folder)} already holds {held} give another folder")


def check_same_config(folder: Path, config: RunConfig) -> None:
    """Raise ``InputError`` if the folder holds a run with another config; what is left to the data may be anything."""
    if not (folder / CONFIG).is_file():
        return
    here, there = flatten_options(config), flatten_options(RunConfig.read(folder / CONFIG))
    for name in {**here, **there}:
        left = name in TrainingConfig.LEFT_TO_THE_DATA and here.get(name) is None
        if not config.network.name:  # nor, unless somebody chose it, an encoder and its tokens
            left = left or name.startswith("network.")
            left = left or (here.get(name) is None and (name == "data.tokenizer" or name.startswith("encoder.")))
        if not left and there.get(name) != here.get(name):
            raise InputError(
                f"{folder} holds a run with {name} = {there.get(name)}, not {here.get(name)}: continue with the same "
                f"options, or give another {format_option('out')}"
            )


def flatten_options(config: RunConfig) -> dict[str, Any]:
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


def make_folder(folder: Path) -> None:
    """Make the folder, unless it is there; raise ``InputError`` if it cannot be written."""
    with translate_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def choose_folder(out: Path | str | None, name: str) -> tuple[Path, Callable[[Owner], Owner]]:
    """Return the folder that was asked for, or else a temporary one, and what ties its life to that of an object."""
    if out is not None:
        return Path(out), lambda owner: owner
    place = tempfile.TemporaryDirectory(prefix="logit-correction-")

    def tie(owner: Owner) -> Owner:
        weakref.finalize(owner, place.cleanup)
        return owner

    return Path(place.name) / name, tie


def check_output_file(path: Path) -> None:
    """Raise ``InputError`` unless a file can be written at the path that ``--out`` gives."""
    if path.is_dir():
        raise InputError(f"{format_option('out', path)} is a folder: give a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{format_option('out', path)}: its folder does not exist; make it first")


def check_unlocked(folder: Path) -> None:
    """Raise ``FolderHeld`` if another process, or another thread of this one, writes into the folder."""
    if (folder / LOCK).exists():
        with lock_folder(folder):
            pass


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of an existing folder for the length of the block; a block within one is free."""
    path = folder.resolve() / LOCK
    if path.is_symlink():  # whoever made it may mean to have a file emptied elsewhere
        raise InputError(f"{path} is a link: remove it")
    lock = FileLock(path, is_singleton=True)
    try:
        lock.acquire(timeout=0.5)  # another process may just look at it, or just give it back
    except Timeout as error:
        raise FolderHeld(
            f"{format_option('out', folder)} is in use by another process: wait for it, or give another folder"
        ) from error
    except OSError as error:
        raise InputError(
            f"{format_option('out', folder)} cannot be written ({error.strerror}): give another folder"
        ) from error
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            path.unlink(missing_ok=True)
        lock.release()
