"""Reading tables, CSV or Parquet, and columns of them as texts."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from logit_correction.data.problems import Problems
from logit_correction.errors import InputError, did_you_mean, format_first
from logit_correction.files import is_within

if TYPE_CHECKING:
    import pandas as pd

PARQUET = (".parquet", ".pq")
SUFFIXES = (".csv", ".tsv", *PARQUET)

#: Columns that a message names.
MOST_NAMED = 20

#: Columns of a table that may hold the names of files, the first that is there.
FILE_COLUMNS = ("path", "file", "filename", "file_name", "image", "img_filename", "image_id")


def is_table(path: Path) -> bool:
    """Return whether a file is a table by its name."""
    return path.suffix.lower() in SUFFIXES


def read_frame(file: Path, columns: Sequence[str] | None = None, fix: str = "fix it", **layout: Any) -> pd.DataFrame:
    """Read a CSV (separated by commas, semicolons or tabs, as its first line shows) or a Parquet file.

    Everything in a CSV is read as text: a label 007 stays 007, and "NA" is a text and not a gap.

    Args:
        file: The file.
        columns: Read these alone; by default all.
        fix: What to do with a file that cannot be read.
        **layout: Of a CSV of another layout, as ``pandas.read_csv`` takes it.

    Raises:
        InputError: If the file is missing, damaged or empty, or has not these columns.
    """
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise InputError(f"{file} {what}: give a CSV or Parquet file")
    try:
        frame = _parse(file, columns, fix, layout)
    except InputError:
        raise
    except Exception as error:  # pandas and pyarrow raise many kinds on a damaged file
        reason = " ".join(str(error).rpartition("error: ")[2].split())
        raise InputError(f"{file} cannot be read as a table ({reason}): {fix}") from error
    if not len(frame):
        raise InputError(f"{file} has no rows")
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def _parse(file: Path, columns: Sequence[str] | None, fix: str, layout: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    if file.suffix.lower() in PARQUET:
        return pd.read_parquet(file)
    if "sep" not in layout:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            layout = layout | {"sep": max(",;\t", key=opened.readline().count)}
    plain = layout.keys() == {"sep"}
    layout = layout | {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig", "index_col": False}
    if plain or columns is not None:
        header = pd.read_csv(file, nrows=0, **layout)
        if columns is not None:
            check_columns(header, str(file), columns, fix)
            layout["usecols"] = list(columns)
        read = _by_arrow(file, list(header.columns), layout["sep"], columns) if plain else None
        if read is not None:
            return read
    return pd.read_csv(file, **layout).fillna("")  # a line may end too early


def _by_arrow(file: Path, header: list[str], sep: str, columns: Sequence[str] | None) -> pd.DataFrame | None:
    """Read a CSV in a third of the time that pandas takes, and half of the memory; None where it is not so regular.

    What has quotes, lines of too few values, a single column, or columns of one name or none is left to pandas.
    """
    import pyarrow as pa
    from pyarrow import csv

    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if len(header) < 2 or content.find(b'"') >= 0 or content.find(b"\0") >= 0:
            return None
    types = dict.fromkeys(header, pa.string())
    try:
        table = csv.read_csv(
            file,
            parse_options=csv.ParseOptions(delimiter=sep, quote_char=False),
            convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except pa.ArrowException:
        return None
    if table.column_names != header:
        return None
    return (table if columns is None else table.select(list(columns))).to_pandas()


def tell_columns(file: Path) -> str:
    """Return the end of a message, which columns a table has; nothing if that cannot be read."""
    import pyarrow as pa
    from pyarrow.parquet import read_schema

    try:
        names = read_schema(file).names if file.suffix.lower() in PARQUET else read_frame(file, nrows=1).columns
    except (InputError, OSError, pa.ArrowException):
        return ""
    return f"; {file} has the columns {format_first([str(name) for name in names], MOST_NAMED)}"


def check_columns(frame: pd.DataFrame, place: str, wanted: Sequence[str], fix: str = "") -> None:
    """Return if a table has these columns, each once and of single values; ``fix`` says what to do if not.

    Raises:
        InputError: Names the columns that are missing and those that are there, or that hold lists or mappings.
    """
    columns = list(frame.columns)
    missing = [f"{name!r}{did_you_mean(name, columns)}" for name in dict.fromkeys(wanted) if name not in columns]
    if missing:
        has = format_first(columns, MOST_NAMED)
        raise InputError(f"{place} has no column {', '.join(missing)}: it has {has}{fix and ': ' + fix}")
    twice = sorted({name for name in wanted if columns.count(name) > 1})
    if twice:
        raise InputError(f"{place} has more than one column {', '.join(twice)}: rename all but one")
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
    """Tell whether rows are a flat sequence of str, at least one; a single str is none.

    >>> are_texts(["a", "b"]), are_texts("ab"), are_texts([1, 2]), are_texts(np.asarray([["a"]]))
    (True, False, False, False)
    """
    if isinstance(rows, str) or not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__"):
        return False
    return getattr(rows, "ndim", 1) == 1 and len(rows) > 0 and all(isinstance(text, str) for text in rows)


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


def files_within(
    root: Path, names: Sequence[str | None], problems: Problems, column: str = "", look: bool = True
) -> list[Path]:
    """Return the files that the rows of a table name; a name that leaves ``root`` is a problem of its row.

    Args:
        root: The folder.
        names: M names, None or empty where there is none.
        problems: Problems of the M rows, more are added.
        column: What names the files, for messages.
        look: Whether to look at each file: it must be there, and no link may lead out of ``root``.

    Returns:
        M paths, ``root`` itself for bad names.
    """
    base, paths = (os.path.realpath if look else os.path.abspath)(root), []
    for row, name in enumerate(names):
        path, fault = root / (name or ""), ""
        if not name:
            fault = f"column {column!r} is empty"
        elif "\0" in name or not is_within(path, base, follow=look):
            fault = f"{name!r} lies outside of {root}"
        elif look and not os.path.isfile(path):
            fault = f"{name!r} is missing in {root}"
        if fault:
            problems.add(row, fault)
        paths.append(root if fault else path)
    return paths
