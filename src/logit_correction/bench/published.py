"""What the published data sets share: where their files lie, codes of columns, known counts, folders of conflicts."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.images import SUFFIXES, visible_files
from logit_correction.data.rows import Problems
from logit_correction.data.table import SPLITS, DataTable
from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: Known rows of a split: per label and attribute where these are published, else all together.
Counts: TypeAlias = "int | list[list[int]]"

_NAME = re.compile(r"_(\d+)_(\d+)\.[A-Za-z]+$")


def data_folder(root: str | None) -> Path:
    """Return the folder to look for data in: ``root``, else $LOGIT_CORRECTION_DATA, else ~/.cache/logit_correction."""
    named = root or os.environ.get("LOGIT_CORRECTION_DATA")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "logit_correction"


def find_folder(name: str, root: str | None, folders: Sequence[str], files: Sequence[str], source: str) -> Path:
    """Return the first folder that holds all of ``files``: the data folder itself, or one of ``folders`` in it.

    Args:
        name: The data set, for the message.
        root: As in ``data_folder``.
        folders: The names under which the data set is usually unpacked, at least one; the message names the first.
        files: Files or folders that make the data set.
        source: Where to get it, a sentence without its full stop.

    Raises:
        InputError: If there is none; says what is missing, where to get it and where to put it.
    """
    base = data_folder(root)
    places = [base, *(base / folder for folder in folders)]
    lacking = {place: [file for file in files if not (place / file).exists()] for place in places}
    for place, missing in lacking.items():
        if not missing:
            return place
    place = next((place for place in places if len(lacking[place]) < len(files)), places[1])  # one that is begun
    raise InputError(
        f"{name} is not complete: {place} has no {' and no '.join(lacking[place])}: {source}; it belongs into "
        f"{place}, and another place is named by --data.root or LOGIT_CORRECTION_DATA"
    )


def fetch_command(archive: str, place: Path) -> str:
    """Return a command that unpacks an archive from the network; of no archive here a checksum is published.

    >>> fetch_command("https://example.org/birds.tar.gz", Path("my data"))
    "mkdir -p 'my data' && curl -L https://example.org/birds.tar.gz | tar xz -C 'my data'"
    """
    folder = shlex.quote(str(place))
    return f"mkdir -p {folder} && curl -L {archive} | tar xz -C {folder}"


def codes(values: pd.Series[str], meaning: Mapping[str, int], problems: Problems) -> Tensor:
    """Turn the texts of a column into numbers (M,) long; one without a meaning is a problem of its row."""
    found = values.str.strip().map(dict(meaning))
    for row in np.flatnonzero(found.isna().to_numpy()).tolist():
        problems.add(row, f"{values.name} is {values.iloc[row]!r}, but must be {' or '.join(meaning)}")
    return torch.from_numpy(found.fillna(0).to_numpy(dtype=np.int64, copy=True))


def rows_of_splits(split: Tensor) -> dict[str, Tensor]:
    """Return the rows of train, valid and test from (M,) codes 0, 1 and 2."""
    return {name: (split == code).nonzero().flatten() for code, name in enumerate(SPLITS)}


def with_count_note(table: DataTable, name: str, published: Mapping[str, Counts]) -> DataTable:
    """Return the table, with a note if its counts differ from the published ones, split -> rows per group or all."""

    def told(counts: Counts) -> str:
        groups = counts if isinstance(counts, list) else [[counts]]
        return " | ".join(", ".join(f"{count:,}" for count in row) for row in groups)

    differing, per_group = [], any(isinstance(counts, list) for counts in published.values())
    for split, expected in published.items():
        found = table.group_counts(split).tolist() if isinstance(expected, list) else len(table.split[split])
        if found != expected:
            differing.append(f"{split} has {told(found)}, published are {told(expected)}")
    if not differing:
        return table
    kind = "rows per group (label by label)" if per_group else "rows"
    note = f"these are not the published files of {name}, {kind}: {'; '.join(differing)}"
    if per_group:
        return replace(table, attribute_notes=(*table.attribute_notes, note))
    return replace(table, notes=(*table.notes, note))


@dataclass(frozen=True)
class ConflictFolders:
    """What four folders hold, of files that end in ``_<label>_<attribute>``.

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
    found: list[list[Path]] = []
    for part in parts:
        files = visible_files(base / part) if (base / part).is_dir() else ()
        found.append(sorted(path for path in files if path.suffix.lower() in SUFFIXES))
        if not found[-1]:
            raise InputError(f"{base / part} holds no images: get it again")
    counts, paths = [len(files) for files in found], [path for files in found for path in files]
    names = [path.relative_to(base).as_posix() for path in paths]
    problems, values = Problems(str(base), names), torch.zeros((len(names), 2), dtype=torch.long)
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
