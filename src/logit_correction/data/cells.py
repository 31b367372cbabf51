"""Cells of tables as texts: what counts as missing, which texts are equal, and what columns and rows are called.

The same value reaches this package as ``3``, ``3.0``, ``"3"`` or an element of a nullable column, and a missing one as
None, NaN, NaT or NA. Labels, attributes and categories are compared as texts, so one value must become one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow

from logit_correction.errors import InputError
from logit_correction.formatting import format_first, suggest_name
from logit_correction.types import Array, to_numpy
from logit_correction.unicode_text import escape_undecodable, normalize_text

#: What stands for no value in a column of numbers or dates, in small letters; among names only the empty text does.
GAPS = ("", "?", "-", "--", "–", "—", ".", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "nat", "none", "null")

#: A number; names that are numbers are compared by value.
NUMBER = re.compile(r"[+-]?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?", re.ASCII)

#: Numbers that truth values stand for; a spreadsheet writes them in capitals.
TRUTH_VALUES = {"true": Decimal(1), "false": Decimal(0)}

#: Columns that an error message lists.
MAX_NAMES_SHOWN = 20


def is_missing_cell(value: Any) -> bool:
    """Return whether a value stands for none: None, NaN, NaT and NA of any library."""
    # Most cells are texts, for which the first question suffices, at a tenth of the time.
    return not isinstance(value, str) and bool(pd.api.types.is_scalar(value) and pd.isna(value))


def convert_to_text(value: Any, as_written: bool = False) -> str | None:
    """Return a value as a text without blanks around it, None for a gap; 3.0 becomes "3".

    Args:
        value: A cell.
        as_written: Whether texts that merely look alike stay different, as names of files are.
    """
    if is_missing_cell(value):
        return None
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    if isinstance(value, bytes):  # as some programs write texts to Parquet
        value = value.decode("utf-8", "backslashreplace")
    text = str(value) if as_written else normalize_text(str(value))
    return text.strip() or None


def convert_to_texts(values: pd.Series[Any] | Array, as_written: bool = False) -> list[str | None]:
    """Return the cells of a column, or the elements of an array, as texts.

    Args:
        values: The column.
        as_written: See ``convert_to_text``.
    """
    return [convert_to_text(value, as_written) for value in values.tolist()]


def convert_attributes_to_texts(values: Array) -> list[str | None]:
    """Return attributes as texts, None where unknown: -1 stands for unknown, too."""
    return [None if text == "-1" else text for text in convert_to_texts(values)]


def convert_to_label_array(values: Any) -> Array:
    """Return labels or attributes as an array of the values that were given.

    NumPy alone would make the text ``None`` of a gap among texts, and whole numbers of times.
    """
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        masked = values.mask
        values = values.data.astype(object)
        values[masked] = None
    array = to_numpy(values)
    if array.ndim == 1 and array.dtype.kind in "mM":
        return pd.Series(array).astype(object).to_numpy()
    if array.ndim == 1 and array.dtype.kind in "OU":
        return np.fromiter(map(escape_cell, array if hasattr(values, "dtype") else values), dtype=object)
    return array


def escape_cell(value: Any) -> Any:
    """Return a text without half characters, which pandas and files cannot hold; another value as it is."""
    return escape_undecodable(value) if isinstance(value, str) and not value.isascii() else value


def infer_label_kind(values: Any) -> str:
    """Return what labels are, ``str``, ``int``, ``float`` or ``bool``; those of a CSV are texts."""
    kinds = {"integer": "int", "floating": "float", "mixed-integer-float": "float", "boolean": "bool"}
    return kinds.get(pd.api.types.infer_dtype(np.asarray(values, dtype=object), skipna=True), "str")


def group_by_number(names: Iterable[str]) -> dict[Decimal, list[str]]:
    """Return names that are numbers by their value: 1.0, 01 and TRUE are one number."""
    by_value: dict[Decimal, list[str]] = {}
    for name in names:
        value = _parse_name(name)
        if value is not None:
            by_value.setdefault(value, []).append(name)
    return by_value


def _parse_name(name: str) -> Decimal | None:
    return Decimal(name) if NUMBER.fullmatch(name) else TRUTH_VALUES.get(name.lower())


def match_numeric_names(new_names: Iterable[str | None], known_names: Sequence[str]) -> dict[str | None, str]:
    """Return the known name of each unknown name that is the same number, where only one known name is.

    Args:
        new_names: Names of new rows, some of them unknown.
        known_names: Names of training.

    >>> match_numeric_names(["1", "02.0", "3", "01"], ["01", "2", "x"])
    {'02.0': '2', '1': '01'}
    """
    unknown = {name for name in new_names if name}.difference(known_names)
    by_value = group_by_number(known_names) if unknown else {}
    matches: dict[str | None, str] = {}
    for name in sorted(unknown):
        value = _parse_name(name)
        same = by_value.get(value, []) if value is not None else []
        if len(same) == 1:
            matches[name] = same[0]
    return matches


def convert_to_parquet_values(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as a Parquet file would return it: dense, and texts instead of values that no file can hold."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        categories = pd.Series(values.cat.categories)
        if isinstance(categories.dtype, pd.DatetimeTZDtype):
            categories = categories.dt.tz_convert("UTC")  # as Parquet returns them
        if categories.dtype.kind in "mM":  # Arrow would write times, zones and spans in another way
            categories = pd.Series(convert_to_texts(categories), dtype=object)
        categories = convert_to_parquet_values(categories)
        return pd.Series(categories.astype(object).reindex(values.cat.codes).to_numpy(), values.index, "category")
    if isinstance(dtype, pd.SparseDtype):
        return values.astype(dtype.subtype)
    if dtype == np.longdouble:
        return values.astype(np.float64)
    if dtype == np.dtype(object):
        values = values.map(escape_cell).astype(object)
    elif not isinstance(dtype, pd.ArrowDtype | pd.PeriodDtype | pd.IntervalDtype) and dtype.kind != "c":
        return values
    with suppress(pyarrow.ArrowException, ValueError, TypeError, OverflowError):  # values of several kinds
        array: Any = pyarrow.array(values, from_pandas=True)
        # Where the first values are dates, Arrow takes the hour off the times after them. It gives all times one zone.
        get_kind = _has_zone if pyarrow.types.is_timestamp(array.type) else type
        is_time = dtype == np.dtype(object) and pyarrow.types.is_temporal(array.type)
        is_cut = is_time and values.dropna().map(get_kind).nunique() > 1
        if not is_cut and not isinstance(array, pyarrow.ExtensionArray):
            return array.to_pandas(integer_object_nulls=True, maps_as_pydicts="lossy").set_axis(values.index)
    return pd.Series(convert_to_texts(values, as_written=True), values.index, object)


def _has_zone(time: Any) -> bool:
    return getattr(time, "tzinfo", None) is not None


def normalize_column_names(frame: pd.DataFrame, source_name: str) -> pd.DataFrame:
    """Return a table whose columns have their names as texts; raise ``InputError`` if two have the same.

    Args:
        frame: The table.
        source_name: What messages call it.
    """
    renamed = frame.set_axis([normalize_text(str(name)).strip() for name in frame.columns], axis="columns")
    if renamed.columns.has_duplicates:
        duplicate = renamed.columns[renamed.columns.duplicated()][0]
        raise InputError(f"{source_name} has more than one column {duplicate!r}: rename all but one")
    return renamed


def check_required_column_names(names: Iterable[Any], source_name: str, required_columns: Sequence[str]) -> None:
    """Raise ``InputError`` unless the wanted columns are among the names of a table's columns.

    Args:
        names: The columns of the table, or the table itself.
        source_name: What messages call the table.
        required_columns: The columns that it must have.
    """
    names = list(names)
    missing = [f"{name!r}{suggest_name(name, names)}" for name in dict.fromkeys(required_columns) if name not in names]
    if missing:
        raise InputError(
            f"{source_name} has no column {', '.join(missing)}: it has {format_first(names, MAX_NAMES_SHOWN)}"
        )


def check_required_columns(frame: pd.DataFrame, source_name: str, required_columns: Sequence[str]) -> None:
    """Raise ``InputError`` unless a table has these columns, of single values.

    Args:
        frame: The table.
        source_name: What messages call it.
        required_columns: The columns that it must have.
    """
    check_required_column_names(frame, source_name, required_columns)
    for name in required_columns:
        if frame[name].dtype == object and any(map(pd.api.types.is_list_like, frame[name])):
            raise InputError(f"{source_name}: column {name} holds lists or mappings: write what is in it into columns")


def get_row_noun(numbers: range | pd.Index) -> str:
    """Return what messages call rows of such numbers: ``line`` for those of a CSV, else ``row``."""
    return getattr(numbers, "name", None) or "row"


def format_row_names(numbers: range | pd.Index) -> list[str]:
    """Return what messages call each row of such numbers: ``line 2`` or ``row 0``."""
    noun = get_row_noun(numbers)
    return [f"{noun} {number}" for number in numbers]
