"""Reading CSV files: their encoding, their separator, their blank lines, and rows of too many cells."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import mmap
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

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
