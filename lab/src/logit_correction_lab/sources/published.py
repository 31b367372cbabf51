"""What the data sets share: where their files lie, codes of columns, folders of conflicts, and what is drawn."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.frames import check_column_names, read_frame
from logit_correction.data.images import IMAGE_SUFFIXES, list_visible_files
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import RowErrors
from logit_correction.data.table import SPLITS
from logit_correction.errors import InputError
from logit_correction.formatting import format_reason
from logit_correction.types import Correlation

if TYPE_CHECKING:
    import pandas as pd


def get_data_folder(root: str | None) -> Path:
    """Return the folder to look for data in: ``root``, else $LOGIT_CORRECTION_DATA, else ~/.cache/logit_correction."""
    named = root or os.environ.get("LOGIT_CORRECTION_DATA")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "logit_correction"


class PublishedSource(DataSource):
    """A data set that is read from your own copy of its files.

    Attributes:
        title: Name of the data set.
        root: The folder with its files, or one with a folder of them; None stands for the data folder.
        folders: Names of folders that may hold the files.
        files: Files and folders that belong to it.
        source: Where to get it.
    """

    title: str
    root: str | None
    folders: Sequence[str]
    files: Sequence[str]
    source: str

    def ensure_files(self) -> None:
        self.folder()

    def folder(self) -> Path:
        """Return the folder that holds the files; ``InputError`` says where to get and put them."""
        return find_dataset_folder(self.title, self.root, self.folders, self.files, self.source)


def read_columns(file: Path, columns: Sequence[str], header: Sequence[str] = (), skipped: int = 0) -> pd.DataFrame:
    """Return columns of a published list; ``InputError`` if it is damaged or has not all of them.

    It is a CSV, or where there is a ``header`` a list with blanks between its values, below so many other lines.
    """
    import pandas as pd

    if header:
        try:
            text: Any = {"dtype": str, "na_filter": False, "index_col": False}
            frame = pd.read_csv(file, sep=r"\s+", names=list(header), skiprows=skipped, **text)
        except Exception as error:  # pandas raises many kinds
            raise InputError(f"{file} cannot be read as a list ({format_reason(error)}): get it again") from error
        frame.index = pd.RangeIndex(skipped + 1, skipped + 1 + len(frame), name="line")
    else:
        frame = read_frame(file, fix="get it again")
    check_column_names(list(frame.columns), str(file), columns)
    return frame[list(columns)]


def find_dataset_folder(name: str, root: str | None, folders: Sequence[str], files: Sequence[str], source: str) -> Path:
    """Return the folder that holds all of ``files``: one of ``folders`` in the data folder, or that itself."""
    base = get_data_folder(root)
    places = [*(base / folder for folder in folders), base]
    lacking = {place: [file for file in files if not (place / file).exists()] for place in places}
    place = min(places, key=lambda place: len(lacking[place]))
    if lacking[place]:
        raise InputError(
            f"{name} is not complete: {place} has no {' and no '.join(lacking[place])}: get it from {source} and put "
            f"it into {place}, or name another place by --data.root or LOGIT_CORRECTION_DATA"
        )
    return place


def encode_column(values: pd.Series[str], meaning: Mapping[str, int], problems: RowErrors) -> Tensor:
    """Turn the texts of a column into numbers (M,) long; one without a meaning is a problem of its row."""
    found = values.str.strip().map(dict(meaning))
    for row in np.flatnonzero(found.isna().to_numpy()).tolist():
        problems.add(row, f"{values.name} is {values.iloc[row]!r}, but must be {' or '.join(meaning)}")
    return torch.from_numpy(found.fillna(0).to_numpy(dtype=np.int64, copy=True))


def find_split_rows(split: Tensor) -> dict[str, Tensor]:
    """Return the rows of train, valid and test from (M,) codes 0, 1 and 2."""
    return {name: (split == code).nonzero().flatten() for code, name in enumerate(SPLITS)}


def read_conflict_folders(
    base: Path, parts: Sequence[str], num_values: int
) -> tuple[list[Path], list[str], Tensor, Tensor, dict[str, Tensor]]:
    """Return images whose names end in ``_<label>_<attribute>``: files, names, labels, attributes (M,), and splits.

    The four ``parts`` of ``base`` are where the attribute goes with the label, where it conflicts, valid and test.
    """
    found = [[one for one in list_visible_files(base / part) if one.suffix.lower() in IMAGE_SUFFIXES] for part in parts]
    paths = [path for files in found for path in sorted(files)]
    names = [path.relative_to(base).as_posix() for path in paths]
    problems, values = RowErrors(str(base), names), torch.zeros((len(names), 2), dtype=torch.long)
    for row, name in enumerate(names):
        match = re.search(r"_(\d+)_(\d+)\.[A-Za-z]+$", name)
        if match is None or max(int(match[1]), int(match[2])) >= num_values:
            problems.add(row, f"its name does not end in _<label>_<attribute>, each 0 to {num_values - 1}")
        else:
            values[row] = torch.tensor([int(match[1]), int(match[2])])
    problems.raise_if_any(fix="fix the names, or leave these images out")
    split = torch.tensor([0, 0, 1, 2]).repeat_interleave(torch.tensor([len(files) for files in found]))
    return paths, names, values[:, 0], values[:, 1], find_split_rows(split)


def draw_validation_split(num_valid: int, num_train: int, total: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Draw ``num_valid`` of the ``num_train`` first rows for validation; the test is what comes after those."""
    train, valid = torch.randperm(num_train, generator=generator).split([num_train - num_valid, num_valid])
    return {"train": train.sort().values, "valid": valid.sort().values, "test": torch.arange(num_train, total)}


def draw_attributes_with_conflicts(
    label: Tensor, correlation: Correlation, fraction: float, generator: torch.Generator
) -> Tensor:
    """Draw an attribute for every row so that a fixed number of rows conflicts with the correlation.

    Of the n rows of a label, ``fraction * n`` (rounded) are picked, and their attribute is drawn uniformly from the
    values that the label does not go with. As many conflict as if attributes were uniform where ``fraction`` asks for
    more, so a ratio of 1 removes a one-to-one correlation.
    """
    outside = (correlation.weights == 0).float()
    share = [min(fraction, part) for part in outside.double().mean(1).tolist()]
    aligned = torch.multinomial(correlation.weights[label].float(), 1, generator=generator).squeeze(1)
    # A label that goes with all values has no other; its share is 0 and its draw is not used.
    drawn_from = torch.where(outside.sum(1, keepdim=True) > 0, outside, torch.ones_like(outside))
    other = torch.multinomial(drawn_from[label], 1, generator=generator).squeeze(1)
    conflicts = torch.zeros(len(label), dtype=torch.bool)
    for value in range(correlation.num_labels):
        rows = (label == value).nonzero().flatten()
        picked = torch.randperm(len(rows), generator=generator)[: round(share[value] * len(rows))]
        conflicts[rows[picked]] = True
    return torch.where(conflicts, other, aligned)
