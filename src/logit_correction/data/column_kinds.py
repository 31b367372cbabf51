"""What a column of a table holds: numbers, dates, times or names, and how its cells become numbers.

A column is of the first kind that most of its cells are of, so that one mistyped cell is a bad row and does not turn
all numbers into names. A new kind that becomes a number is a function and an entry of ``KINDS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from logit_correction.data.cells import GAPS, convert_to_text, convert_to_texts
from logit_correction.data.dates import (
    MOST,
    YEAR_LAST,
    DateOrder,
    describe_date_remedy,
    format_days,
    format_hours,
    have_zones,
    infer_date_order,
    parse_days,
    parse_hours,
)
from logit_correction.data.rows import RowErrors
from logit_correction.formatting import format_option, format_percent, format_row_count, format_value
from logit_correction.types import Array
from logit_correction.unicode_text import normalize_text

#: The kind of columns whose cells are compared as texts.
NAMES = "names"

#: A number that pandas has written with a point, since others of its column are missing.
WHOLE = re.compile(r"^([+-]?\d+)\.0+$", re.ASCII)

#: A number of whole thousands, and one of less than 1000.
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+", re.ASCII)
HUNDREDS = re.compile(r"[+-]?\d{1,3}", re.ASCII)

#: The minus sign of typesetting, which some programs write in front of numbers.
MINUS = "\u2212"

#: Larger numbers overflow where a network works with them.
LARGEST = float(np.finfo(np.float32).max)

#: Rows that share a name, in the mean; with fewer, names are hardly categories.
MIN_ROWS_PER_NAME = 10

#: What an input holds of its column in addition to a value or a name.
MISSING = "(missing)"
HOUR = "(hour)"


class Kind(NamedTuple):
    """A kind of column that becomes numbers.

    Attributes:
        parse: A column -> a number for each cell, NaN for a cell of another kind.
        fault: The fault of such a cell, for messages.
        format: A number -> what people write.
    """

    parse: Callable[[pd.Series[Any]], NDArray[np.float64]]
    fault: str
    format: Callable[[float], str] = format_value


def parse_numbers(values: pd.Series[Any]) -> NDArray[np.float64]:
    """Return the numbers of a column, spans of time in seconds; NaN for other cells."""
    if values.dtype.kind == "M":
        return np.full(len(values), np.nan)
    if values.dtype.kind == "m":
        return values.dt.total_seconds().to_numpy(dtype=np.float64)
    numbers = _coerce_to_numbers(values)
    is_other = np.isnan(numbers)
    if values.dtype.kind not in "iufb" and is_other.any():
        others = values[is_other].map(lambda cell: cell.replace(MINUS, "-") if isinstance(cell, str) else cell)
        numbers[is_other] = _coerce_to_numbers(others)
    return numbers


def _coerce_to_numbers(values: pd.Series[Any]) -> NDArray[np.float64]:
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


#: A column is of the first kind that holds most of its values, else of names.
KINDS = {
    "numbers": Kind(parse_numbers, "is not a finite number"),
    "dates": Kind(parse_days, "is not a date, such as 2024-05-31", format_days),
    "times": Kind(parse_hours, "is not a time of day, such as 14:30", format_hours),
}

#: Share of numbers from which on a column of names is told to hold numbers with other cells among them.
MANY_NUMBERS = 0.5

#: Pattern of the cells of a column of names -> why it may be misread, and the remedy.
MISREAD = {
    r"\d{1,4}([./-])\d\d?\1\d{1,4}(\s|$)": "looks like a date: {remedy}",
    r"[+-]?\d+([.,]\d+|[\s'’]\d{3})*$": "looks like a number: give {decimal} and {thousands}",
    r"[+-]?\d[\d.,]*(\s|(?<=[.,]\d))[^\W\d]\S{0,4}$|[+-]?\d[\d.,]*\s?[%°€$£]|[€$£]\s?[+-]?\d[\d.,]*$": "has a unit: "
    "write it without",
}


class NumberFormat(NamedTuple):
    """How numbers and dates are written, with the names of pandas' ``read_csv``.

    Attributes:
        decimal: What stands before the fraction; None takes what the file uses.
        thousands: What stands between thousands.
        dayfirst: Whether the day stands before the month; None decides by each column.
    """

    decimal: str | None = None
    thousands: str | None = None
    dayfirst: bool | None = None

    def choose_date_order(self, written_order: DateOrder) -> DateOrder:
        """Return the order in which dates of a column are read, by what the column itself shows."""
        if not written_order or self.dayfirst is None:
            return written_order
        return "day" if self.dayfirst else "month"

    def normalize(self, frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
        """Return a table in whose columns of texts numbers are written as 1234.5.

        Args:
            frame: The table.
            names: The columns that may hold numbers.
        """
        decimal = self.decimal or frame.attrs.get("decimal", ".")
        if (decimal, self.thousands) == (".", None):
            return frame
        separator = r"\s" if self.thousands and self.thousands.isspace() else re.escape(self.thousands or "")
        group = rf"(?:{separator}\d{{3}})*" if self.thousands else ""
        number = re.compile(rf"[+{MINUS}-]?(?:\d{{1,3}}{group}|\d+)?(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?")

        def normalize_cell(cell: Any) -> Any:
            text = cell.strip() if isinstance(cell, str) else ""
            if not (text and number.fullmatch(text)):
                return cell
            return (re.sub(separator, "", text) if separator else text).replace(decimal, ".")

        columns = {name: frame[name].map(normalize_cell) for name in names if frame[name].dtype.kind not in "iufbMm"}
        categories = [name for name in columns if frame[name].dtype == "category"]
        return frame.assign(**columns).astype(dict.fromkeys(categories, "category"))


class ColumnKind(NamedTuple):
    """What a column holds.

    Attributes:
        name: A name of ``KINDS``, or ``names``.
        doubt: Why it may be misread, if it holds names that look like numbers or dates; else empty.
        order: What stands first in its dates, if they had to be rewritten.
        zoned: Whether its dates name their time zone; None if some alone do.
    """

    name: str
    doubt: str = ""
    order: DateOrder = ""
    zoned: bool | None = None


def list_present_texts(values: pd.Series[Any]) -> list[str]:
    """Return the cells of a column as texts, without gaps."""
    return [text for text in convert_to_texts(values) if text and text.lower() not in GAPS]


def infer_column_kind(values: pd.Series[Any], number_format: NumberFormat = NumberFormat()) -> ColumnKind:  # noqa: B008
    """Return what a column holds, apart from gaps and a few bad rows.

    Args:
        values: The column.
        number_format: How its dates are written.
    """
    if values.dtype == "category" or pd.api.types.infer_dtype(values, skipna=True) == "boolean":
        return ColumnKind(NAMES)
    texts: list[str] = []
    written_order: DateOrder = ""
    mixed = ""
    for name in KINDS:
        kind = ColumnKind(name)
        if name == "dates":
            texts = list_present_texts(values)
            written_order = infer_date_order(texts)
            order = number_format.choose_date_order(written_order)
            kind = ColumnKind(name, order=order, zoned=have_zones(texts))
        is_other = np.isnan(_convert_to_numbers(values, kind))
        count = len(values) - is_other.sum()
        others = list_present_texts(values[is_other]) if count else []
        num_present = count + len(others)
        if count and count >= MOST * num_present:
            return kind
        if name == "numbers" and count and count >= MANY_NUMBERS * num_present:
            share = format_percent(count / num_present)
            option = format_option("data.numbers", values.name)
            mixed = f"{others[0]!r} is not a number, as {share} are: {option} takes such cells for missing"
    for pattern, doubt in MISREAD.items():
        if texts and sum(re.match(pattern, text) is not None for text in texts) >= MOST * len(texts):
            doubt = doubt.format(
                remedy=describe_date_remedy(written_order, number_format.choose_date_order(written_order)),
                decimal=format_option("data.decimal"),
                thousands=format_option("data.thousands"),
            )
            return ColumnKind(NAMES, f"{texts[0]!r} {doubt}")
    return ColumnKind(NAMES, mixed)


def _convert_to_numbers(values: pd.Series[Any], kind: ColumnKind) -> NDArray[np.float64]:
    """Return a number for each cell of a column of a kind, NaN for a cell of another kind."""
    if kind.name == "dates":
        return parse_days(values, kind.order)
    return KINDS[kind.name].parse(values)


def describe_likely_thousands(cells: pd.Series[Any]) -> str:
    """Return two numbers of a column whose points or commas seem to stand between thousands; or "".

    All with one are whole thousands then, and all others are less than 1000.

    Args:
        cells: The texts as they were written.

    >>> describe_likely_thousands(pd.Series(["12.077", "5.941", "994"]))
    " ('12.077' and '994')"
    >>> describe_likely_thousands(pd.Series(["12.07", "5.941", "994"]))
    ''
    """
    grouped = small = ""
    for cell in cells.unique():  # few, or the first ones tell
        text = convert_to_text(cell) or ""
        if THOUSANDS.fullmatch(text):
            grouped = grouped or text
        elif HUNDREDS.fullmatch(text):
            small = small or text
        elif text.lower() not in GAPS:
            return ""
    return f" ({grouped!r} and {small!r})" if grouped and small else ""


def describe_missing_code(numbers: NDArray[np.float64]) -> str:
    """Return a number of nines, such as -999, that lies far from all others of a column and so may mean a gap; or "".

    >>> describe_missing_code(np.array([20.0, 35.0, 50.0, -999.0, -999.0]))
    ' (-999 in 2 rows)'
    """
    present = numbers[np.isfinite(numbers)]
    for code in (present.min(), present.max()) if len(present) else ():
        others = present[present != code]
        count = len(present) - len(others)
        if re.fullmatch(r"-?9{2,}", f"{code:.15g}") and count > 1 and np.abs(others - code).min() > others.std():
            return f" ({code:.0f} in {format_row_count(count)})"
    return ""


def parse_column(
    values: pd.Series[Any], kind: ColumnKind, errors: RowErrors, may_miss: bool = True, coerce: bool = False
) -> Array:
    """Return a column as numbers or days (n,), NaN for gaps, or as names (n,), "" for gaps.

    Args:
        values: The column.
        kind: What it holds.
        errors: Where bad rows are noted.
        may_miss: Whether gaps are not bad.
        coerce: Whether cells that are not of the kind are gaps.
    """
    if kind.name not in KINDS:
        texts = [normalize_text(text or "", "NFKC").strip() for text in convert_to_texts(values)]
        return np.asarray([WHOLE.sub(r"\1", text) for text in texts], dtype=object)
    numbers = _convert_to_numbers(values, kind)
    is_good = np.abs(numbers) <= LARGEST
    faulty = np.flatnonzero(~is_good)
    for row, text in zip(faulty.tolist(), convert_to_texts(values.iloc[faulty]), strict=True):
        is_missing = (text or "").lower() in GAPS
        if (may_miss and is_missing) or (coerce and text and np.isnan(numbers[row])):
            continue
        fault = KINDS[kind.name].fault
        if np.isfinite(numbers[row]):
            fault = f"is more than {LARGEST:.1e} (give it in another unit, or leave it out of the features)"
        elif kind.name == "dates" and YEAR_LAST.match(text or ""):
            fault = "is not a date with day and month in the order of the column (write 2024-12-31)"
        elif kind.name == "numbers" and may_miss:
            as_missing = format_option("data.numbers", values.name)
            fault += f" (missing by {as_missing}, all names by {format_option('data.categorical', values.name)})"
        content = f"holds {text[:60]!r}, which {fault}" if text else "is empty"
        errors.add(row, f"column {values.name!r} {content}")
    return np.where(is_good, numbers, np.nan)


def list_column_inputs(columns: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return for each input of ``ColumnEncoder`` its column, and the name that it stands for; empty for numbers.

    Args:
        columns: What a training found of each column, as the values of ``ColumnReader.fitted_columns``.
    """
    inputs: list[tuple[str, str]] = []
    for column in columns:
        name = column["name"]
        if "categories" in column:
            inputs += [(name, category or MISSING) for category in column["categories"]]
            continue
        inputs.append((name, ""))
        if column.get("gaps"):
            inputs.append((name, MISSING))
        if "hours" in column:
            inputs.append((name, HOUR))
    return tuple(inputs)
