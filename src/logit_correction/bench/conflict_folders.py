"""Folders {pct}/align, {pct}/conflict, a validation one and test, of files that end in ``_<label>_<attribute>``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from logit_correction.bench.published import rows_of_splits
from logit_correction.data.images import SUFFIXES, visible_files
from logit_correction.data.rows import Problems
from logit_correction.errors import InputError

_NAME = re.compile(r"_(\d+)_(\d+)\.[A-Za-z]+$")


@dataclass(frozen=True)
class ConflictFolders:
    """What the folders hold.

    Attributes:
        paths: The M images.
        names: M names of files, within the folder of all.
        label: (M,) long.
        attribute: (M,) long.
        split: train (align and conflict), valid and test.
        counts: Images of each of the four folders.
    """

    paths: list[Path]
    names: list[str]
    label: Tensor
    attribute: Tensor
    split: dict[str, Tensor]
    counts: list[int]


def read_conflict_folders(base: Path, parts: Sequence[str], num_values: int) -> ConflictFolders:
    """Find the images and read their names.

    Args:
        base: The folder of all.
        parts: Four folders in it: where the attribute goes with the label, where it conflicts, valid and test.
        num_values: Labels and attributes are 0..num_values - 1.

    Raises:
        InputError: If a folder holds no images or a name does not fit.
    """
    found = [_images_in(base / part) for part in parts]
    counts = [len(files) for files in found]
    if 0 in counts:
        raise InputError(f"{base / parts[counts.index(0)]} holds no images: get it again")
    paths = [path for files in found for path in files]
    names = [path.relative_to(base).as_posix() for path in paths]
    problems = Problems(str(base), names)
    values = torch.zeros((len(names), 2), dtype=torch.long)
    for row, name in enumerate(names):
        match = _NAME.search(name)
        label, attribute = (int(match[1]), int(match[2])) if match else (num_values, num_values)
        if max(label, attribute) >= num_values:
            problems.add(row, f"its name does not end in _<label>_<attribute>, each 0 to {num_values - 1}")
        elif row < counts[0] + counts[1] and (label == attribute) != (row < counts[0]):
            problems.add(row, "lies in the folder of the other kind: align holds equal numbers, conflict others")
        else:
            values[row, 0], values[row, 1] = label, attribute
    problems.raise_if_any("error", "fix the names, or leave these images out")
    split = rows_of_splits(torch.tensor([0, 0, 1, 2]).repeat_interleave(torch.tensor(counts)))
    return ConflictFolders(paths, names, values[:, 0], values[:, 1], split, counts)


def _images_in(folder: Path) -> list[Path]:
    files = visible_files(folder) if folder.is_dir() else ()
    return sorted(path for path in files if path.suffix.lower() in SUFFIXES)
