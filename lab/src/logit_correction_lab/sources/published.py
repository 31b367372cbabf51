"""What data sets share: where their files lie, how lists of rows are read, and how attributes are drawn.

The files of most published data sets may not be passed on, so a source looks for a user's own copy of them. When
something is missing or damaged, its error says what, where to get it and where to put it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.cells import check_required_column_names
from logit_correction.data.image_folders import is_image_name, walk_folder
from logit_correction.data.reader import Reader
from logit_correction.data.rows import RowErrors
from logit_correction.data.source import DataSource
from logit_correction.data.splits import SPLITS
from logit_correction.data.table import DataTable
from logit_correction.data.table_files import read_frame
from logit_correction.errors import InputError
from logit_correction.formatting import format_option, format_reason
from logit_correction.types import Correlation

if TYPE_CHECKING:
    import pandas as pd


def get_data_folder(root: str | None) -> Path:
    """Return the folder to look for data in: ``root``, else $LOGIT_CORRECTION_DATA, else ~/.cache/logit_correction."""
    folder = root or os.environ.get("LOGIT_CORRECTION_DATA") or "~/.cache/logit_correction"
    return Path(folder).expanduser()


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

    def ensure_raw_files(self) -> None:
        self.find_folder()

    def find_folder(self) -> Path:
        """Return the folder that holds the files; else raise ``InputError`` with where to get and put them."""
        base = get_data_folder(self.root)
        places = [base / folder for folder in (*self.folders, ".")]
        missing = {place: [file for file in self.files if not (place / file).exists()] for place in places}
        place = min(places, key=lambda place: len(missing[place]))
        if missing[place]:
            raise InputError(
                f"{self.title} is not complete: {place} has no {' and no '.join(missing[place])}: get it from "
                f"{self.source} and put it into {place}, or name another place by {format_option('data.root')} or "
                "LOGIT_CORRECTION_DATA"
            )
        return place


def read_list_columns(
    file: Path, columns: Sequence[str], header: Sequence[str] = (), skipped_lines: int = 0
) -> pd.DataFrame:
    """Return columns of a published list.

    Args:
        file: A CSV, or with ``header`` a list with blanks between its values.
        columns: Names of the columns.
        header: Names of all columns of a list.
        skipped_lines: Lines before the first row of a list.

    Raises:
        InputError: The file is damaged or lacks a column.
    """
    import pandas as pd

    if header:
        try:
            as_text: Any = {"dtype": str, "na_filter": False, "index_col": False}
            frame = pd.read_csv(file, sep=r"\s+", names=list(header), skiprows=skipped_lines, **as_text)
        except Exception as error:  # pandas raises many kinds
            raise InputError(f"{file} cannot be read as a list ({format_reason(error)}): get it again") from error
        frame.index = pd.RangeIndex(skipped_lines + 1, skipped_lines + 1 + len(frame), name="line")
    else:
        frame = read_frame(file, remedy="get it again")
    check_required_column_names(frame, str(file), columns)
    return frame[list(columns)]


def encode_column(values: pd.Series[str], codes: Mapping[str, int], errors: RowErrors) -> Tensor:
    """Return the numbers of the texts of a column.

    Args:
        values: M texts.
        codes: Text -> number.
        errors: Gets each row whose text has no number; the row becomes 0.

    Returns:
        (M,) long.
    """
    numbers = values.str.strip().map(dict(codes))
    for row in np.flatnonzero(numbers.isna()).tolist():
        errors.add(row, f"{values.name} is {values.iloc[row]!r}, but must be {' or '.join(codes)}")
    return torch.from_numpy(numbers.fillna(0).to_numpy(dtype=np.int64, copy=True))


def find_split_rows(split: Tensor) -> dict[str, Tensor]:
    """Return the rows of train, valid and test from (M,) codes 0, 1 and 2; rows of other codes are in no split."""
    return {name: (split == code).nonzero().flatten() for code, name in enumerate(SPLITS)}


def build_table_by_reader(
    reader: Reader,
    read: Any,
    errors: RowErrors,
    split: Mapping[str, Tensor],
    metadata: dict[str, object],
    with_reader_metadata: bool = False,
    **contents: Any,
) -> DataTable:
    """Return the table of rows whose inputs a reader makes, fitted on the training rows.

    Args:
        reader: The reader.
        read: What its ``validate`` returned for M rows, or M texts for a ``TextReader``.
        errors: Gets rows that are bad.
        split: Rows of train, valid and test.
        metadata: That of the table.
        with_reader_metadata: Whether the reader's metadata are added to it.
        **contents: Other fields of the table.
    """
    fitted = reader.fit_transform(read, split["train"], errors)
    if with_reader_metadata:
        metadata = metadata | fitted.metadata
    return DataTable(
        inputs=fitted.inputs,
        split=split,
        metadata=metadata,
        preparation=fitted.preparation,
        **fitted.forms,
        **contents,
    )


def read_labels_from_file_names(
    dataset_dir: Path, subfolders: Sequence[str], num_values: int
) -> tuple[list[Path], dict[str, Any]]:
    """Return the images of a data set whose file names end in ``_<label>_<attribute>``.

    Args:
        dataset_dir: Folder of the data set.
        subfolders: Four folders in it: training images whose attribute agrees with the label, those where it conflicts,
            validation and test images.
        num_values: Number of labels, and of attribute values.

    Returns:
        M files, and the fields ``label``, ``attribute``, ``split``, ``row_names`` and ``ordered`` of their table.

    Raises:
        InputError: A file has another name.
    """
    files = [list(filter(is_image_name, walk_folder(dataset_dir / subfolder).files)) for subfolder in subfolders]
    paths = [path for part in files for path in part]
    names = [path.relative_to(dataset_dir).as_posix() for path in paths]
    errors = RowErrors(str(dataset_dir), names)
    values = torch.zeros((len(names), 2), dtype=torch.long)
    for row, name in enumerate(names):
        match = re.search(r"_(\d+)_(\d+)\.[A-Za-z]+$", name)
        numbers = [int(number) for number in match.groups()] if match else [num_values]
        if max(numbers) >= num_values:
            errors.add(row, f"its name does not end in _<label>_<attribute>, each 0 to {num_values - 1}")
        else:
            values[row] = torch.tensor(numbers)
    errors.raise_if_any(remedy="fix the names, or leave these images out")
    code = torch.tensor([0, 0, 1, 2]).repeat_interleave(torch.tensor([len(part) for part in files]))
    return paths, {
        "label": values[:, 0],
        "attribute": values[:, 1],
        "split": find_split_rows(code),
        "row_names": names,
        "ordered": False,  # aligned images come first, and file names hold the attribute: no view may see either
    }


def sample_validation_split(
    num_valid: int, num_train: int, num_rows: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Return rows of train, valid and test, where validation rows are drawn from the first rows.

    Args:
        num_valid: Number of validation rows.
        num_train: Number of training and validation rows, which come first.
        num_rows: Number of all rows; the others are the test.
        generator: Random numbers.
    """
    train, valid = torch.randperm(num_train, generator=generator).split([num_train - num_valid, num_valid])
    return {"train": train.sort().values, "valid": valid.sort().values, "test": torch.arange(num_train, num_rows)}


def draw_attributes_with_conflicts(
    label: Tensor, correlation: Correlation, fraction: float, generator: torch.Generator
) -> Tensor:
    """Draw an attribute for every row so that a fixed number of rows conflicts with the correlation.

    Of the n rows of a label, ``fraction * n`` (rounded) are picked, and their attribute is drawn uniformly from the
    values that do not belong to the label. If ``fraction`` is more, as many conflict as if attributes were uniform, so
    1 removes a one-to-one correlation.

    Args:
        label: (N,) long, 0..L-1.
        correlation: Which attribute values belong to which label.
        fraction: In [0, 1].
        generator: Random numbers.

    Returns:
        (N,) long, 0..K-1.
    """
    outside = (correlation.weights == 0).float()
    shares = outside.double().mean(1).clamp(max=fraction).tolist()
    aligned = torch.multinomial(correlation.weights[label].float(), 1, generator=generator).squeeze(1)
    # To a label without other values any may be drawn: its share is 0, so the draw is not used.
    drawable = torch.where(outside.sum(1, keepdim=True) > 0, outside, torch.ones_like(outside))
    other = torch.multinomial(drawable[label], 1, generator=generator).squeeze(1)
    attribute = aligned.clone()
    for value, share in enumerate(shares):
        rows = (label == value).nonzero().flatten()
        picked = rows[torch.randperm(len(rows), generator=generator)[: round(share * len(rows))]]
        attribute[picked] = other[picked]
    return attribute
