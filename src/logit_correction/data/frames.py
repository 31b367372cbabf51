"""Tables: CSV and Parquet files, what their rows are called, and their columns as texts, numbers or dates."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.formatting import (
    format_first,
    format_option,
    format_reason,
    format_row_count,
    format_value,
    is_missing,
    suggest_name,
)
from logit_correction.spreadsheets import read_spreadsheet_csv
from logit_correction.types import TrainingRows, to_numpy
from logit_correction.unicode_text import escape_undecodable, normalize_text

if TYPE_CHECKING:
    import pandas as pd

PARQUET = (".parquet", ".pq")

#: Columns of a table that may hold the names of files; the first that is there counts.
FILE_COLUMNS = ("path", "file", "filename", "file_name", "image", "img_filename", "image_id")

#: What stands for no value in a column of numbers or dates, in small letters; among names only the empty text does.
GAPS = ("", "?", "na", "n/a", "nan", "nat", "none", "null")

#: A number, by whose value names are compared; and one that pandas has written with a point, since others are missing.
NUMBER = re.compile(r"[+-]?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
WHOLE = re.compile(r"^([+-]?\d+)\.0+$", re.ASCII)

#: Rows that share a name, in the mean; with fewer, more than ``FEWEST_NAMES`` names are hardly categories.
FEWEST_ROWS = 10

#: Larger numbers overflow where a network works with them.
LARGEST = float(np.finfo(np.float32).max)


def is_table_file(path: Path) -> bool:
    """Return whether a file is a table by its name; a CSV may be packed by gzip."""
    return path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv", *PARQUET))


def read_frame(file: Path, encoding: str | None = None, fix: str | None = None) -> pd.DataFrame:
    """Read a CSV (separated by commas, semicolons, tabs or |) or a Parquet file.

    A CSV is read as text: a label 007 stays 007, and "NA" is a text and not a gap. Blank lines are left out.
    Its index numbers the rows as a spreadsheet does, from 2; that of Parquet from 0.
    """
    if not file.is_file() or file.suffix.lower() in (".xlsx", ".xls", ".ods", ".json", ".jsonl"):
        what = "is no CSV or Parquet file" if file.exists() else "does not exist"
        raise InputError(f"{file} {what}: give a CSV or Parquet file (from Excel save as CSV UTF-8)")
    try:
        if file.suffix.lower() in PARQUET:
            from pyarrow import parquet

            # What pandas noted of types and index may fit another version.
            frame = parquet.read_table(file).to_pandas(ignore_metadata=True, integer_object_nulls=True)
            categories = [name for name in find_category_columns(file) if name in frame]
            frame = frame.astype(dict.fromkeys(categories, "category"))
            frame = frame.drop(columns=[name for name in frame if re.fullmatch(r"__index_level_\d+__", str(name))])
        else:
            frame = _csv(file, encoding or "utf-8-sig")
    except Exception as error:  # pandas and pyarrow raise many kinds on a damaged file
        reason = format_reason(error).rpartition("C error: ")[2]
        long = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason)
        if long is not None:
            line = find_line(file, encoding or "utf-8-sig", int(long[2]))
            reason = f"line {line} has {long[3]} cells, and others {long[1]}"
        if "EOF inside string" in reason:
            reason = f"the quote that opens in line {find_unclosed_quote(file, encoding)} is not closed"
        other = "utf-16" if getattr(error, "object", b"")[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
        fix = fix or (
            "save it as a CSV in UTF-8, with texts that hold the separator in quotes, or as Parquet; one of Excel in "
            f"another encoding is read by {format_option('data.encoding', other)}"
        )
        raise InputError(f"{file} cannot be read as a table ({reason}): {fix}") from error
    frame = rename_columns(frame, [str(name) for name in frame.columns], str(file))
    if not len(frame):
        raise InputError(f"{file} has no rows: give a table with some")
    return frame


def find_category_columns(file: Path) -> list[str]:
    """Return the columns of a Parquet file that were categories when it was written.

    Parquet itself keeps those of texts alone. Of others only the notes of pandas and of Arrow tell.
    """
    import pyarrow
    from pyarrow import parquet

    notes = parquet.read_metadata(file).metadata or {}
    with suppress(ValueError, TypeError, KeyError, AttributeError, pyarrow.ArrowException):
        of_pandas = json.loads(notes.get(b"pandas", b"{}")).get("columns", [])
        names = [column["name"] for column in of_pandas if column["pandas_type"] == "categorical"]
        of_arrow = notes.get(b"ARROW:schema")
        schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(of_arrow))) if of_arrow else ()
        return names + [field.name for field in schema if pyarrow.types.is_dictionary(field.type)]
    return []


def _csv(file: Path, encoding: str) -> pd.DataFrame:
    import pandas as pd

    separator = _find_separator(file, encoding)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # of rows that are too long
        frame = pd.read_csv(
            file,
            sep=separator,
            encoding=encoding,
            dtype=str,
            na_filter=False,
            index_col=False,
            header=None,  # pandas would call the second column x another name
            skip_blank_lines=False,  # so that lines are numbered
        )
    names = [name.strip() or f"Unnamed: {place}" for place, name in enumerate(frame.iloc[0])]
    frame.index += 1
    frame = frame[1:].set_axis(names, axis=1)
    frame.index.name = "line"
    frame.attrs["swallowed"] = find_swallowed_lines(frame, separator)
    frame.attrs["decimal"] = "," if separator == ";" else "."  # which separates cells where it is not in numbers
    blank = frame[frame.iloc[:, 0].str.strip() == ""]
    if frame.shape[1] == 1 or not len(blank):  # of one column a blank line is a row that is empty
        return frame
    return frame.drop(index=blank.index[(blank.map(str.strip) == "").all(axis=1)])


def _find_separator(file: Path, encoding: str) -> str:
    with _opened(file, encoding) as lines:
        # Names between quotes may hold separators and line ends.
        unquoted = re.sub(r'(?<![^\t;,|\n])"(?:[^"]|"")*"', "", lines.read(2**20))
    return max("\t;,|", key=unquoted.lstrip("\n").partition("\n")[0].count)


def find_line(file: Path, encoding: str, record: int) -> int:
    """Return the line of a CSV in which a record begins, both from 1; a text between quotes may hold line ends."""
    begins = 1
    with _opened(file, encoding) as lines, suppress(csv.Error):
        reader = csv.reader(lines, delimiter=_find_separator(file, encoding))
        for number, _ in enumerate(reader, 1):
            if number == record:
                break
            begins = reader.line_num + 1
    return begins


def _opened(file: Path, encoding: str) -> IO[str]:
    opened: Callable[..., IO[str]] = gzip.open if file.suffix.lower() == ".gz" else open
    return opened(file, "rt", encoding=encoding, errors="replace")


def find_unclosed_quote(file: Path, encoding: str | None) -> int:
    """Return the line of a CSV in which a quote opens that nothing closes."""
    with _opened(file, encoding or "utf-8-sig") as lines:
        text = lines.read()
    quoted = re.finditer(r'(?:^|(?<=[\t;,|\n]))"[^"]*(?:""[^"]*)*("|\Z)', text)
    opening = next((match.start() for match in quoted if not match[1]), 0)
    return text.count("\n", 0, opening) + 1


def find_swallowed_lines(frame: pd.DataFrame, separator: str) -> dict[int, str]:
    """Return rows of a CSV, by their line, of which a quote that is closed too late has taken in others, and why.

    A line within a cell counts as a row if it has as many cells as are to be there, and those of other columns hold
    what these columns hold elsewhere: numbers, or values that several rows share.
    """
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    positions = [place for place, column in enumerate(columns) if column.str.contains("\n", regex=False).any()]
    if not positions:
        return {}
    cells = [column.tolist() for column in columns]
    breaks = [sum(column[row].count("\n") for column in cells) for row in range(len(frame))]
    header = sum(str(name).count("\n") for name in frame)
    start = np.arange(len(frame)) + 2 + header + np.cumsum([0, *breaks[:-1]])

    @cache
    def known(place: int) -> tuple[set[str], bool]:
        """Return the values of several rows, and whether all are numbers; none of a column of texts."""
        count = Counter(cells[place])
        numbers = sum(number for cell, number in count.items() if NUMBER.fullmatch(cell.strip()))
        several = {cell for cell, number in count.items() if number > 1}
        rows = sum(count[cell] for cell in several)
        return several if 2 * rows > len(frame) else set(), numbers >= MOST * len(frame)

    def looks_like_row(line: str, places: Sequence[int], own: int) -> bool:
        parts = line.rstrip("\r").split(separator)
        if len(parts) != len(places):
            return False
        others = [(part, *known(place)) for place, part in zip(places, parts, strict=True) if place != own]
        alike = [
            part in several or (numeric and NUMBER.fullmatch(part.strip()) is not None)
            for part, several, numeric in others
            if several or numeric
        ]
        return bool(alike) and all(alike)

    found = {}
    every = range(frame.shape[1])
    for place in positions:
        name = frame.columns[place]
        for row, cell in enumerate(cells[place]):
            first, *middle = cell.split("\n")
            if not middle:
                continue
            *middle, last = middle
            taken = looks_like_row(first, every[place:], place) + looks_like_row(last, every[: place + 1], place)
            if taken + sum(looks_like_row(line, every, place) for line in middle):
                end = start[row] + breaks[row]
                found[int(frame.index[row])] = (
                    f"the quote of column {name!r} takes in lines {start[row]} to {end}, which look like rows: "
                    "close it, or double it within a text"
                )
    return found


def find_header_rows(frame: pd.DataFrame) -> list[int]:
    """Return the rows of a table, by their place, that hold the names of its columns, as of files that were joined."""
    import pandas as pd

    def normalize_cells(cells: Iterable[Any]) -> list[str]:
        texts = " , ".join("" if is_gap(cell) else str(cell) for cell in cells)
        parts = re.split(r"[\t;,|]", normalize_text(texts, "NFKC"))
        return sorted(part for cell in parts if (part := cell.strip(" \"'").casefold()))

    header = normalize_cells(name for name in frame if not re.match(r"Unnamed: \d+$", str(name)))
    if len(header) < 2 and frame.index.name != "line":
        return []
    names = set(header)
    longest = sum(map(len, header)) + 10 * len(header)
    rows = np.arange(len(frame))
    for place in range(frame.shape[1]):
        values = frame.iloc[rows, place]
        short = [cell for cell in pd.unique(values) if is_gap(cell) or (isinstance(cell, str) and len(cell) < longest)]
        rows = rows[values.isin([cell for cell in short if names.issuperset(normalize_cells([cell]))]).to_numpy()]
    return [row for row in rows.tolist() if normalize_cells(frame.iloc[row]) == header]


def convert_to_storable(frame: pd.DataFrame, column: str) -> pd.Series[Any]:
    """Return a column as a Parquet file would give it back: dense, and what none can hold as texts."""
    import pandas as pd
    import pyarrow

    values = frame[column]
    if isinstance(values.dtype, pd.CategoricalDtype):
        different = pd.DataFrame({column: values.cat.categories}).pipe(convert_to_storable, column).tolist()
        number = values.cat.codes.to_numpy()
        held = pd.Series([different[code] if code >= 0 else None for code in number], frame.index, object)
        return held.astype("category")
    of = values.dtype
    if isinstance(of, pd.PeriodDtype | pd.IntervalDtype):
        return pd.Series(convert_column_to_texts(frame, column), frame.index, object)
    if isinstance(of, pd.SparseDtype):
        return values.astype(of.subtype)
    if of == np.longdouble:  # which no file holds
        return values.astype(np.float64)
    complex_numbers = isinstance(of, np.dtype) and of.kind == "c"
    if not isinstance(of, pd.ArrowDtype) and values.dtype != object and not complex_numbers:
        return values
    if values.dtype == object:  # half a character, which pandas and files cannot hold
        escaped = [
            escape_undecodable(cell) if isinstance(cell, str) and not cell.isascii() else cell for cell in values
        ]
        values = pd.Series(escaped, frame.index, object)
    try:
        arrow: Any = pyarrow.array(values, from_pandas=True)
    except (pyarrow.ArrowException, ValueError, TypeError, OverflowError):
        arrow = None
    cut = arrow is not None and pyarrow.types.is_date(arrow.type) and values.dropna().map(type).nunique() > 1
    if arrow is None or cut:  # values of several kinds; dates first would take the hour off the times after them
        return pd.Series(
            convert_column_to_texts(frame.assign(**{column: values}), column, as_written=True), frame.index, object
        )
    return arrow.to_pandas(integer_object_nulls=True, maps_as_pydicts="lossy").set_axis(frame.index)


def rename_columns(frame: pd.DataFrame, names: list[str], place: str) -> pd.DataFrame:
    """Return a table whose columns have these names; raise ``InputError`` if two have the same."""
    named = frame.set_axis([normalize_text(name).strip() for name in names], axis="columns")
    if named.columns.has_duplicates:
        twice = named.columns[named.columns.duplicated()][0]
        raise InputError(f"{place} has more than one column {twice!r}: rename all but one")
    return named


def check_column_names(names: Sequence[str], place: str, wanted: Sequence[str]) -> None:
    """Raise ``InputError`` unless the wanted columns are among the names of a table's columns."""
    missing = [f"{name!r}{suggest_name(name, names)}" for name in dict.fromkeys(wanted) if name not in names]
    if missing:
        raise InputError(f"{place} has no column {', '.join(missing)}: it has {format_first(names, 20)}")


def check_columns(frame: pd.DataFrame, place: str, wanted: Sequence[str]) -> None:
    """Raise ``InputError`` unless a table has these columns, of single values."""
    from pandas.api.types import is_list_like

    check_column_names(list(frame.columns), place, wanted)
    for name in wanted:
        if frame[name].dtype == object and any(map(is_list_like, frame[name])):
            raise InputError(f"{place}: column {name} holds lists or mappings: write what is in it into columns")


def convert_column_to_texts(frame: pd.DataFrame, column: str, as_written: bool = False) -> list[str | None]:
    """Return a column as texts without blanks around them, None where there is nothing; 3.0 is "3".

    Those that look alike are equal, unless ``as_written``: a file may be called by any of them.
    """
    values = frame[column]
    if values.dtype == object:  # 1 and True would count as one value
        return [convert_to_text(value, as_written) for value in values.tolist()]
    number, different = values.factorize()
    texts = np.asarray([*(convert_to_text(value, as_written) for value in different.tolist()), None], dtype=object)
    return texts[number].tolist()


def convert_to_text(value: Any, as_written: bool = False) -> str | None:
    """Return a value as a text, None where there is none; see ``convert_column_to_texts``."""
    if is_gap(value):
        return None
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    return (str(value) if as_written else normalize_text(str(value))).strip() or None


def is_gap(value: Any) -> bool:
    """Return whether a value stands for none: None, NaN, NaT and NA of any library."""
    if isinstance(value, Decimal):
        return value.is_nan()
    unequal_to_itself = isinstance(value, float | complex | np.generic) and bool(value != value)
    return value is None or unequal_to_itself or type(value).__name__ in ("NAType", "NaTType")


def convert_to_label_array(given: Any) -> NDArray[Any]:
    """Return labels or attributes as an array, as they were given: NumPy makes texts of gaps, and numbers of times."""
    import pandas as pd

    values = to_numpy(given)
    if values.dtype.kind == "U" and not hasattr(given, "dtype"):
        values = np.fromiter(given, dtype=object) if values.ndim == 1 else values
    return pd.Series(values).astype(object).to_numpy() if values.dtype.kind in "mM" and values.ndim == 1 else values


def convert_attributes_to_texts(values: NDArray[Any]) -> list[str | None]:
    """Return attributes as texts, None where unknown: -1 is, too."""
    return [None if (text := convert_to_text(value)) == "-1" else text for value in values.tolist()]


def infer_label_kind(values: Any) -> str:
    """Return what labels are, ``str``, ``int``, ``float`` or ``bool``; those of a CSV are texts."""
    from pandas.api.types import infer_dtype

    kinds = {"integer": "int", "floating": "float", "mixed-integer-float": "float", "boolean": "bool"}
    return kinds.get(infer_dtype(np.asarray(values, dtype=object), skipna=True), "str")


def format_row_names(numbers: range | pd.Index) -> list[str]:
    """Return what messages call the rows of such numbers, as ``read_frame`` gives them."""
    what = get_row_noun(numbers)
    return [f"{what} {number}" for number in numbers]


def get_row_noun(numbers: range | pd.Index) -> str:
    """Return what people call rows of such numbers: a ``line`` of a CSV, else a ``row``."""
    return getattr(numbers, "name", None) or "row"


class RowFile:
    """A CSV or Parquet file with one row for each row of the data that it tells of, in any order.

    The column ``key`` says which row it is: ``row`` is its number in the whole data set from 0, ``line`` its number as
    a spreadsheet has it, the header being line 1, ``path`` its name or a path that ends with it.
    """

    def __init__(self, path: Path | str) -> None:
        """Read the file; each row must be named, and once."""
        self.path = Path(path).expanduser()
        self.frame = read_spreadsheet_csv(read_frame(self.path))
        self.key = next((name for name in ("row", "line", "path") if name in self.frame), "")
        if not self.key:
            raise InputError(f"{self.path} has no column row, line or path: name each row by its number or its path")
        self.names = [name or "" for name in convert_column_to_texts(self.frame, self.key, as_written=True)]
        bad = next((name for name, count in Counter(self.names).items() if count > 1 or not name), None)
        if bad is not None:
            raise InputError(f"{self.path}: {self.key} {bad!r} is empty or stands there twice: name each row once")
        if self.key == "line" and {"0", "1"} & set(self.names):
            raise InputError(f"{self.path} tells of line 1, but line 1 is the header: begin with line 2")

    def find_positions(self, rows: TrainingRows) -> Tensor:
        """Return the place (N,) long in the table of each of these rows; -1 where it does not tell of a row."""
        own = {name: number for number, name in enumerate(self.names)}
        if self.key != "path":
            numbers = torch.arange(len(rows.label)) if rows.numbers is None else rows.numbers
            if self.key == "line":  # blank lines between the rows count too
                numbers = numbers + 2 if rows.lines is None else rows.lines
            return torch.tensor([own.get(str(number), -1) for number in numbers.tolist()], dtype=torch.long)
        if rows.names is None:
            raise InputError(f"{self.path} names rows by path, but the rows of these data have no names: give row")
        names, ends = [str(name) for name in rows.names], dict[str, int]()
        for depth in {name.count("/") + 1 for name in names}:
            for path, number in own.items():
                end = "/".join(path.split("/")[-depth:])
                ends[end] = -1 if end in ends else number  # two paths that end alike tell of neither
        return torch.tensor([own.get(name, ends.get(name, -1)) for name in names], dtype=torch.long)

    def values(self, column: str, rows: TrainingRows) -> list[str | None]:
        """Return what a column says of each of these rows, N texts; None where it says nothing."""
        check_column_names(list(self.frame.columns), str(self.path), [column])
        told = convert_column_to_texts(self.frame, column)
        return [told[place] if place >= 0 else None for place in self.find_positions(rows).tolist()]

    def check_labels(self, rows: TrainingRows, label_names: Sequence[str]) -> None:
        """Raise ``InputError`` if its column ``label`` gives one of these rows another label than the data do."""
        places, known = self.find_positions(rows).tolist(), [str(label_names[label]) for label in rows.label.tolist()]
        for place, told, label in zip(places, self.values("label", rows), known, strict=True):
            if told not in (None, label):
                held = f"has label {told!r}, but {label!r} in the data"
                fix = "give the file of these data, or leave its column label out"
                raise InputError(f"{self.path}: {self.key} {self.names[place]!r} {held}: {fix}")


# -- what columns hold: kinds that become numbers, and names


class NumberFormat(NamedTuple):
    """How numbers and dates are written, as pandas' ``read_csv`` has it.

    Attributes:
        decimal: What stands before the fraction; None as the file tells.
        thousands: What stands between thousands.
        dayfirst: Whether the day stands before the month; None as each column tells.
    """

    decimal: str | None = None
    thousands: str | None = None
    dayfirst: bool | None = None

    def plain(self, frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
        """Return a table in whose columns of texts numbers are written as 1234.5."""
        decimal = self.decimal or frame.attrs.get("decimal", ".")
        if (decimal, self.thousands) == (".", None):
            return frame
        group = rf"(?:{re.escape(self.thousands)}\d{{3}})*" if self.thousands else ""
        number = re.compile(rf"[+-]?(?:\d{{1,3}}{group}|\d+)?(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?")

        def plain(cell: Any) -> Any:
            text = cell.strip() if isinstance(cell, str) else ""
            written = text and number.fullmatch(text)
            return text.replace(self.thousands or "\0", "").replace(decimal, ".") if written else cell

        columns = {name: frame[name].map(plain) for name in names if frame[name].dtype.kind not in "iufbMm"}
        categories = [name for name in columns if frame[name].dtype == "category"]
        return frame.assign(**columns).astype(dict.fromkeys(categories, "category"))


#: What stands first in dates that a column holds; both orders fit all of its rows, or each fits some alone.
DateOrder = Literal["day", "month", "either", "both", ""]

#: A date whose year stands last or first; and the time of day after it.
YEAR_LAST = re.compile(r"(\d\d?)([./-])(\d\d?)\2(\d{4})(?!\d)")
YEAR_FIRST = re.compile(r"(\d{4})([./-])(\d\d?)\2(\d\d?)(?!\d)")
TIME = re.compile(r"[T\s]+(\d\d?):(\d\d(?::\d\d(?:\.\d+)?)?)(?:\s*([AP])\.?M\.?)?", re.IGNORECASE)


def as_iso_date(text: str, order: DateOrder) -> str:
    """Return a date as 2024-12-31, with its time of day; what is no date in this order as it is.

    >>> as_iso_date("04/28/2024 2:30 PM", "month"), as_iso_date("04/28/2024", "day"), as_iso_date("2024/4/28", "")
    ('2024-04-28 14:30', '04/28/2024', '2024-04-28')
    """
    first = YEAR_FIRST.match(text)
    last = YEAR_LAST.match(text) if order in ("day", "month") else None
    match = first or last
    if match is None:
        return text
    if first is not None:
        year, month, day = (int(first[group]) for group in (1, 3, 4))
    else:
        year, month, day = (int(match[group]) for group in ((4, 3, 1) if order == "day" else (4, 1, 3)))
    rest = text[match.end() :]
    time = TIME.match(rest)
    if time is not None:
        hour = int(time[1])
        if time[3] and not 1 <= hour <= 12:
            return text
        half = {"A": 0, "P": 12}[time[3].upper()] if time[3] else 0
        rest = f" {hour % 12 + half if time[3] else hour:02}:{time[2]}{rest[time.end() :]}"
    with suppress(ValueError):
        return f"{date(year, month, day)}{rest}"
    return text


def write_iso_dates(values: pd.Series[Any], order: DateOrder) -> pd.Series[Any]:
    """Return a column whose texts that are dates are written as 2024-12-31."""
    if values.dtype.kind in "iufbMm":
        return values
    written = {cell: as_iso_date(cell.strip(), order) for cell in values.unique() if isinstance(cell, str)}
    return values.astype(object).map(lambda cell: written.get(cell, cell) if isinstance(cell, str) else cell)


def find_date_order(texts: Sequence[str]) -> DateOrder:
    """Return what stands first in most of the texts, by those of which one part alone can be a month.

    >>> find_date_order(["04/28/2024", "08/11/2024"]), find_date_order(["08/11/2024"]), find_date_order(["2024-04-28"])
    ('month', 'either', '')
    """
    matches = [match for text in texts if (match := YEAR_LAST.match(text))]
    if not matches or len(matches) < MOST * len(texts):
        return ""
    by_day = sum(int(match[1]) > 12 for match in matches)
    by_month = sum(int(match[3]) > 12 for match in matches)
    if not by_day + by_month:
        return "either"
    if by_day >= MOST * (by_day + by_month):
        return "day"
    return "month" if by_month >= MOST * (by_day + by_month) else "both"


class Kind(NamedTuple):
    """A kind of column that becomes numbers."""

    #: Values -> a number each, NaN where a value is none.
    read: Callable[[pd.Series], NDArray[np.float64]]
    #: What is wrong with a value that is none, for messages.
    fault: str
    #: A number -> what people write.
    spell: Callable[[float], str] = format_value


def _numbers(values: pd.Series) -> NDArray[np.float64]:
    import pandas as pd

    if values.dtype.kind == "M":
        return np.full(len(values), np.nan)
    values = values.dt.total_seconds() if values.dtype.kind == "m" else pd.to_numeric(values, errors="coerce")
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _days(values: pd.Series) -> NDArray[np.float64]:
    """Return days since 1970."""
    import pandas as pd

    if values.dtype.kind != "M":
        written = values.astype(object).where(values.notna(), "").map(str).str.strip()
        written = written.where(written.str.match(r"\d{4}-\d\d"))  # pandas would take "now" for a date as well
        values = pd.to_datetime(written, format="ISO8601", errors="coerce", utc=True)
    if values.dt.tz is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    seconds = values.to_numpy(dtype="datetime64[s]")
    return np.asarray((seconds - np.datetime64(0, "s")) / np.timedelta64(1, "D"), dtype=np.float64)


def _date(days: float) -> str:
    seconds = "–" if is_missing(days) else str(np.datetime64(round(86400 * days), "s"))
    return seconds.replace("T00:00:00", "").replace("T", " ")


#: A column is of the first kind that holds most of its values, else of names.
KINDS = {
    "numbers": Kind(_numbers, "is no finite number"),
    "dates": Kind(_days, "is no date, such as 2024-05-31", _date),
}
NAMES = "names"

#: Dates that lie closer together are taken for one when it is asked which lies far off.
DAYS_OF_YEAR = 366

#: A column is of a kind if so many of its values are.
MOST = 0.9

#: How dates are to be written that could not be read, by what stands first in them.
HOW_DATES: dict[DateOrder, str] = {
    "either": "both orders fit all rows, so give {dayfirst} true or false, or write 2024-12-31",
    "both": "some rows have the day first and some the month, so write all as 2024-12-31",
    "day": "the day stands first in some rows, so give {dayfirst} true, or write 2024-12-31",
    "month": "the month stands first in some rows, so give {dayfirst} false, or write 2024-12-31",
    "": "write 2024-12-31",
}


def list_present_texts(frame: pd.DataFrame, name: str) -> list[str]:
    """Return the values of a column as texts, without gaps."""
    return [text for text in convert_column_to_texts(frame, name) if text and text.lower() not in GAPS]


def infer_column_kind(frame: pd.DataFrame, name: str) -> tuple[str, str]:
    """Return what a column holds, but for gaps and a few bad rows, and why it is names if it looks like others."""
    import pandas as pd

    held = frame[name]
    if isinstance(held.dtype, pd.CategoricalDtype) or pd.api.types.infer_dtype(held, skipna=True) == "boolean":
        return NAMES, ""
    for kind, one in KINDS.items():
        none = np.isnan(one.read(held))
        if not none.all():
            count = len(held) - none.sum()
            if count >= MOST * (count + len(list_present_texts(frame[[name]][none], name))):
                return kind, ""
    every = list_present_texts(frame, name)
    order_fix = HOW_DATES[find_date_order(every)].format(dayfirst=format_option("data.dayfirst"))
    misread = {
        r"\d{1,4}([./-])\d\d?\1\d{1,4}(\s|$)": f"looks like a date: {order_fix}",
        r"[+-]?\d+([.,]\d+)+$": (
            f"looks like a number: give {format_option('data.decimal')} and {format_option('data.thousands')}"
        ),
        r"[+-]?\d[\d.,]*(\s|(?<=[.,]\d))[^\W\d]\S{0,4}$|[+-]?\d[\d.,]*\s?[%°€$£]": "has a unit: write it without",
    }
    for pattern, why in misread.items():
        if every and sum(re.match(pattern, text) is not None for text in every) >= MOST * len(every):
            return NAMES, f"{every[0]!r} {why}"
    return NAMES, ""


def find_kind(values: pd.Series[Any], written: NumberFormat) -> tuple[str, str, DateOrder]:
    """Return the kind of a column, why it is names if it looks like others, and what stands first in its dates."""
    name = str(values.name)
    kind, why = infer_column_kind(values.to_frame(), name)
    if kind != NAMES or values.dtype == "category":
        return kind, why, ""
    some = list_present_texts(values.iloc[:: max(1, len(values) // 1000)].to_frame(), name)
    if not any(YEAR_LAST.match(text) or YEAR_FIRST.match(text) for text in some):
        return kind, why, ""
    order = find_date_order(list_present_texts(values.to_frame(), name))
    if order and written.dayfirst is not None:
        order = "day" if written.dayfirst else "month"
    dates = write_iso_dates(values, order)
    if infer_column_kind(dates.to_frame(), name)[0] == "dates":
        return "dates", "", order
    return kind, why, ""


def read_column(
    frame: pd.DataFrame,
    name: str,
    kind: str,
    bad: Callable[[int, str], None],
    may_miss: bool = True,
    foreign: bool = False,
) -> NDArray[np.float64] | NDArray[np.object_]:
    """Return a column as numbers or days, NaN where there is none, or as texts; ``bad`` is told rows that hold neither.

    Where ``foreign`` what is no number is a gap.
    """
    if kind not in KINDS:
        texts = [normalize_text(text or "", "NFKC").strip() for text in convert_column_to_texts(frame, name)]
        return np.asarray([WHOLE.sub(r"\1", text) for text in texts], dtype=object)
    values = KINDS[kind].read(frame[name])
    faulty = np.flatnonzero(~(np.abs(values) <= LARGEST))
    for row, text in zip(faulty.tolist(), convert_column_to_texts(frame[[name]].iloc[faulty], name), strict=True):
        if foreign and text and np.isnan(values[row]):
            continue
        if not may_miss or (text or "").lower() not in GAPS:
            why = KINDS[kind].fault
            if kind == "numbers" and may_miss:
                why += f" (missing by {format_option('data.numbers', name)}, "
                why += f"all names by {format_option('data.categorical', name)})"
            if kind == "dates" and YEAR_LAST.match(text or ""):
                why = "is no date with day and month in the order of the column"
            if np.isfinite(values[row]):
                why = f"is more than {LARGEST:.1e} (give it in another unit, or leave it out of the features)"
            bad(row, f"column {name!r} " + (f"holds {text[:60]!r}, which {why}" if text else "is empty"))
    return np.where(np.abs(values) <= LARGEST, values, np.nan)


def match_names(names: Iterable[str | None], known: Sequence[str]) -> dict[str | None, str]:
    """Return the known name of each unknown one that is a number of the same value, where only one has this value.

    >>> match_names(["1", "02.0", "3", "01"], ["01", "2", "x"])
    {'02.0': '2', '1': '01'}
    """
    unknown = {name for name in names if name and NUMBER.fullmatch(name)}.difference(known)
    if not unknown:
        return {}
    of_value: dict[Decimal, list[str]] = {}
    for name in known:
        if NUMBER.fullmatch(name):
            of_value.setdefault(Decimal(name), []).append(name)
    several = {name: of_value.get(Decimal(name), []) for name in sorted(unknown)}
    return {name: same[0] for name, same in several.items() if len(same) == 1}


def describe_order(values: pd.Series[Any], order: DateOrder) -> str:
    """Return a date as it was written and as it was taken, the first whose day is not its month; empty without one."""
    texts = [cell.strip() for cell in values.unique() if isinstance(cell, str)]
    matches = [match for text in texts if (match := YEAR_LAST.match(text))]
    telling = next((match for match in matches if match[1] != match[3]), None)
    return f"{telling[0]} is {as_iso_date(telling[0], order)}" if telling else ""


def count_zoned(dates: pd.Series[Any]) -> int:
    """Return how many dates of a column of texts name their time zone, 0 if all do."""
    texts = [cell.strip() for cell in dates if isinstance(cell, str)]
    zoned = sum(re.search(r":\d\d(?:\.\d+)?\s*(?:Z|[+-]\d\d:?\d*)$", text) is not None for text in texts)
    return zoned if zoned < sum(bool(text) for text in texts) else 0


def find_far_date(days: NDArray[np.float64]) -> str:
    """Return the first or last date if the others' deviation without it is less than a tenth, else an empty text."""
    there = days[np.isfinite(days)]
    for end in (there.min(), there.max()) if len(there) else ():
        others = there[np.abs(there - end) > DAYS_OF_YEAR]
        if 2 * len(others) > len(there) and there.std() > 10 * max(float(others.std()), 1):
            return f"{_date(float(end))} in {format_row_count(len(there) - len(others))}"
    return ""


#: What an input tells of its column in addition to a value or a name.
MISSING, HOUR = "(missing)", "(hour)"


def list_column_inputs(columns: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return the column of each input that ``ColumnEncoder`` makes, and the name that it tells; of numbers none."""
    inputs: list[tuple[str, str]] = []
    for column in columns:
        name = column["name"]
        if "categories" in column:
            inputs += [(name, category or MISSING) for category in column["categories"]]
            continue
        inputs.append((name, ""))
        inputs += [(name, MISSING)] if column.get("gaps") else []
        inputs += [(name, HOUR)] if "hours" in column else []
    return tuple(inputs)
