"""The folders in which Corrupted CIFAR-10 is published: {pct}/align, {pct}/conflict, {pct}/valid and test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from logit_correction.data.image_files import image_store
from logit_correction.data.image_io import SUFFIXES
from logit_correction.data.problems import Problems
from logit_correction.data.stores import InputStore
from logit_correction.errors import InputError

_NAME = re.compile(r"_(\d+)_(\d+)\.[A-Za-z]+$")


@dataclass(frozen=True)
class ConflictFolders:
    """What the folders hold.

    Attributes:
        inputs: The M images.
        label: (M,) long.
        attribute: (M,) long.
        split: train (align and conflict), valid and test.
        names: M file names.
    """

    inputs: InputStore
    label: Tensor
    attribute: Tensor
    split: dict[str, Tensor]
    names: Sequence[str]


def check_conflict_folders(folder: Path, pct: str) -> tuple[Path, list[str]]:
    """Return the folder that holds everything, and the four folders in it, if they are there.

    Raises:
        InputError: If one is not.
    """
    base = folder.parent if folder.name == pct and (folder / "align").is_dir() else folder
    parts = [f"{pct}/align", f"{pct}/conflict", f"{pct}/valid", "test"]
    for part in parts:
        if not (base / part).is_dir():
            raise _missing(base / part, "does not exist", parts)
    return base, parts


def _missing(place: Path, what: str, parts: Sequence[str]) -> InputError:
    return InputError(
        f"{place} {what}: name by --data.published the folder that holds {' and '.join(parts)}; the number before pct "
        "is 100 times --data.minority_ratio"
    )


def read_conflict_folders(folder: Path, pct: str, num_values: int, size: int) -> ConflictFolders:
    """Read images whose names end in ``_<label>_<attribute>``.

    Args:
        folder: Holds ``pct`` and ``test``; or ``pct`` itself, beside which ``test`` lies.
        pct: Such as ``0.5pct``.
        num_values: Labels and attributes are 0..num_values - 1.
        size: Images are resized to it.

    Raises:
        InputError: If a folder is missing or empty, a name does not fit, or an image cannot be read.
    """
    base, parts = check_conflict_folders(folder, pct)
    found = []
    for part in parts:
        paths = sorted(p for p in (base / part).rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
        if not paths:
            raise _missing(base / part, "holds no images", parts)
        found.append(paths)
    all_paths = [path for paths in found for path in paths]
    names = [path.relative_to(base).as_posix() for path in all_paths]
    problems = Problems(str(base), names)
    values = torch.zeros((len(names), 2), dtype=torch.long)
    for row, name in enumerate(names):
        match = _NAME.search(name)
        if match is None or max(int(match[1]), int(match[2])) >= num_values:
            problems.add(row, f"its name does not end in _<label>_<attribute>, each 0 to {num_values - 1}")
            continue
        values[row] = torch.tensor([int(match[1]), int(match[2])])
        if row < len(found[0]) + len(found[1]) and (match[1] == match[2]) != (row < len(found[0])):
            problems.add(row, "lies in the folder of the other kind: align holds equal numbers, conflict others")
    if problems:
        raise InputError(f"{base}: {problems}: fix the names, or leave these images out")
    part_of = torch.tensor([0, 0, 1, 2]).repeat_interleave(torch.tensor([len(paths) for paths in found]))
    split = {name: (part_of == i).nonzero().flatten() for i, name in enumerate(("train", "valid", "test"))}
    inputs = image_store(all_paths, size=size, names=names)
    return ConflictFolders(inputs, values[:, 0], values[:, 1], split, names)
