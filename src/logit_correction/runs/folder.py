"""The folder of a run: its files, the lock of the process that writes, and what may be written into it.

A training must never overwrite another one, and two processes must never write into one folder. Both are checked
before anything is written.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from logit_correction.atomic_files import check_new_folder, translate_write_errors, write_text_file
from logit_correction.errors import InputError
from logit_correction.evaluation.report import REPORT
from logit_correction.formatting import format_option
from logit_correction.runs.options import RunConfig, iterate_options
from logit_correction.serialization import format_json
from logit_correction.training.config import TrainingConfig
from logit_correction.unicode_text import escape_undecodable

#: All options of the run.
CONFIG = "config.yaml"

#: The figures of the training, a row every few steps and one after each epoch.
METRICS = "metrics.csv"

#: The report as a page.
PAGE = "report.html"

#: The predictions of the test rows.
PREDICTIONS = "predictions.parquet"

#: The predictions of the validation rows.
VALIDATION = "validation.parquet"

#: The weights of a finished run.
CHECKPOINT = "checkpoint.pt"

#: The files with a checksum in the folder.
SEALED = (REPORT, METRICS, PREDICTIONS, VALIDATION)

#: The state of an unfinished run; removed when the run is finished.
RESUME = "resume.pt"

#: Locked by the process that writes; the system releases it with the process, however that ends.
LOCK = ".lock"

Owner = TypeVar("Owner")


class FolderHeld(InputError):
    """Another living process writes into the folder."""


def expand_seed_folders(run_dirs: Iterable[Path]) -> list[Path]:
    """Return run folders, with the runs of ``train --seeds`` in place of the folder that holds them."""
    run_folders: list[Path] = []
    for folder in run_dirs:
        runs = [config.parent for config in folder.glob(f"seed-*/{CONFIG}")]
        run_folders += sorted(runs, key=lambda run: (len(run.name), run.name)) or [folder]  # seed-10 after seed-9
    return run_folders


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON that is complete or absent."""
    write_text_file(path, format_json(content) + "\n")


def is_finished(folder: Path) -> bool:
    """Return whether the folder holds a finished run; its report is the last file written but the page."""
    return (folder / REPORT).is_file()


def check_run_folder(folder: Path, config: RunConfig, resume: bool) -> None:
    """Raise ``InputError`` unless a run may be written into a folder; writes nothing.

    Args:
        folder: The folder, which may not exist yet.
        config: The complete config of the run.
        resume: Whether the run may be there already; it must have the same config.
    """
    out = format_option("out", folder)
    with translate_write_errors(folder):
        if (folder / CONFIG).is_file():
            if resume:
                check_same_config(folder, config)
                return
            state = "a finished run:"
            if not is_finished(folder):
                state = f"an unfinished run: continue it by {format_option('resume', True)}, or"
            raise InputError(f"{out} already holds {state} give another folder")
        first_run = expand_seed_folders([folder])[0]
        if first_run != folder:
            raise InputError(
                f"{out} holds the runs of {format_option('seeds')}: add {format_option('seeds', 'N')} to continue "
                f"them all, or give {format_option('out')} {first_run} for one, or another folder"
            )
        check_new_folder(folder, (LOCK,), "run")  # a killed run may have left its lock


def check_same_config(folder: Path, config: RunConfig) -> None:
    """Raise ``InputError`` if a folder holds a run of another config.

    Args:
        folder: The folder; without a config it is not checked.
        config: A complete config. Options that it leaves to the data may differ.
    """
    if not (folder / CONFIG).is_file():
        return
    requested = flatten_options(config)
    stored = flatten_options(RunConfig.read(folder / CONFIG))
    for name in {**requested, **stored}:
        is_unset = requested.get(name) is None
        is_free = name in TrainingConfig.LEFT_TO_THE_DATA and is_unset
        if not config.network.name:  # then the data choose the network, and perhaps an encoder with its tokens
            is_encoder = name == "data.tokenizer" or name.startswith("encoder.")
            is_free = is_free or name.startswith("network.") or (is_unset and is_encoder)
        if not is_free and stored.get(name) != requested.get(name):
            raise InputError(
                f"{folder} holds a run with {name} = {stored.get(name)}, not {requested.get(name)}: continue with the "
                f"same options, or give another {format_option('out')}"
            )


def flatten_options(config: RunConfig) -> dict[str, Any]:
    """Return all options of a config by their full names, such as ``method.q``; names of parts come first."""
    options = dict(iterate_options(config.to_dict()))
    # Another method has other options, and the method is what an error should name.
    return dict(sorted(options.items(), key=lambda item: not item[0].endswith(".name")))


def make_folder(folder: Path) -> None:
    """Create the folder, unless it exists; raise ``InputError`` if it cannot be written."""
    with translate_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def choose_folder(out: Path | str | None, name: str) -> tuple[Path, Callable[[Owner], Owner]]:
    """Return the folder that was given, or else a temporary one.

    Args:
        out: The folder; None for a temporary one.
        name: Name of the temporary folder.

    Returns:
        The folder, and a function to apply to the object that reads it: a temporary folder is removed with the object.

    Raises:
        InputError: The name holds a zero byte or is not Unicode, as half of an emoji is.
    """
    if out is not None:
        if "\0" in str(out) or str(out) != escape_undecodable(out):
            name = escape_undecodable(format_option("out", out))
            raise InputError(f"{name} holds a character that files cannot have in their names: give another folder")
        return Path(out), lambda owner: owner
    temporary = tempfile.TemporaryDirectory(prefix="logit-correction-")

    def tie_to_folder(owner: Owner) -> Owner:
        weakref.finalize(owner, temporary.cleanup)
        return owner

    return Path(temporary.name) / name, tie_to_folder


def check_output_file(path: Path) -> None:
    """Raise ``InputError`` unless a file can be written at a path."""
    if path.is_dir():
        raise InputError(f"{format_option('out', path)} is a folder: give a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{format_option('out', path)}: its folder does not exist; make it first")


def check_folder_unlocked(folder: Path) -> None:
    """Raise ``FolderHeld`` if another process, or another thread of this one, writes into the folder."""
    if (folder / LOCK).exists():
        with lock_folder(folder):
            pass


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of an existing folder for the length of the block; a block within one is free."""
    path = folder.resolve() / LOCK
    if path.is_symlink():  # opening it would empty a file elsewhere
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
