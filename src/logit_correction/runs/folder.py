"""The files of a run folder, and what may be written where."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logit_correction.config import RunConfig
from logit_correction.evaluation.files import replacing
from logit_correction.types import InputError

CONFIG, METRICS, REPORT, PAGE = "config.yaml", "metrics.csv", "report.json", "report.html"
PREDICTIONS, CHECKPOINT = "predictions.parquet", "checkpoint.pt"

#: Where an unfinished run stands; gone when the run is finished.
RESUME = "resume.pt"


def write_text(path: Path, text: str) -> None:
    """Write a text file that is complete or absent."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write strict JSON that is complete or absent."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def is_finished(folder: Path) -> bool:
    """Return whether the folder holds a finished run; its report is the last file written but the page."""
    return (folder / REPORT).is_file()


def read_report(folder: Path) -> dict[str, Any]:
    """Return the ``report.json`` of a finished run.

    Raises:
        InputError: If the folder holds no finished run.
    """
    check_finished(folder)
    content: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
    return content


def check_finished(folder: Path) -> None:
    """Return if the folder holds a finished run.

    Raises:
        InputError: Says what it holds instead.
    """
    if is_finished(folder):
        return
    if (folder / CONFIG).is_file():
        raise InputError(f"{folder} holds a run that is not finished: go on with `train --resume --out {folder}`")
    raise InputError(f"{folder} is not a run folder: give one that `train` has written")


def prepare(folder: Path, config: RunConfig, resume: bool) -> None:
    """Make the folder ready for a run and write its config.

    Raises:
        InputError: If the folder cannot be written, holds another run or anything else, or nothing to resume.
    """
    path = folder / CONFIG
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file: give a folder")
    if path.is_file():
        _check_same(folder, config, resume)
    elif folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"--out {folder} is not empty and holds no run: give a new or empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"--out {folder} cannot be written ({error.strerror}): give another folder") from error
    if not path.is_file():
        write_text(path, config.to_yaml())


def _check_same(folder: Path, config: RunConfig, resume: bool) -> None:
    state = "a finished run" if is_finished(folder) else "an unfinished run"
    if not resume:
        hint = "" if is_finished(folder) else "go on with --resume, or "
        raise InputError(f"--out {folder} already holds {state}: {hint}give another folder")
    there, here = RunConfig.read(folder / CONFIG).to_dict(), config.to_dict()
    for name in {**there, **here}:
        if there.get(name) != here.get(name):
            raise InputError(
                f"--resume: {folder} was started with {name} = {there.get(name)}, not {here.get(name)}: "
                "resume with the same options, or leave them out"
            )


def check_parent(path: Path) -> None:
    """Return if a file can be written at ``path``.

    Raises:
        InputError: If its folder is missing or ``path`` is a folder.
    """
    if path.is_dir():
        raise InputError(f"--out {path} is a folder: give a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: its folder does not exist; make it first")


def check_disk(folder: Path, needed_bytes: int) -> None:
    """Return if the disk has room for ``needed_bytes``.

    Raises:
        InputError: Otherwise.
    """
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise InputError(
            f"the disk of {folder} has {free / 2**20:.0f} MiB free, but the run needs about "
            f"{needed_bytes / 2**20:.0f} MiB: make room or give another --out"
        )
