"""New rows from files: image files, folders of them and tables, with and without labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.data.frames import file_column, is_table, read_frame, row_names, texts_of
from logit_correction.data.images import METADATA, FoundImages, find_images, folders_with_splits
from logit_correction.data.rows import Problems, files_within
from logit_correction.data.table_file import FIX
from logit_correction.errors import InputError, InputWarning
from logit_correction.runs.labelled_rows import Names

if TYPE_CHECKING:
    import pandas as pd


def image_files(inputs: Sequence[Path]) -> list[Path]:
    """Return the files that files, folders and tables of files stand for.

    Raises:
        InputError: If something is missing, a folder holds no images or bad links, or a table's files leave its folder.
    """
    found: list[Path] = []
    for path in inputs:
        if path.is_dir():
            found += _images_in(path, [path]).files
        elif not path.is_file():
            raise InputError(f"{path} does not exist: give files, folders or a CSV")
        elif is_table(path):
            found += listed_files(path)[1]
        else:
            found.append(path)
    return found


def listed_files(table: Path) -> tuple[pd.DataFrame, list[Path]]:
    """Return a table and the files that it names; they may not leave the table's folder.

    Raises:
        InputError: If no column names files, or a file is missing or lies elsewhere; names the first ten rows.
    """
    frame = read_frame(table)
    column = file_column(frame, table)
    problems = Problems(str(table), row_names(frame.index))
    files = files_within(table.parent, texts_of(frame, column), problems, column)
    problems.raise_if_any("error", hint="name files in the folder of the table")
    return frame, files


def labelled_images(place: Path, label: Names | None, attribute: Names | None) -> tuple[Any, list[Path], Names | None]:
    """Return image files, and where their labels stand.

    Args:
        place: A folder with a metadata.csv or a folder of images for each label, or a table with a column of files.
        label: Of a table, its column of labels.
        attribute: Of a table, its column of attributes.

    Returns:
        The table or None, n files, and the column of labels or n labels.

    Raises:
        InputError: If there are no such folders, they hold no images or bad links, or they are asked for attributes.
    """
    if (place / METADATA).is_file():
        place = place / METADATA
    if not place.is_dir():
        frame, files = listed_files(place)
        return frame, files, label
    if attribute is not None:
        raise InputError("a folder has no columns: to name attributes, give a CSV with a column of image files")
    folders, notes = folders_with_splits(place)
    if not folders:
        raise InputError(f"{place} holds no folders: put the images of each label into a folder of its name")
    splits = {split: folder for folder, split in folders.items() if split is not None}
    if splits:
        names, one = ", ".join(folder.name for folder in folders), splits.get("test", next(iter(splits.values())))
        raise InputError(f"{place} holds folders of splits ({names}): give one of them, such as {one}")
    found = _images_in(place, folders, notes)
    return None, found.files, [folder.name for folder in found.folders]


def _images_in(root: Path, folders: Iterable[Path], notes: Sequence[str] = ()) -> FoundImages:
    """Find images by the rules of training; what is left out is told of, with these notes."""
    found = find_images(root, folders)
    found.problems.raise_if_any("error", hint=FIX)
    for note in (*notes, *found.notes):
        warnings.warn(note, InputWarning, stacklevel=2)
    return found
