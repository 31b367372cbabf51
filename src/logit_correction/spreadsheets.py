"""CSV files for spreadsheet programs, in which no text runs as a formula.

A spreadsheet program computes a cell that begins with =, +, -, @, a tab or a line break. So a text in a user's
data could run commands when a colleague opens the table. Where the program's separator is a semicolon, as in most of
Europe, it also splits the texts of a table with commas, and ``good;=1+1`` gives such a cell. An apostrophe in front
of the formula makes it a text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from logit_correction.atomic_files import replace_atomically

if TYPE_CHECKING:
    import pandas as pd

#: The start of what may become a cell: of the text, or behind what separates cells or rows in some locale.
_START = r"(?:^|(?<=[;|\t\r\n]))"

#: What makes it a formula, behind quotes that a program may remove; the last four are of East Asian keyboards. A line
#: break right behind another one, as between paragraphs, begins no cell.
_FORMULA = r"""(?=["']*(?:[=+\-@\t\uff1d\uff0b\uff0d\uff20]|(?<![\r\n])(?<![\r\n]['"])[\r\n]))"""

#: What begins like a formula and is none: a number, or a sign alone, as of labels.
_NUMBER_OR_SIGN = re.compile(r"[+-](?:[\d.,]+(?:[eE][+-]?\d+)?)?")


def write_spreadsheet_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a CSV in which an apostrophe precedes each part of a text or a heading that would be a formula.

    Args:
        frame: The table; its index is left out. ``unescape_spreadsheet_texts`` restores the texts.
        path: The file, which is complete or absent.
    """
    escaped = _apply_to_texts(frame, escape_formula)
    with replace_atomically(path) as temporary:
        escaped.to_csv(temporary, index=False, quoting=choose_csv_quoting(_list_texts(escaped)))


def format_spreadsheet_rows(frame: pd.DataFrame) -> list[str]:
    """Return the heading and each row of the CSV that ``write_spreadsheet_csv`` writes, without their final line break.

    A cell may hold line breaks, so the parts are not the lines of the file.
    """
    escaped = _apply_to_texts(frame, escape_formula)
    quoting = choose_csv_quoting(_list_texts(escaped))
    heading = escaped.iloc[:0].to_csv(index=False, quoting=quoting)
    rows = [escaped.iloc[[place]].to_csv(index=False, header=False, quoting=quoting) for place in range(len(frame))]
    return [part.removesuffix("\n") for part in (heading, *rows)]


def unescape_spreadsheet_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table, read from such a CSV, without the apostrophes of ``write_spreadsheet_csv``."""
    return _apply_to_texts(frame, lambda text: re.sub(_START + "'" + _FORMULA, "", text))


def escape_formula(text: str) -> str:
    """Return a text with an apostrophe in front of each part that a spreadsheet program would compute.

    >>> escape_formula("=1+1"), escape_formula("good;=1+1"), escape_formula("-3.5"), escape_formula("+")
    ("'=1+1", "good;'=1+1", '-3.5', '+')
    """
    return text if _NUMBER_OR_SIGN.fullmatch(text) else re.sub(_START + _FORMULA, "'", text)


def choose_csv_quoting(cells: Iterable[Any]) -> Literal[0, 2]:
    """Return how a CSV of these cells is to be quoted: all texts if one of them holds a carriage return.

    Python's csv module does not quote a text for a carriage return alone, at which a reader of the file begins a new
    row.
    """
    has_return = any(isinstance(cell, str) and "\r" in cell for cell in cells)
    return csv.QUOTE_NONNUMERIC if has_return else csv.QUOTE_MINIMAL


def _list_texts(frame: pd.DataFrame) -> Iterator[Any]:
    """Return the headings and all cells that may be texts."""
    return chain(frame.columns, _select_text_columns(frame).to_numpy().flat)


def _select_text_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that may hold texts."""
    return frame.select_dtypes(["object", "string", "category"])


def _apply_to_texts(frame: pd.DataFrame, function: Callable[[str], str]) -> pd.DataFrame:
    """Return a table with a function applied to each text and each heading."""

    def convert(value: Any) -> Any:
        return function(value) if isinstance(value, str) else value

    converted = frame.copy()
    for name in _select_text_columns(frame):
        converted[name] = frame[name].map(convert)
    return converted.rename(columns=convert)
