"""Columns of numbers, dates and names as feature vectors, brought to one scale by what the training rows show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.problems import Problems
from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

#: A column counts as numbers, or as dates, if so large a share of its values are.
SHARE_OF_NUMBERS = 0.9

#: Most different names of a column; more are hardly categories.
MOST_CATEGORIES = 100

#: What stands for no value in a column of numbers or dates, in small letters; among names only the empty text does.
GAPS = ("", "?", "na", "n/a", "nan", "nat", "none", "null")

#: What a column holds. A date is the number of days since 1970.
Kind = Literal["numbers", "dates", "names"]

#: What a column was found to be: its name, and its categories, or mean and std of its numbers; ``date`` if these are
#: days, and ``gaps`` if training rows had no value. Among categories the empty text stands for no value.
Column = dict[str, Any]


class Columns:
    """The columns of a frame as numbers, as days and as texts, each converted once."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self._numbers: dict[str, NDArray[np.float64]] = {}
        self._days: dict[str, NDArray[np.float64]] = {}
        self._texts: dict[str, NDArray[np.object_]] = {}

    def __len__(self) -> int:
        return len(self.frame)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as numbers (M,), NaN where there is none."""
        if name not in self._numbers:
            self._numbers[name] = _numbers(self.frame[name])
        return self._numbers[name]

    def days(self, name: str) -> NDArray[np.float64]:
        """Return a column of dates, such as 2024-05-31, as days since 1970 (M,), NaN where there is none."""
        if name not in self._days:
            self._days[name] = _days(self.frame[name], lambda: self.texts(name))
        return self._days[name]

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return a column as texts (M,) without blanks around them, empty where there is nothing."""
        if name not in self._texts:
            self._texts[name] = _texts(self.frame[name])
        return self._texts[name]

    def values(self, column: Column) -> NDArray[np.float64]:
        """Return the numbers or days (M,) of a column that was found to hold such."""
        name = str(column["name"])
        return self.days(name) if column.get("date") else self.numbers(name)

    def gaps(self, name: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return where a column, of these numbers or days, holds nothing or says so (M,)."""
        import pandas as pd

        gaps = ~np.isfinite(values)
        rows = np.flatnonzero(gaps)
        if len(rows):
            gaps[rows] = pd.Series(self.texts(name)[rows], dtype=object).str.lower().isin(GAPS)
        return gaps

    def kind(self, name: str) -> Kind:
        """Return what a column holds, but for gaps and for a few rows at most."""
        import pandas as pd

        held = self.frame[name]
        if held.dtype.kind in "bO" and pd.api.types.infer_dtype(held, skipna=True) == "boolean":
            return "names"  # True and False, as they are in a CSV
        for kind, read in (("numbers", self.numbers), ("dates", self.days)):
            values = read(name)
            found = int(np.isfinite(values).sum())
            if found and found >= SHARE_OF_NUMBERS * int((~self.gaps(name, values)).sum()):
                return cast("Kind", kind)
        return "names"


def learn_columns(columns: Columns, names: Sequence[str], train: Tensor) -> list[Column]:
    """Find out what each column holds, and its mean and standard deviation or its categories over the training rows.

    Args:
        columns: Those of all rows.
        names: Which to take.
        train: (n,) long, the training rows.

    Raises:
        InputError: If a column of names has too many different ones.
    """
    return [_learn(columns, name, train.numpy()) for name in names]


def _learn(columns: Columns, name: str, train: NDArray[np.int64]) -> Column:
    kind = columns.kind(name)
    if kind == "names":
        categories = sorted(set(columns.texts(name)[train]))
        if len(categories) > MOST_CATEGORIES:
            raise InputError(
                f"column {name!r} holds {len(categories):,} different texts, more than {MOST_CATEGORIES}: leave it out "
                "of the features, or give it as --data.text"
            )
        return {"name": name, "categories": categories}
    column: Column = {"name": name} | ({"date": True} if kind == "dates" else {})
    values = columns.values(column)[train]
    present = values[np.isfinite(values)]
    deviation = float(present.std()) if len(present) else 0.0
    column |= {"mean": float(present.mean()) if len(present) else 0.0, "std": deviation if deviation > 0 else 1.0}
    return column | ({"gaps": True} if len(present) < len(values) else {})


def note_bad_features(columns: Columns, names: Sequence[str], problems: Problems) -> None:
    """Note every row with something else in a column of numbers or dates; no value at all is none of them."""
    for name in names:
        kind = columns.kind(name)
        if kind != "names":
            column = {"name": name, "date": kind == "dates"}
            _note(problems, column, columns.frame[name], _wrong(columns, column, gaps_too=False))


def gaps_of(columns: Columns, names: Sequence[str]) -> dict[str, int]:
    """Return in how many rows each column has no value, of those that have such rows."""
    found: dict[str, int] = {}
    for name in names:
        kind = columns.kind(name)
        if kind == "names":
            found[name] = int((columns.texts(name) == "").sum())
        else:
            values = columns.values({"name": name, "date": kind == "dates"})
            found[name] = int(columns.gaps(name, values).sum())
    return {name: rows for name, rows in found.items() if rows}


def width(column: Column) -> int:
    """Return how many inputs a column becomes: a number, a flag where there may be gaps, or a flag for each name."""
    return len(column["categories"]) if "categories" in column else 1 + bool(column.get("gaps"))


def to_vectors(columns: Columns, learnt: Sequence[Column], problems: Problems | None = None) -> Tensor:
    """Return the rows as vectors (M, F) float32: numbers standardised, categories as one number each, 0 or 1.

    Where training rows had gaps, a gap is the mean, 0, and 1 in a number of its own. A category that no training row
    has is all zeros. What is no number, and a gap where training rows had none, is noted in ``problems`` and 0.
    """
    vectors = np.empty((len(columns), sum(map(width, learnt))), dtype=np.float32)
    place = 0
    for column in learnt:
        name = str(column["name"])
        if "categories" in column:
            names = np.asarray(column["categories"], dtype=object)
            vectors[:, place : place + len(names)] = columns.texts(name)[:, None] == names
        else:
            numbers = (columns.values(column) - column["mean"]) / column["std"]
            missing = ~np.isfinite(numbers)
            if problems is not None:
                _note(problems, column, columns.frame[name], _wrong(columns, column, not column.get("gaps")))
            vectors[:, place] = np.where(missing, 0, numbers)
            if column.get("gaps"):
                vectors[:, place + 1] = missing
        place += width(column)
    return torch.from_numpy(vectors)


def plain_columns(columns: Columns, learnt: Sequence[Column]) -> dict[str, NDArray[Any]]:
    """Return the columns as they were before they became vectors, name -> (M,).

    Numbers and days are floats, NaN where there is none or an infinite one; names are texts, empty where there is none.
    """
    plain: dict[str, NDArray[Any]] = {}
    for column in learnt:
        name = str(column["name"])
        values = columns.texts(name) if "categories" in column else columns.values(column)
        infinite = np.isinf(values) if values.dtype.kind == "f" else np.zeros(1, dtype=bool)
        plain[name] = np.where(infinite, np.nan, values) if infinite.any() else values
    return plain


def _wrong(columns: Columns, column: Column, gaps_too: bool) -> NDArray[np.bool_]:
    """Return which rows hold no number or no date, with or without those that hold nothing (M,)."""
    values = columns.values(column)
    wrong = ~np.isfinite(values)
    return wrong if gaps_too else wrong & ~columns.gaps(str(column["name"]), values)


def _note(problems: Problems, column: Column, values: pd.Series, wrong: NDArray[np.bool_]) -> None:
    what = "date, such as 2024-05-31" if column.get("date") else "finite number"
    for row in np.flatnonzero(wrong).tolist():
        text = _texts(values.iloc[[row]])[0]
        fault = f"holds {text!r}, which is no {what}" if text else "is empty"
        problems.add(row, f"column {column['name']!r} {fault}")


def _numbers(values: pd.Series) -> NDArray[np.float64]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.dtype.kind == "M":  # dates, of which pandas would make nanoseconds
        return np.full(len(values), np.nan)
    if values.dtype.kind not in "biuf":
        try:  # reads a column of nothing but numbers thirty times as fast as pandas does
            return np.asarray(pc.cast(pc.utf8_trim_whitespace(pa.array(values, pa.string())), pa.float64()), np.float64)
        except (pa.ArrowException, TypeError):
            pass
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _days(values: pd.Series, texts: Callable[[], NDArray[np.object_]]) -> NDArray[np.float64]:
    import pandas as pd

    if values.dtype.kind in "biuf":
        return np.full(len(values), np.nan)
    if values.dtype.kind != "M":
        written = pd.Series(texts(), dtype=object)
        written = written.where(written.str.match(r"\d{4}-\d\d"))  # pandas would take "now" for a date as well
        values = pd.to_datetime(written, format="ISO8601", errors="coerce", utc=True)
    elif values.dt.tz is not None:
        values = values.dt.tz_convert("UTC")
    seconds = values.dt.tz_localize(None).to_numpy(dtype="datetime64[s]")
    return np.asarray((seconds - np.datetime64(0, "s")) / np.timedelta64(1, "D"), dtype=np.float64)


def _texts(values: pd.Series) -> NDArray[np.object_]:
    """Return a column as texts without blanks around them, empty where there is nothing."""
    texts = values.astype(object).where(values.notna(), "").astype(str).str.strip()
    return texts.to_numpy(dtype=object)
