"""New rows from files: image files, folders of them and tables, with and without labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.data.image_io import SUFFIXES, image_files_in
from logit_correction.data.problems import Problems
from logit_correction.data.row_names import row_names
from logit_correction.data.tabular_io import file_column, files_within, is_table, read_frame, texts_of
from logit_correction.errors import InputError
from logit_correction.runs.labelled_rows import Names

if TYPE_CHECKING:
    import pandas as pd


def image_files(inputs: Sequence[Path]) -> list[Path]:
    """Return the files that files, folders and tables of files stand for.

    Raises:
        InputError: If something is missing, a folder holds no images, or a table's files leave its folder.
    """
    found: list[Path] = []
    for path in inputs:
        if path.is_dir():
            found += _images_under(path)
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
        place: A folder with a folder of images for each label, or a table with a column of files.
        label: Of a table, its column of labels.
        attribute: Of a table, its column of attributes.

    Returns:
        The table or None, n files, and the column of labels or n labels.

    Raises:
        InputError: If there are no such folders, a folder holds no images, or a folder is asked for attributes.
    """
    if not place.is_dir():
        frame, files = listed_files(place)
        return frame, files, label
    if attribute is not None:
        raise InputError("a folder has no columns: to name attributes, give a CSV with a column of image files")
    labels = sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not labels:
        raise InputError(f"{place} holds no folders: put the images of each label into a folder of its name")
    own = {path.name: _images_under(path) for path in labels}
    names = [name for name, files in own.items() for _ in files]
    return None, [file for files in own.values() for file in files], names


def _images_under(folder: Path) -> list[Path]:
    found = image_files_in(folder)
    if not found:
        raise InputError(f"{folder} holds no images ({', '.join(SUFFIXES)})")
    return found
