"""What the sources of published data sets share: where their files lie, how tables are read, and known counts."""

from __future__ import annotations

import os
import shlex
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.images import image_store
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import Problems
from logit_correction.data.stores import InputStore
from logit_correction.data.table import SPLITS, DataTable
from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: Known rows of a split: per label and attribute where these are published, else all together.
Counts: TypeAlias = "int | list[list[int]]"


def data_folder(root: str | None) -> Path:
    """Return the folder to look for data in: ``root``, else $LOGIT_CORRECTION_DATA, else ~/.cache/logit_correction."""
    named = root or os.environ.get("LOGIT_CORRECTION_DATA")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "logit_correction"


def places_of(root: str | None, folders: Sequence[str]) -> list[Path]:
    """Return the folders to look into: the data folder and ``folders`` in it."""
    base = data_folder(root)
    return [base, *(base / folder for folder in folders)]


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
    places = places_of(root, folders)
    lacking = {place: [file for file in files if not (place / file).exists()] for place in places}
    for place, missing in lacking.items():
        if not missing:
            return place
    begun = [place for place in places if len(lacking[place]) < len(files)]
    place = (begun or places[1:])[0]
    raise InputError(
        f"{name} is not complete: {place} has no {' and no '.join(lacking[place])}: {source}; it belongs into "
        f"{place}, and another place is named by --data.root or LOGIT_CORRECTION_DATA"
    )


def fetch_command(archive: str, place: Path) -> str:
    """Return a command that unpacks an archive from the network into ``place``.

    There is no published checksum of these archives, so that is left to the user; what was read is checked by its
    counts.

    >>> fetch_command("https://example.org/birds.tar.gz", Path("my data"))
    "mkdir -p 'my data' && curl -L https://example.org/birds.tar.gz | tar xz -C 'my data'"
    """
    folder = shlex.quote(str(place))
    return f"mkdir -p {folder} && curl -L {archive} | tar xz -C {folder}"


def codes(values: pd.Series[str], meaning: Mapping[str, int], problems: Problems) -> Tensor:
    """Turn the texts of a column into numbers; a text without a meaning is a problem of its row, and becomes 0.

    Returns:
        (M,) long.
    """
    found = values.str.strip().map(dict(meaning))
    for row in np.flatnonzero(found.isna().to_numpy()).tolist():
        problems.add(row, f"{values.name} is {values.iloc[row]!r}, but must be {' or '.join(meaning)}")
    return torch.from_numpy(found.fillna(0).to_numpy(dtype=np.int64, copy=True))


def rows_of_splits(split: Tensor) -> dict[str, Tensor]:
    """Return the rows of train, valid and test from (M,) codes 0, 1 and 2."""
    return {name: (split == code).nonzero().flatten() for code, name in enumerate(SPLITS)}


def with_count_note(table: DataTable, name: str, published: Mapping[str, Counts]) -> DataTable:
    """Return the table, with a note if its counts differ from the published ones.

    Args:
        table: What was read.
        name: The data set.
        published: Split -> rows per label and attribute, or all rows.
    """
    differing = []
    for split, expected in published.items():
        found: Counts
        found = len(table.split[split]) if isinstance(expected, int) else table.group_counts(split).tolist()
        if found != expected:
            differing.append(f"{split} has {_format_counts(found)}, published are {_format_counts(expected)}")
    if not differing:
        return table
    per_group = any(not isinstance(expected, int) for expected in published.values())
    kind = "rows per group (label by label)" if per_group else "rows"
    note = f"these are not the published files of {name}, {kind}: {'; '.join(differing)}"
    if per_group:
        return replace(table, attribute_notes=(*table.attribute_notes, note))
    return replace(table, notes=(*table.notes, note))


def _format_counts(counts: Counts) -> str:
    if isinstance(counts, int):
        return f"{counts:,}"
    return " | ".join(", ".join(f"{count:,}" for count in row) for row in counts)


def get_again(what: str) -> str:
    """Return how to fix files of a published data set."""
    return f"get {what} again, or fix it"


class PublishedImages(DataSource):
    """A published data set of image files."""

    def __init__(self, root: str | None, size: int, augment: AugmentationName) -> None:
        """Check the options; those who inherit say what they mean."""
        if not 8 <= size <= 1024:
            raise InputError(f"size is {size}, but must lie in 8..1024: pixels of a side")
        self.root, self.size, self.image_size = root, size, (size, size)
        self.augment = named_augmentation(augment, size)

    @abstractmethod
    def _folder(self) -> Path:
        """Return the folder that holds the files."""

    def ensure_files(self) -> None:
        """Look for the files."""
        self._folder()

    def _store(self, place: Path, paths: Sequence[Path], names: Sequence[str]) -> InputStore:
        """Read the images, (3, size, size) each.

        Raises:
            InputError: Names the first ten files that are missing or damaged.
        """
        problems = Problems(str(place), list(names))
        store = image_store(paths, (self.size, self.size), problems, fit=self.fit)
        problems.raise_if_any("error", get_again(f"the images of {type(self).__name__}"))
        return store
