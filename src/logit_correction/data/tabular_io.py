"""Reading tables, CSV or Parquet, and columns of them as texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from logit_correction.data import csv_files
from logit_correction.errors import InputError, did_you_mean, format_first

if TYPE_CHECKING:
    import pandas as pd

PARQUET = (".parquet", ".pq")
SUFFIXES = (".csv", ".tsv", *PARQUET)

#: Columns that a message names.
MOST_NAMED = 20

#: Columns of a table that may hold the names of files, the first that is there.
FILE_COLUMNS = ("path", "file", "filename", "file_name", "image", "img_filename", "image_id")


#: What is no table that is read here, though it is opened as one elsewhere.
OTHERS = (".xlsx", ".xls", ".ods", ".json", ".jsonl")


def is_table(path: Path) -> bool:
    """Return whether a file is a table by its name; a CSV may be packed by gzip."""
    return path.name.lower().removesuffix(".gz").endswith(SUFFIXES)


def read_frame(file: Path, columns: Sequence[str] | None = None, fix: str = "", **layout: Any) -> pd.DataFrame:
    """Read a CSV (separated by commas, semicolons, tabs or |, as its first line shows) or a Parquet file.

    Everything in a CSV is read as text: a label 007 stays 007, and "NA" is a text and not a gap.

    Args:
        file: The file.
        columns: Read these alone; by default all.
        fix: What to do with a file that cannot be read; by default what mends the fault.
        **layout: Of a CSV of another layout, as ``pandas.read_csv`` takes it; of no effect on Parquet.

    Returns:
        Its index numbers the rows: in a CSV as a spreadsheet does, its first line being row 1, else from 0.

    Raises:
        InputError: If the file is missing, damaged or empty, has not these columns, or two columns of one name.
    """
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise InputError(f"{file} {what}: give a CSV or Parquet file")
    if file.suffix.lower() in OTHERS:
        raise InputError(f'{file} is no CSV or Parquet file: save the table as CSV (in Excel: "CSV UTF-8")')

    def check(names: Sequence[str]) -> None:
        check_unique(names, str(file))
        if columns is not None:
            check_names(names, str(file), columns, fix)

    try:
        if file.suffix.lower() in PARQUET:
            frame = _read_parquet(file, columns, check)
        else:
            frame = csv_files.read_csv(file, columns, fix, check, layout)
    except InputError:
        raise
    except Exception as error:  # pandas and pyarrow raise many kinds on a damaged file
        reason = " ".join(str(error).rpartition("error: ")[2].split())
        decoding = isinstance(error, UnicodeError)
        usual = 'save it as UTF-8 (in Excel: "CSV UTF-8"), or unpack it' if decoding else "fix it"
        raise csv_files.unreadable(file, reason, fix or usual) from error
    if not len(frame):
        raise InputError(f"{file} has no rows")
    return frame


def _read_parquet(file: Path, columns: Sequence[str] | None, check: Callable[[Sequence[str]], None]) -> pd.DataFrame:
    import pandas as pd
    from pyarrow.parquet import read_schema

    held = list(read_schema(file).empty_table().to_pandas().columns)  # without those of an index
    names = [str(name).strip() for name in held]
    check(names)
    chosen = names if columns is None else [name for name in names if name in columns]
    frame = pd.read_parquet(file, columns=[held[names.index(name)] for name in chosen]).reset_index(drop=True)
    frame.columns = chosen
    return frame


def tell_columns(file: Path) -> str:
    """Return the end of a message, which columns a table has; nothing if that cannot be read."""
    from pyarrow.parquet import read_schema

    try:
        names = read_schema(file).names if file.suffix.lower() in PARQUET else csv_files.column_names(file)
    except (ValueError, OSError):
        return ""
    return f"; {file} has the columns {format_first([str(name) for name in names], MOST_NAMED)}"


def check_unique(names: Sequence[str], place: str) -> None:
    """Return if no two columns have one name.

    Raises:
        InputError: Names those that have.
    """
    twice = sorted({name for name, number in Counter(names).items() if number > 1})
    if twice:
        raise InputError(f"{place} has more than one column {', '.join(twice)}: rename all but one")


def check_names(names: Sequence[str], place: str, wanted: Sequence[str], fix: str = "") -> None:
    """Return if the names of a table's columns are among them; ``fix`` says what to do if not.

    Raises:
        InputError: Names the columns that are missing and those that are there.
    """
    missing = [f"{name!r}{_hint(name, names)}" for name in dict.fromkeys(wanted) if name not in names]
    if missing:
        has = format_first(names, MOST_NAMED)
        raise InputError(f"{place} has no column {', '.join(missing)}: it has {has}{fix and ': ' + fix}")


def _hint(name: str, names: Sequence[str]) -> str:
    several = [part.strip() for part in name.split(",")]
    if len(several) > 1 and set(several) <= set(names):
        return f" (several columns are written '[{', '.join(several)}]')"
    return did_you_mean(name, names)


def check_columns(frame: pd.DataFrame, place: str, wanted: Sequence[str]) -> None:
    """Return if a table has these columns, each once and of single values.

    Raises:
        InputError: Names the columns that are missing and those that are there, or that hold lists or mappings.
    """
    columns = list(frame.columns)
    check_names(columns, place, wanted)
    check_unique([name for name in columns if name in set(wanted)], place)
    nested = nested_columns(frame[list(dict.fromkeys(wanted))])
    if nested:
        raise InputError(
            f"{place}: column {', '.join(nested)} holds lists or mappings, not one value a row: leave it out, or write "
            "what is in it into columns of their own"
        )


def nested_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns in which a row has a list, an array or a mapping, as Parquet permits."""
    from pandas.api.types import infer_dtype, is_list_like

    objects = [name for name, values in frame.items() if values.dtype == object]  # other columns hold single values
    mixed = [name for name in objects if infer_dtype(frame[name], skipna=True).startswith("mixed")]
    return [str(name) for name in mixed if any(map(is_list_like, frame[name]))]


def texts_of(frame: pd.DataFrame, column: str) -> list[str | None]:
    """Return a column as texts without blanks around them, None where there is nothing; 3.0 is "3"."""
    values = frame[column]
    if values.dtype == object:  # 1 and True would count as one value
        return [as_text(value) for value in values.tolist()]
    number, different = values.factorize()
    texts = np.asarray([*map(as_text, different.tolist()), None], dtype=object)
    return texts[number].tolist()


def are_texts(rows: Any) -> bool:
    """Tell whether rows are a flat sequence of str, at least one; a single str is none, nor is a mapping.

    Raises:
        InputError: If they are but for rows without a text.

    >>> are_texts(["a", "b"]), are_texts("ab"), are_texts([1, 2]), are_texts(np.asarray([["a"]]))
    (True, False, False, False)
    >>> are_texts(["a", None])
    Traceback (most recent call last):
    ...
    logit_correction.errors.InputError: row 1 has no text: give one, or leave the row out
    """
    if isinstance(rows, str | Mapping) or not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__"):
        return False
    if getattr(rows, "ndim", 1) != 1 or not len(rows):
        return False
    other = next(((row, one) for row, one in enumerate(rows) if not isinstance(one, str)), None)
    if other is not None and _is_gap(other[1]):
        others = [one for one in rows if not _is_gap(one)]
        if others and all(isinstance(one, str) for one in others):
            raise InputError(f"row {other[0]} has no text: give one, or leave the row out")
    return other is None


def _is_gap(value: Any) -> bool:
    return not isinstance(value, str) and as_text(value) is None


def as_text(value: Any) -> str | None:
    """Return a value as a text, None where there is none.

    >>> as_text(3.0), as_text(" cat "), as_text(float("nan")), as_text(" ")
    ('3', 'cat', None, None)
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = "" if type(value).__name__ in ("NAType", "NaTType") else str(value).strip()
    return text or None


def file_column(frame: pd.DataFrame, table: Path) -> str:
    """Return the column that holds the names of files.

    Raises:
        InputError: If there is none of the usual name.
    """
    column = next((name for name in FILE_COLUMNS if name in frame.columns), None)
    if column is None:
        raise InputError(f"{table} has no column {', '.join(FILE_COLUMNS)}: name the column of files so")
    return column
