"""CSV and Parquet files as tables of cells, and the faults of CSV files that would change rows without an error.

A CSV is read as text, so that a label 007 stays 007. Its worst faults are quotes: one that is closed too late turns
several rows into one cell. Such rows are found here and named by their line, as are headers that stand in the middle
of a file because files were joined.
"""

from __future__ import annotations

import base64
import codecs
import csv
import gzip
import re
import warnings
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
from pyarrow import parquet

from logit_correction.data.cells import NUMBER, is_missing_cell, normalize_column_names
from logit_correction.errors import InputError
from logit_correction.formatting import format_reason
from logit_correction.unicode_text import normalize_text

PARQUET = (".parquet", ".pq")

#: Files that people take for tables and that are not read.
OTHER_TABLES = (".xlsx", ".xls", ".ods", ".json", ".jsonl", ".zip", ".bz2", ".xz", ".zst")

#: First bytes of a CSV -> its encoding. The mark of UTF-32 begins with that of UTF-16.
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

#: How to save a table that cannot be read.
SAVE_AS_UTF8 = "save it as a CSV in UTF-8, with texts that hold the separator in quotes, or as Parquet"

#: What may separate the cells of a CSV.
SEPARATORS = "\t;,|"

#: A first line by which Excel names the separator; it is not a row.
SEPARATOR_LINE = re.compile(rf'"?sep=([{SEPARATORS}])"?\r?\n', re.IGNORECASE)

#: Characters of a CSV by which its separator is found.
HEAD_CHARACTERS = 2**20

#: A column of a CSV holds numbers if this share of its cells does.
MOST_NUMBERS = 0.9


def is_table_file(path: Path) -> bool:
    """Return whether a file is a table by its name; a CSV may be packed by gzip."""
    return path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv", *PARQUET))


def read_frame(file: Path, encoding: str | None = None, remedy: str = SAVE_AS_UTF8) -> pd.DataFrame:
    """Read a CSV (separated by commas, semicolons, tabs or |) or a Parquet file.

    A CSV is read as text: a label 007 stays 007, and "NA" is a text and not a gap. Blank lines are left out. Its index
    numbers the rows as a spreadsheet does, from 2; that of Parquet from 0. ``attrs["swallowed"]`` holds what
    ``find_swallowed_lines`` found, ``attrs["decimal"]`` what its numbers have before their fraction.

    Args:
        file: The file.
        encoding: Encoding of a CSV without a byte order mark; None stands for UTF-8.
        remedy: The end of the message about a file that cannot be read.

    Raises:
        InputError: If the file cannot be read, or has no rows.
    """
    if not file.is_file() or file.suffix.lower() in OTHER_TABLES:
        fault = "is not a CSV or Parquet file" if file.exists() else "does not exist"
        raise InputError(f"{file} {fault}: give a CSV or Parquet file (from Excel save as CSV UTF-8)")
    try:
        frame = _read_parquet(file) if file.suffix.lower() in PARQUET else _read_csv(file, encoding)
    except Exception as error:  # pandas and pyarrow raise many kinds on a damaged file
        raise InputError(f"{file} cannot be read as a table ({format_reason(error)}): {remedy}") from error
    if not len(frame):
        raise InputError(f"{file} has no rows: give a table with some")
    return normalize_column_names(frame, str(file))


def _read_parquet(file: Path) -> pd.DataFrame:
    table = parquet.read_table(file)
    # What pandas noted of types and index may fit another version.
    frame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    frame = frame.drop(columns=[name for name in frame if re.fullmatch(r"__index_level_\d+__", str(name))])
    # Parquet itself keeps categories of texts alone; of others there are only the notes of pandas and of Arrow.
    columns = (table.schema.pandas_metadata or {}).get("columns", ())
    categories = [column["name"] for column in columns if column["pandas_type"] == "categorical"]
    encoded = (parquet.read_metadata(file).metadata or {}).get(b"ARROW:schema")
    if encoded:
        schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(encoded)))
        categories += [field.name for field in schema if pyarrow.types.is_dictionary(field.type)]
    return frame.astype({name: "category" for name in categories if name in frame})


def _read_csv(file: Path, encoding: str | None) -> pd.DataFrame:
    text = _read_csv_text(file, encoding)
    named_separator = SEPARATOR_LINE.match(text)
    separator = named_separator[1] if named_separator else _detect_separator(text)
    lines = StringIO(text[:HEAD_CHARACTERS], newline=None)
    header_row = next((row for row, line in enumerate(lines) if line.strip() and not SEPARATOR_LINE.match(line)), 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # of rows that are too long
            frame = pd.read_csv(
                StringIO(text),
                sep=separator,
                dtype=str,
                na_filter=False,
                index_col=False,
                header=None,  # pandas would call the second column x another name
                skip_blank_lines=False,  # so that lines are numbered
                skiprows=header_row,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise ValueError(_describe_parse_error(text, separator, header_row, error)) from error
    names = [name.strip() or f"Unnamed: {place}" for place, name in enumerate(frame.iloc[0])]
    frame.index += 1 + header_row
    frame.index.name = "line"
    frame = frame[1:].set_axis(names, axis=1)
    frame.attrs["swallowed"] = find_swallowed_lines(frame, separator)
    frame.attrs["decimal"] = "," if separator == ";" else "."  # a comma separates cells, or it may stand in numbers
    if frame.shape[1] > 1:  # of one column a blank line is a row that is empty
        blank = frame[frame.iloc[:, 0].str.strip() == ""]
        frame = frame.drop(index=blank.index[(blank.map(str.strip) == "").all(axis=1)])
    return frame


def _read_csv_text(file: Path, encoding: str | None) -> str:
    """Return the text of a CSV in the encoding that its byte order mark declares, or else in the given one."""
    open_file: Any = gzip.open if file.suffix.lower() == ".gz" else open
    with open_file(file, "rb") as stream:
        content: bytes = stream.read()
    declared = [name for mark, name in BYTE_ORDER_MARKS.items() if content.startswith(mark)]
    return content.decode(declared[0] if declared else encoding or "utf-8")


def is_utf8_csv(file: Path) -> bool:
    """Return whether a CSV is in UTF-8, as hardly any text in another encoding is."""
    with suppress(ValueError, OSError, EOFError, zlib.error):
        return "\0" not in _read_csv_text(file, "utf-8")
    return False


def _detect_separator(text: str) -> str:
    head = StringIO(text[:HEAD_CHARACTERS], newline=None).read()
    # Names between quotes may hold separators and line ends.
    unquoted = re.sub(r'(?<![^\t;,|\n])"(?:[^"]|"")*"', "", head)
    header = next(filter(str.strip, unquoted.split("\n")), "")
    return max(SEPARATORS, key=header.count)


def _describe_parse_error(text: str, separator: str, header_row: int, error: Exception) -> str:
    """Return why a CSV cannot be parsed, with the line as an editor numbers it: texts in quotes may hold line ends."""
    reader = csv.reader(StringIO(text, newline=None), delimiter=separator)
    starts = [1 + header_row]  # of the records, as lines
    num_columns = 0
    with suppress(csv.Error):  # of a cell that takes in too much
        for cells in islice(reader, header_row, None):
            num_columns = num_columns or len(cells)
            if len(cells) > num_columns:
                return f"line {starts[-1]} has {len(cells)} cells, and others {num_columns}"
            starts.append(reader.line_num + 1)
    if "EOF inside string" in str(error):
        return f"the quote that opens in line {max(line for line in starts if line <= reader.line_num)} is not closed"
    return format_reason(error).rpartition("C error: ")[2]


def find_swallowed_lines(frame: pd.DataFrame, separator: str) -> dict[int, str]:
    """Find rows of a CSV in which a quote that is closed too late has swallowed other rows.

    A line of such a row is a row by itself if it has as many cells as there are columns, and these hold what their
    columns hold elsewhere: numbers, or values that several rows share.

    Args:
        frame: The cells as texts; its index numbers the rows.
        separator: What separates cells.

    Returns:
        Number of the row -> its fault.
    """
    columns = [frame.iloc[:, place].str.replace(r"\r\n?", "\n", regex=True) for place in range(frame.shape[1])]
    quoted_places = [place for place, column in enumerate(columns) if column.str.contains("\n", regex=False).any()]
    if not quoted_places:
        return {}
    breaks = np.sum([column.str.count("\n") for column in columns], axis=0)
    header_lines = 1 + sum(str(name).count("\n") for name in frame)
    first_line = frame.index.to_numpy() - 1 + header_lines + np.cumsum(breaks) - breaks
    usual_values = [_find_shared_values_and_is_number(column) for column in columns]
    faults = {}
    for place in quoted_places:
        usual = [values if other != place else (set[str](), False) for other, values in enumerate(usual_values)]
        for row in np.flatnonzero(columns[place].str.contains("\n", regex=False)).tolist():
            first, *lines, last = columns[place].iloc[row].split("\n")
            if (
                _looks_like_row(first.split(separator), usual[place:])
                or _looks_like_row(last.split(separator), usual[: place + 1])
                or any(_looks_like_row(line.split(separator), usual) for line in lines)
            ):
                faults[int(frame.index[row])] = (
                    f"the quote of column {frame.columns[place]!r} takes in lines {first_line[row]} to "
                    f"{first_line[row] + breaks[row]}, which look like rows: close it, or double it within a text"
                )
    return faults


def _find_shared_values_and_is_number(column: pd.Series[str]) -> tuple[set[str], bool]:
    """Return the values that rows share, if most rows do, and whether a column holds numbers."""
    counts = column.value_counts()
    shared = counts[counts > 1]
    is_number = column.str.strip().str.fullmatch(NUMBER.pattern, flags=re.ASCII)
    return set(shared.index) if 2 * shared.sum() > len(column) else set(), is_number.mean() >= MOST_NUMBERS


def _looks_like_row(cells: Sequence[str], usual: Sequence[tuple[set[str], bool]]) -> bool:
    """Return whether there is a cell for each column, and cells are usual in all columns that have usual values."""
    if len(cells) != len(usual):
        return False
    matches = [
        cell in shared or (is_numeric and NUMBER.fullmatch(cell.strip()) is not None)
        for cell, (shared, is_numeric) in zip(cells, usual, strict=True)
        if shared or is_numeric
    ]
    return bool(matches) and all(matches)


def find_repeated_header_rows(frame: pd.DataFrame) -> list[int]:
    """Return the places of rows that hold the names of the columns again, as in files that were joined."""

    def split_names(cells: Iterable[Any]) -> list[str]:
        """Return the names that cells hold, sorted; a header of another separator stands in one cell."""
        text = " , ".join("" if is_missing_cell(cell) else str(cell) for cell in cells)
        parts = [part.strip(" \"'").casefold() for part in re.split(f"[{SEPARATORS}]", normalize_text(text, "NFKC"))]
        return sorted(filter(None, parts))

    header = split_names(name for name in frame if not re.match(r"Unnamed: \d+$", str(name)))
    if len(header) < 2 and frame.index.name != "line":
        return []
    longest = sum(map(len, header)) + 10 * len(header)
    rows = np.arange(len(frame))
    for place in range(frame.shape[1]):  # few rows are left after the first column
        may_be_names = [
            is_missing_cell(cell)
            or (isinstance(cell, str) and len(cell) < longest and set(header).issuperset(split_names([cell])))
            for cell in frame.iloc[rows, place]
        ]
        rows = rows[may_be_names]
    return [row for row in rows.tolist() if split_names(frame.iloc[row]) == header]
