"""Image files as a store of inputs: read and resized once, then kept in memory or streamed from one file."""

from __future__ import annotations

import json
import math
import os
import warnings
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from logit_correction.data.cache import cache_folder, digest, made_once, mapped_array, remove
from logit_correction.data.image_io import Fit, check_whole, fault_of, faults_of, read_image
from logit_correction.data.memory import memory_limit_bytes
from logit_correction.data.problems import OnBadRows, Problems
from logit_correction.data.stores import ArrayStore, InputStore, StreamedStore
from logit_correction.errors import InputError, InputWarning
from logit_correction.files import disk_of, plain, write_text

#: Images count as dark where no value reaches an eighth of the range, as where twelve bits stand in sixteen.
DARK = 32

#: So many images are looked at, to tell whether all are dark.
LOOKED_AT = 1000

#: Changes whenever an image would come out otherwise, so that what was kept before is not taken.
VERSION = 4


def image_store(
    paths: Sequence[Path],
    size: int | tuple[int, int],
    problems: Problems | None = None,
    on_bad_rows: OnBadRows = "error",
    *,
    fit: Fit = "stretch",
    cache: Path | None = None,
    memory_limit: float | None = None,
) -> InputStore:
    """Read image files into a store, once: what was resized is kept in one file of bytes.

    The images stay in memory if they take no more than ``memory_limit``; otherwise each batch is read from the
    file, so that memory stays bounded whatever their number.

    Args:
        paths: One file per row.
        size: Height and width to resize to, or one number for both.
        problems: Faults of the same rows that were found before; told together with files that cannot be read.
        on_bad_rows: With ``skip`` unreadable files are noted in ``problems``; the caller leaves these rows, which are
            black here, out.
        fit: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle.
        cache: Folder of the kept files; by default ``pictures`` in ``cache_folder()``.
        memory_limit: GiB that may stay in memory; see ``memory_limit_bytes``.

    Raises:
        InputError: Names the first ten files that cannot be read.
    """
    shape = (3, size, size) if isinstance(size, int) else (3, *size)
    found = Problems("images", list(map(str, paths))) if problems is None else problems
    parts: list[str | int] = [VERSION, *shape, fit]
    for row, path in enumerate(paths):
        parts += [os.path.abspath(path), *_stamp(path, row, found)]
    file = (cache_folder() / "pictures" if cache is None else cache) / f"{digest(parts)}.npy"
    limit = memory_limit_bytes(memory_limit)
    kept = _kept(file, (len(paths), *shape), limit)
    if kept is None:
        remove(file)
        looked = faults_of(lambda row: check_whole(paths[row], shape[1:]), paths, "looking at images")
        for row, fault in looked:  # before the long work of reading them whole
            found.add(row, fault)
        found.raise_if_any(on_bad_rows)
        _check_room(file.parent, len(paths) * math.prod(shape))
        beside = file.with_suffix(".json")
        made_once(file, partial(_decode, paths=paths, shape=shape, fit=fit, looked=looked, beside=beside))
        if (kept := _kept(file, (len(paths), *shape), limit)) is None:
            raise InputError(f"{file} changes while it is read: let nothing else write there")
    values, faults = kept
    for row, fault in faults:
        found.add(row, fault)
    found.raise_if_any(on_bad_rows)
    _tell_if_dark(values, found.place)
    sizes = f"{values.nbytes / 2**30:.2f} GiB, limit {limit / 2**30:.2f} GiB"
    if values.nbytes <= limit:
        return ArrayStore(torch.from_numpy(np.array(values)), place=f"in memory ({sizes})")
    return StreamedStore(file, place=f"streamed from {file} ({sizes})")


def _stamp(path: Path, row: int, found: Problems) -> tuple[int, int]:
    """Return what changes when a file is written again: its length and its time."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        found.add(row, f"{path} is missing" if isinstance(error, FileNotFoundError) else f"{path} {fault_of(error)}")
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _kept(file: Path, shape: tuple[int, ...], limit: int) -> tuple[NDArray[np.uint8], list[tuple[int, str]]] | None:
    """Return the images of a file and the faults of those that could not be read, or None if it has to be made again.

    The checksum beside it is compared where the images are read into memory anyway, not where they are streamed.
    """
    values = mapped_array(file)
    try:
        beside = json.loads(plain(file.with_suffix(".json")).read_text(encoding="utf-8"))
        faults = [(int(row), str(fault)) for row, fault in beside["faults"] if 0 <= row < shape[0]]
        checksum = beside["crc32"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if values is None or values.shape != shape or values.dtype != np.uint8:
        return None
    return (values, faults) if values.nbytes > limit or zlib.crc32(values.data) == checksum else None


def _tell_if_dark(values: NDArray[np.uint8], place: str) -> None:
    """Warn where all images are dark; of others a first one mostly shows that they are not."""
    rows = range(0, len(values), max(1, len(values) // LOOKED_AT))
    if len(values) and all(int(values[row].max()) < DARK for row in rows):
        warnings.warn(
            f"{place}: the images are dark: no value reaches {DARK} of 255, as where twelve bits stand in files of "
            "sixteen; if they should not be, write them with values of the full range",
            InputWarning,
            stacklevel=3,
        )


def _decode(
    temporary: Path,
    paths: Sequence[Path],
    shape: tuple[int, int, int],
    fit: Fit,
    looked: list[tuple[int, str]],
    beside: Path,
) -> None:
    """Write the images, and ``beside`` them a checksum and what could not be read, also that of ``looked``."""
    unreadable = {row for row, _ in looked}
    values = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=(len(paths), *shape))

    def read(row: int) -> None:
        if row not in unreadable:
            values[row] = read_image(paths[row], shape[1:], fit)

    bad = looked + faults_of(read, paths, "reading images")
    values.flush()
    write_text(beside, json.dumps({"crc32": zlib.crc32(values.data), "faults": bad}))


def _check_room(folder: Path, needed: int) -> None:
    free = disk_of(folder).free
    if free < needed:
        raise InputError(
            f"{folder}: the resized images need {needed / 2**30:.1f} GiB, but the disk has {free / 2**30:.1f} GiB "
            "free: make room, name another folder by LOGIT_CORRECTION_CACHE, or give a smaller --data.size"
        )
