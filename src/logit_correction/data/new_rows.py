"""New rows as people hold them: data frames, texts, files, folders and arrays, recognised in one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.cells import (
    check_required_columns,
    convert_attributes_to_texts,
    convert_to_label_array,
    convert_to_parquet_values,
    convert_to_texts,
    escape_cell,
    normalize_column_names,
)
from logit_correction.data.image_folders import find_label_folders, find_labelled_images, is_image_name
from logit_correction.data.images import ImageReader
from logit_correction.data.labels import find_name_positions
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.table_files import is_table_file, is_utf8_csv, read_frame
from logit_correction.errors import InputError
from logit_correction.formatting import format_reason
from logit_correction.types import Array, to_numpy
from logit_correction.unicode_text import normalize_text

#: Labels or attributes of n rows, or the column of a data frame that holds them.
Annotations: TypeAlias = "str | Sequence[Any] | Array | Tensor | pd.Series"


def convert_to_rows(
    inputs: Any, *, texts: bool = False, labelled: bool = False, encoding: str | None = None
) -> Iterator[Rows]:
    """Yield rows in the form that their type decides.

    Args:
        inputs: A data frame, what has ``to_pandas``, a mapping of columns, an array or a tensor; a list of texts, of
            names of files, of mappings or of numbers; or a ``Path`` or several: image files, folders, CSV and Parquet.
        texts: Whether a str is a text, rather than the name of a file.
        labelled: Whether a folder holds a folder of images for each label.
        encoding: Encoding of CSV files that are not in UTF-8.
    """
    frame = convert_to_frame(inputs)
    if frame is not None:
        yield Rows("the table of new rows", range(len(frame)), frame=frame)
        return
    if isinstance(inputs, Path):
        inputs = [inputs]
    is_array = isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "UO"
    if not (is_array or isinstance(inputs, Tensor) or hasattr(inputs, "toarray")):  # a sparse matrix
        if isinstance(inputs, str) or not isinstance(inputs, Iterable):
            raise InputError(f"the inputs are one value of type {type(inputs).__name__}: give a list of rows")
        inputs = list(inputs)
        is_text = [isinstance(value, str | Path) for value in inputs]
        if all(is_text):
            if texts and all(isinstance(value, str) for value in inputs):
                yield Rows("the new texts", range(len(inputs)), texts=inputs)
            else:
                yield from _read_paths(list(map(Path, inputs)), labelled, texts, encoding)
            return
        if any(is_text):
            raise InputError(
                f"row {is_text.index(False)} of the inputs is not a text, as others are: give one there, or leave the "
                "row out"
            )
    try:
        values = to_numpy(inputs)
    except ValueError:  # rows of different lengths
        values = np.empty((), dtype=object)
    if not values.ndim or values.dtype.kind not in "uifb":
        raise InputError("the inputs are not rows: give numbers, texts, files or mappings of one kind, or a data frame")
    yield Rows("the new rows", range(len(values)), values=values)


def convert_to_frame(table: Any) -> pd.DataFrame | None:
    """Return a data frame, what can become one, columns or a list of mappings as a data frame; None of others.

    An index that has a name becomes a column.
    """
    if hasattr(table, "to_pandas"):
        table = table.to_pandas()
    try:
        if isinstance(table, Mapping) and not hasattr(table, "shape"):
            columns = {name: to_numpy(value) if isinstance(value, Tensor) else value for name, value in table.items()}
            cells = {escape_cell(name): _drop_index(values) for name, values in columns.items()}
            table = pd.DataFrame(cells)
        elif isinstance(table, Sequence) and table and all(isinstance(row, Mapping) for row in table):
            table = pd.DataFrame(table, dtype=object)  # a gap next to a 3 does not make it 3.0
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the inputs cannot be read as a table ({format_reason(error)}): give a list of rows"
        ) from error
    if not isinstance(table, pd.DataFrame):
        return None
    frame = table.reset_index(drop=not any(table.index.names), allow_duplicates=True)
    frame = normalize_column_names(frame, "the table")
    return frame.assign(**{str(name): convert_to_parquet_values(frame[name]) for name in frame})


def _drop_index(values: Iterable[Any]) -> Any:
    """Return values as pandas aligns them by their place alone; of categories, also as such."""
    array = getattr(values, "array", values)
    return array if isinstance(array, pd.Categorical) else [escape_cell(value) for value in values]


def _read_paths(paths: Sequence[Path], labelled: bool, tables: bool, encoding: str | None) -> Iterator[Rows]:
    """Yield the rows of files, folders and tables, in their order; with ``tables`` a file is one unless an image."""

    def is_table(path: Path) -> bool:
        is_image = is_image_name(path)
        return not path.is_dir() and (
            is_table_file(path) or (tables and not is_image) or not (path.exists() or is_image)
        )

    for are_tables, group in groupby(paths, is_table):
        files: list[Path] = []
        notes: list[str] = []
        for path in group:
            if are_tables:
                frame = read_frame(path, None if encoding and is_utf8_csv(path) else encoding)
                yield Rows(str(path), frame.index, frame, path.parent)
            elif not path.is_dir():
                files.append(path)
            elif labelled:
                yield replace(_read_folder(path, labelled), folder=None)
            else:
                rows = _read_folder(path, labelled)
                files += [file for row, file in enumerate(rows.files or ()) if row not in rows.errors.by_row]
                notes += rows.notes
                notes += [f"{path}: left out: {rows.errors}"] if rows.errors else []
        if files:
            yield Rows("images", range(len(files)), files=files, notes=tuple(notes))


def _read_folder(folder: Path, labelled: bool) -> Rows:
    """Return the images of a folder; bad ones raise ``InputError`` if labels are needed, or if none is good."""
    folders = find_label_folders(folder) if labelled else {folder: None}
    if any(folders.values()):
        raise InputError(f"{folder} holds folders of splits: give one, such as {next(iter(folders)).parent}")
    rows = find_labelled_images(folder, folders)
    errors = rows.errors
    if labelled and errors:  # all that is wrong is raised at once
        ImageReader(None).check_readable(list(rows.files or ()), errors)
    if labelled or len(errors) == len(rows):
        errors.raise_if_any()
    return rows


def get_annotations(rows: Rows, values: Annotations, kind: str) -> Sequence[str | None]:
    """Return a label or an attribute of each row as text, None where it is missing.

    Args:
        rows: n rows.
        values: n values, or the column of the table that holds them.
        kind: ``label`` or ``attribute``, for messages; of attributes -1 is unknown, too.
    """
    if np.ndim(values) == 0:
        column = normalize_text(str(values))
        if rows.frame is None:
            raise InputError(f"{kind} {column!r} names a column, and {rows.place} have none: give one {kind} a row")
        check_required_columns(rows.frame, rows.place, [column])
        return convert_to_texts(rows.frame[column])
    array = convert_to_label_array(values)
    if len(array) != len(rows):
        raise InputError(f"there are {len(rows):,} rows, but {len(array):,} {kind}s: give one a row")
    return convert_attributes_to_texts(array) if kind == "attribute" else convert_to_texts(array)


def get_label_indices(rows: Rows, label: Annotations | None, label_names: Sequence[str]) -> NDArray[np.int64]:
    """Return the number (n,) of the label of each row.

    Args:
        rows: n rows, which may come with labels.
        label: n labels, or the column that holds them, where the rows come without.
        label_names: The names of the labels of training.

    Raises:
        InputError: If a row has no label, or one that training did not have.
    """
    row_labels = label if rows.label is None else rows.label
    if row_labels is None:
        raise InputError("new rows can be judged only by their labels: give label=, a list of names or a column")
    labels = get_annotations(rows, row_labels, "label")
    index = find_name_positions(labels, label_names)
    errors = RowErrors(rows.place, rows.names, {**rows.errors.by_row})
    for row in (index < 0).nonzero().flatten().tolist():
        errors.add(row, f"the label {labels[row]!r} is not in the training data" if labels[row] else "has no label")
    errors.raise_if_any(remedy=f"the labels of training are {', '.join(label_names)}: give one of them to each row")
    return index.numpy()
