"""Reading tables, CSV or Parquet, and columns of them as texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")


def is_table(path: Path) -> bool:
    """Return whether a file is a table by its name."""
    return path.suffix.lower() in SUFFIXES


def read_frame(file: Path) -> pd.DataFrame:
    """Read a CSV (separated by commas, semicolons or tabs, as its first line shows) or a Parquet file.

    Everything in a CSV is read as text: a label 007 stays 007, and "NA" is a text and not a gap.

    Raises:
        InputError: If the file is missing, damaged or empty.
    """
    import pandas as pd

    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise InputError(f"{file} {what}: give a CSV or Parquet file")
    try:
        if file.suffix.lower() in (".parquet", ".pq"):
            frame = pd.read_parquet(file)
        else:
            with file.open(encoding="utf-8-sig", newline="") as opened:
                separator = max(",;\t", key=opened.readline().count)
            frame = pd.read_csv(
                file, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig", index_col=False
            )
    except Exception as error:  # pandas and pyarrow raise many kinds on a damaged file
        reason = " ".join(str(error).split())
        raise InputError(f"{file} cannot be read as a table ({reason}): fix it") from error
    if not len(frame):
        raise InputError(f"{file} has no rows")
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def row_names(file: Path | None, count: int) -> list[str]:
    """Return what messages call the rows: in a CSV as a spreadsheet numbers them, the header being row 1.

    >>> row_names(Path("a.csv"), 2), row_names(Path("a.parquet"), 2)
    (['row 2', 'row 3'], ['row 0', 'row 1'])
    """
    first = 2 if file is not None and file.suffix.lower() not in (".parquet", ".pq") else 0
    return [f"row {first + i}" for i in range(count)]


def check_columns(frame: pd.DataFrame, place: str, wanted: Sequence[str]) -> None:
    """Return if a table has these columns, each once.

    Raises:
        InputError: Names the columns that are missing and those that are there.
    """
    columns = list(frame.columns)
    missing = [f"{name!r}{did_you_mean(name, columns)}" for name in dict.fromkeys(wanted) if name not in columns]
    if missing:
        few = ", ".join(columns[:20]) + (f" and {len(columns) - 20} more" if len(columns) > 20 else "")
        raise InputError(f"{place} has no column {', '.join(missing)}: it has {few}")
    twice = sorted({name for name in wanted if columns.count(name) > 1})
    if twice:
        raise InputError(f"{place} has more than one column {', '.join(twice)}: rename all but one")


def texts_of(frame: pd.DataFrame, column: str) -> list[str | None]:
    """Return a column as texts without blanks around them, None where there is nothing; 3.0 is "3"."""
    return [as_text(value) for value in frame[column].tolist()]


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


def place_in(root: Path, name: str) -> tuple[Path, str | None]:
    """Return the file that a table names, and what is wrong with the name; it may not leave ``root``."""
    path = root / name
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            return path, f"{name!r} lies outside of {root}"
        return path, None if path.is_file() else f"{name!r} is missing in {root}"
    except (OSError, ValueError) as error:
        return path, f"{name!r} is no file name ({error})"
