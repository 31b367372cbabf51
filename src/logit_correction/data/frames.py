"""Tables of files, CSV or Parquet: columns of them as texts, and what their rows are called."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import mmap
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from logit_correction.errors import InputError, did_you_mean, format_first

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


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
            frame = read_csv(file, columns, fix, check, layout)
    except InputError:
        raise
    except Exception as error:  # pandas and pyarrow raise many kinds on a damaged file
        reason = " ".join(str(error).rpartition("error: ")[2].split())
        decoding = isinstance(error, UnicodeError)
        usual = 'save it as UTF-8 (in Excel: "CSV UTF-8"), or unpack it' if decoding else "fix it"
        raise unreadable(file, reason, fix or usual) from error
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
        names = read_schema(file).names if file.suffix.lower() in PARQUET else column_names(file)
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


#: A first line by which Excel is told the separator; Excel does not show it.
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


def separator_of(header: str) -> str:
    """Return what separates the names of columns: a tab, semicolon or comma, or | where there is none of them.

    >>> [separator_of(line) for line in ("a,b", "a;b,c", "a|b", "a")]
    [',', ';', '|', ',']
    """
    most = max("\t;,", key=header.count)
    return most if most in header else "|" if "|" in header else ","


def unreadable(file: Path, reason: str, fix: str) -> InputError:
    """Return the error of a file that is no table."""
    return InputError(f"{file} cannot be read as a table ({reason}): {fix}")


def column_names(file: Path) -> list[str]:
    """Return the names of a CSV's columns.

    Raises:
        ValueError: If it has no header that can be read.
        OSError: If it cannot be opened.
    """
    return [name.strip() for name in _names(file, _options(_look(file), {}))]


def read_csv(
    file: Path,
    columns: Sequence[str] | None,
    fix: str,
    check: Callable[[Sequence[str]], None],
    layout: dict[str, Any],
) -> pd.DataFrame:
    """Read a CSV, everything as text.

    Args:
        file: The file.
        columns: Read these alone; None reads all.
        fix: What to do with a file of too long rows, empty for the usual.
        check: Is given the names of all columns before rows are read, and raises an error if it does not like them.
        layout: Of a CSV of another layout, as ``pandas.read_csv`` takes it.

    Returns:
        Its index numbers the rows as a spreadsheet does, the first line being row 1. Rows that are empty throughout are
        left out; where there is one column only, those at the end.
    """
    text = _look(file)
    options = _options(text, layout)
    held = _names(file, options)
    names = _written_names(file, options, held)
    check(names)
    first = 1 + (options["skiprows"] if "names" in layout else text.header)
    frame = _by_arrow(text, held, columns) if not layout else None
    if frame is None:
        chosen = {} if columns is None else {"usecols": [place for place, name in enumerate(names) if name in columns]}
        frame = _by_pandas(text, options | chosen, len(names), fix)
    blank = _blank_rows(frame)
    if blank.any() and len(names) > 1 and columns is not None:
        blank = _blank_rows(_by_pandas(text, options, len(names), fix))  # other columns may hold something
    elif blank.any() and len(names) == 1:
        blank &= np.arange(len(frame)) >= len(frame) - _blank_lines_at_end(text)
    frame.columns = names if columns is None else [name for name in names if name in columns]
    frame.index = np.arange(first, first + len(frame))
    return frame[~blank] if blank.any() else frame


@dataclass(frozen=True)
class _Text:
    """What the beginning of a CSV shows: ``skip`` lines stand before the header, which is row ``header``."""

    file: Path
    encoding: str
    separator: str
    skip: int
    header: int

    def lines(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(_opened(self.file), encoding=self.encoding, newline="")


def _opened(file: Path) -> Any:
    return gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb")


def _look(file: Path) -> _Text:
    with _opened(file) as opened:
        wide = opened.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    text = _Text(file, "utf-16" if wide else "utf-8-sig", ",", 0, 1)
    with text.lines() as lines:
        line, skip = lines.readline(), 0
        told = _SEPARATOR_LINE.fullmatch(line)
        if told:
            line, skip = lines.readline(), 1
        header = 1
        while line and not line.strip():
            line, skip, header = lines.readline(), skip + 1, header + 1
    if not line:
        raise InputError(f"{file} is empty: give a CSV with the names of its columns in the first line")
    tabs = file.name.lower().removesuffix(".gz").endswith(".tsv")
    return _Text(file, text.encoding, told[1] if told else "\t" if tabs else separator_of(line), skip, header)


def _options(text: _Text, layout: dict[str, Any]) -> dict[str, Any]:
    seen = {"sep": text.separator, "skiprows": text.skip}
    fixed = {"dtype": str, "keep_default_na": False, "encoding": text.encoding, "index_col": False}
    return seen | layout | fixed | {"skip_blank_lines": False}  # else rows behind them would be numbered wrongly


def _names(file: Path, options: dict[str, Any]) -> list[str]:
    """Return the names of the columns as pandas knows them, where the second x is x.1."""
    import pandas as pd

    return [str(name) for name in pd.read_csv(file, nrows=0, **options).columns]


def _written_names(file: Path, options: dict[str, Any], held: list[str]) -> list[str]:
    """Return the names as they are written, without blanks around them; a column without one is called as pandas does.

    ``held`` is what pandas calls the columns.
    """
    import pandas as pd

    if "names" in options or "header" in options:
        return [name.strip() for name in held]
    first = pd.read_csv(file, nrows=1, header=None, **options).iloc[0]
    return [(written or name).strip() for written, name in zip(first.str.strip(), held, strict=True)]


def _by_pandas(text: _Text, options: dict[str, Any], width: int, fix: str) -> pd.DataFrame:
    """Read a CSV.

    Raises:
        InputError: A row has cells beyond the last column.
    """
    import pandas as pd

    def read(action: Literal["error", "ignore"]) -> pd.DataFrame:
        with warnings.catch_warnings():
            warnings.simplefilter(action, pd.errors.ParserWarning)
            return pd.read_csv(text.file, **options).fillna("")  # a line may end too early

    try:
        return read("error")
    except (pd.errors.ParserWarning, pd.errors.ParserError) as error:
        fault = _long_row(text, width) if "names" not in options else ""
        if fault:
            raise unreadable(text.file, fault, fix or "put texts that hold the separator in quotes") from error
        if isinstance(error, pd.errors.ParserError):
            raise
    return read("ignore")  # what is beyond the last column is empty


def _by_arrow(text: _Text, held: list[str], columns: Sequence[str] | None) -> pd.DataFrame | None:
    """Read a CSV in a third of the time that pandas takes, and half of the memory; None where it is not so regular.

    What has quotes, lines of too few values, a single column, columns of one name or none,
    or another form than plain UTF-8 is left to pandas.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    file = text.file
    if len(held) < 2 or text.encoding != "utf-8-sig" or file.suffix.lower() == ".gz":
        return None
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b'"') >= 0 or content.find(b"\0") >= 0:
            return None
    types = dict.fromkeys(held, pa.string())
    try:
        table = arrow_csv.read_csv(
            file,
            read_options=arrow_csv.ReadOptions(skip_rows=text.skip),
            parse_options=arrow_csv.ParseOptions(delimiter=text.separator, quote_char=False, ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except pa.ArrowException:
        return None
    if table.column_names != held:
        return None
    chosen = [place for place, name in enumerate(held) if columns is None or name.strip() in columns]
    return table.select(chosen).to_pandas()


def _blank_rows(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows hold nothing, (M,); most tables need a look at their first column alone."""
    blank = np.ones(len(frame), dtype=bool)
    for place in range(frame.shape[1]):
        blank &= (frame.iloc[:, place].str.strip() == "").to_numpy(dtype=bool)
        if not blank.any():
            break
    return blank


def _blank_lines_at_end(text: _Text) -> int:
    with text.lines() as lines:
        return sum(1 for _ in takewhile(lambda line: not line.strip(), reversed(lines.readlines())))


def _long_row(text: _Text, width: int) -> str:
    """Return which row is the first with something in cells beyond the last column; empty if none has."""
    there = "is 1 column" if width == 1 else f"are {width} columns"
    try:
        with text.lines() as lines:
            rows = csv.reader(islice(lines, text.skip, None), delimiter=text.separator)
            for number, cells in enumerate(rows, text.header):
                if any(cell.strip() for cell in cells[width:]):
                    return f"row {number} has {len(cells)} cells, but there {there}"
    except (csv.Error, UnicodeError):
        pass  # what pandas says of the file is told
    return ""


class LazyNames(Sequence[str]):
    """The names of some rows, each made of the row's number when it is asked for.

    >>> names = LazyNames("row {}".format, range(2, 6))
    >>> names[1], list(names[2:])
    ('row 3', ['row 4', 'row 5'])
    """

    def __init__(self, name: Callable[[int], str], rows: range | NDArray[np.integer]) -> None:
        """Keep how a row is named, and the numbers of the rows."""
        self.name, self.rows = name, rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> LazyNames: ...
    def __getitem__(self, row: int | slice) -> str | LazyNames:
        return LazyNames(self.name, self.rows[row]) if isinstance(row, slice) else self.name(int(self.rows[row]))


#: What a spreadsheet calls the first row behind the header.
FIRST_LINE = 2


def numbered(file: Path, numbers: Iterable[int]) -> tuple[str, list[str]]:
    """Return the column that says which row of a file it is, and what stands in it; ``RowFile`` reads it.

    A CSV has lines, as a spreadsheet numbers them, the header being line 1; rows of other files count from 0.

    >>> numbered(Path("a.csv"), range(2, 4)), numbered(Path("a.parquet"), range(2))
    (('line', ['2', '3']), ('row', ['0', '1']))
    """
    return "line" if has_lines(file) else "row", [str(number) for number in numbers]


def has_lines(file: Path) -> bool:
    """Return whether the rows of a table stand in lines, as those of a CSV do."""
    return file.suffix.lower() not in PARQUET


def row_names(numbers: range | pd.Index) -> LazyNames:
    """Return what messages call the rows of such numbers; ``read_frame`` gives those of a file as its index.

    >>> list(row_names(range(2)))
    ['row 0', 'row 1']
    """
    return LazyNames("row {}".format, numbers if isinstance(numbers, range) else numbers.to_numpy())
