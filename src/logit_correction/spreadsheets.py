"""CSV files for spreadsheet programs, in which no text runs as a formula.

A spreadsheet program computes a cell that begins with =, +, -, @, a tab or a line break, so a text of somebody else's
could run commands when a colleague opens the table.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from logit_correction.atomic_files import replace_atomically

if TYPE_CHECKING:
    import pandas as pd


def write_spreadsheet_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a CSV in which an apostrophe precedes each text that would be a formula.

    Args:
        frame: The table; its index is left out. ``read_spreadsheet_csv`` restores the texts.
        path: The file, which is complete or absent.
    """
    escaped = {name: frame[name].map(escape_formula, na_action="ignore") for name in _find_text_columns(frame)}
    with replace_atomically(path) as temporary:
        frame.assign(**escaped).to_csv(temporary, index=False)


def escape_formula(text: str) -> str:
    """Return a text with an apostrophe in front if a spreadsheet program would take it for a formula.

    >>> escape_formula("=1+1"), escape_formula("-3.5"), escape_formula("yes")
    ("'=1+1", '-3.5', 'yes')
    """
    formula = re.match(r"'*[=+\-@\t\r]", text) and not re.fullmatch(r"[+-][\d.,]+(?:[eE][+-]?\d+)?", text)
    return f"'{text}" if formula else text


def read_spreadsheet_csv(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table, read from such a CSV, without the apostrophes of ``write_spreadsheet_csv``."""
    texts = {
        name: frame[name].str.replace(r"^'(?='*[=+\-@\t\r])", "", regex=True) for name in _find_text_columns(frame)
    }
    return frame.assign(**texts)


def _find_text_columns(frame: pd.DataFrame) -> list[str]:
    from pandas.api.types import infer_dtype

    return [str(name) for name in frame if infer_dtype(frame[name], skipna=True) == "string"]
