"""Columns of numbers, dates and names as feature vectors, brought to one scale by what the training rows show."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.rows import Problems
from logit_correction.errors import InputError, InputWarning
from logit_correction.views.tables import FEWEST_NAMES, told_apart

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


#: A column counts as numbers, or as dates, if so large a share of its values are.
SHARE_OF_NUMBERS = 0.9

#: What stands for no value in a column of numbers or dates, in small letters; among names only the empty text does.
GAPS = ("", "?", "na", "n/a", "nan", "nat", "none", "null")

#: A number as people write it: with a decimal comma or point, separators of thousands, a per cent sign.
WRITTEN_NUMBER = r"[-+]?(\d+([.,]\d+)?|\d{1,3}([.,' \u00a0\u202f]\d{3})+([.,]\d+)?)\s?%?"

#: So many different texts are looked at to tell whether a column's names are such numbers.
LOOKED_AT = 1000

SECONDS_OF_A_DAY = 86_400

#: What a column without a name is called if it is a CSV's first.
UNNAMED = "Unnamed: 0"

#: What a column holds. A date is the number of days since 1970, a span of time one of days.
Kind = Literal["numbers", "dates", "names"]


class Columns:
    """The columns of a frame, each converted once.

    >>> import pandas as pd
    >>> columns = Columns(pd.DataFrame({"age": ["40", "?"], "day": ["1970-01-03", ""], "form": ["old", "new"]}))
    >>> [columns.kind(name) for name in ("age", "day", "form")]
    ['numbers', 'dates', 'names']
    >>> columns.numbers("age").tolist(), columns.days("day").tolist()
    ([40.0, nan], [2.0, nan])
    """

    def __init__(self, frame: pd.DataFrame, categorical: Collection[str] = ()) -> None:
        """Take a frame, and the names of columns whose numbers or dates stand for names."""
        self.frame, self.categorical = frame, categorical
        self._numbers: dict[str, NDArray[np.float64]] = {}
        self._days: dict[str, NDArray[np.float64]] = {}
        self._texts: dict[str, NDArray[np.object_]] = {}
        self._kinds: dict[str, Kind] = {}
        self._different: dict[str, tuple[NDArray[np.object_], NDArray[np.intp]]] = {}

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
            held = self.frame[name]
            if held.dtype.kind in "biuf":
                self._days[name] = np.full(len(held), np.nan)
            elif held.dtype.kind == "M":
                self._days[name] = _days(held)
            else:
                texts, place = self.different(name)
                self._days[name] = _days_of_texts(texts)[place]
        return self._days[name]

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return a column as texts (M,) without blanks around them, empty where there is nothing."""
        if name not in self._texts:
            self._texts[name] = texts_of_values(self.frame[name])
        return self._texts[name]

    def different(self, name: str) -> tuple[NDArray[np.object_], NDArray[np.intp]]:
        """Return the different texts of a column (T,), and which of them each row holds (M,)."""
        import pandas as pd

        if name not in self._different:
            place, texts = pd.factorize(self.texts(name))
            self._different[name] = texts, place
        return self._different[name]

    def values(self, name: str, kind: Kind) -> NDArray[np.float64]:
        """Return a column of such a kind as numbers or days (M,)."""
        return self.days(name) if kind == "dates" else self.numbers(name)

    def gaps(self, name: str, kind: Kind) -> NDArray[np.bool_]:
        """Return where a column of such a kind holds nothing, or says so (M,)."""
        import pandas as pd

        if kind == "names":
            texts, place = self.different(name)
            return np.asarray(texts == "")[place]
        gaps = ~np.isfinite(self.values(name, kind))
        rows = np.flatnonzero(gaps)
        if len(rows):
            texts = texts_of_values(self.frame[name].iloc[rows])  # of these rows alone: most columns have few
            gaps[rows] = pd.Series(texts, dtype=object).str.lower().isin(GAPS)
        return gaps

    def written_number(self, name: str) -> str | None:
        """Return an example where a column's names look like numbers of another form, such as 0,126; else None."""
        import pandas as pd

        if self.kind(name) != "names" or name in self.categorical:
            return None
        texts = pd.Series(self.different(name)[0][:LOOKED_AT], dtype=object)
        texts = texts[~texts.str.lower().isin(GAPS)]
        alike = texts.str.fullmatch(WRITTEN_NUMBER).astype(bool)
        other = texts[alike & pd.to_numeric(texts, errors="coerce").isna()]
        return str(other.iloc[0]) if len(other) and alike.mean() >= SHARE_OF_NUMBERS else None

    def kind(self, name: str) -> Kind:
        """Return what a column holds, but for gaps and for a few rows at most."""
        if name not in self._kinds:
            self._kinds[name] = self._kind(name)
        return self._kinds[name]

    def _kind(self, name: str) -> Kind:
        import pandas as pd

        held = self.frame[name]
        if name in self.categorical or isinstance(held.dtype, pd.CategoricalDtype):
            return "names"
        if held.dtype.kind in "bO" and pd.api.types.infer_dtype(held, skipna=True) == "boolean":
            return "names"  # True and False, as they are in a CSV
        kinds: tuple[Kind, ...] = ("numbers", "dates")
        for kind in kinds:
            found = int(np.isfinite(self.values(name, kind)).sum())
            if found and found >= SHARE_OF_NUMBERS * int((~self.gaps(name, kind)).sum()):
                return kind
        return "names"


def texts_of_values(values: pd.Series) -> NDArray[np.object_]:
    """Return values as texts (M,) without blanks around them, empty where there is nothing.

    Whole numbers have no point: pandas makes 3.0 of 3 where other rows have gaps.
    """
    if values.dtype == object:  # as new rows from Python have it
        values = values.map(lambda one: int(one) if isinstance(one, float) and one.is_integer() else one)
    texts = values.astype(object).where(values.notna(), "").astype(str).str.strip()
    if values.dtype.kind == "f":
        texts = texts.str.removesuffix(".0")
    return texts.to_numpy(dtype=object)


def unnamed_row_numbers(frame: pd.DataFrame) -> str | None:
    """Return the first column if it has no name and numbers the rows, as ``DataFrame.to_csv`` writes the index."""
    if not len(frame.columns) or frame.columns[0] != UNNAMED:
        return None
    numbers = Columns(frame).numbers(UNNAMED)
    whole = bool(np.isfinite(numbers).all()) and bool((numbers == np.floor(numbers)).all())
    return UNNAMED if whole and len(np.unique(numbers)) == len(numbers) else None


def _numbers(values: pd.Series) -> NDArray[np.float64]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.dtype.kind == "M":  # dates, of which pandas would make nanoseconds
        return np.full(len(values), np.nan)
    if values.dtype.kind == "m":
        return (values.dt.total_seconds() / SECONDS_OF_A_DAY).to_numpy(dtype=np.float64, na_value=np.nan)
    if values.dtype.kind not in "biuf":
        try:  # reads a column of nothing but numbers thirty times as fast as pandas does
            return np.asarray(pc.cast(pc.utf8_trim_whitespace(pa.array(values, pa.string())), pa.float64()), np.float64)
        except (pa.ArrowException, TypeError):
            pass
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _days_of_texts(texts: NDArray[np.object_]) -> NDArray[np.float64]:
    import pandas as pd

    written = pd.Series(texts, dtype=object)
    written = written.where(written.str.match(r"\d{4}-\d\d"))  # pandas would take "now" for a date as well
    return _days(pd.to_datetime(written, format="ISO8601", errors="coerce", utc=True))


def _days(dates: pd.Series) -> NDArray[np.float64]:
    if dates.dt.tz is not None:
        dates = dates.dt.tz_convert("UTC")
    seconds = dates.dt.tz_localize(None).to_numpy(dtype="datetime64[s]")
    return np.asarray((seconds - np.datetime64(0, "s")) / np.timedelta64(1, "D"), dtype=np.float64)


#: Rows that share a name, in the mean; with fewer, more than ``FEWEST_NAMES`` names are hardly categories.
FEWEST_ROWS = 10

#: Relative to the mean, a standard deviation that may come of rounding alone.
ROUNDING = 10 * np.finfo(np.float64).eps

#: What a column was found to be: its name, and its categories, or mean and std of its numbers; ``date`` if these are
#: days, and ``gaps`` if training rows had no value. Among categories the empty text stands for no value.
Column = dict[str, Any]


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
        texts, place = columns.different(name)
        count = np.bincount(place[train], minlength=len(texts))
        if hardly_categories(len(texts), len(columns)):  # by all rows, as * asks before there are training rows
            written = columns.written_number(name)
            raise InputError(
                f"column {name!r} holds {len(texts):,} different texts in {len(columns):,} rows, which are hardly "
                "categories: leave it out of the features, or "
                + (f"write {written!r} as a plain number, such as 1037.5" if written else "give it as --data.text")
            )
        commonest = np.lexsort((texts.astype(str), -count))[: min(int((count > 0).sum()), told_apart(len(columns)))]
        return {"name": name, "categories": sorted(texts[commonest].tolist())}
    column: Column = {"name": name} | ({"date": True} if kind == "dates" else {})
    values = columns.values(name, kind)[train]
    present = values[np.isfinite(values)]
    mean, std = mean_and_std(present) if len(present) else (0.0, 1.0)
    column |= {"mean": float(mean), "std": float(std)}
    return column | ({"gaps": True} if len(present) < len(values) else {})


def mean_and_std(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of numbers (n, ...) over the n; a deviation is 1 where numbers are all equal.

    Rounding alone makes numbers deviate from their mean, so that what is no larger than it counts as none.

    >>> mean, std = mean_and_std(np.full((90, 1), 0.1))
    >>> float(np.full((90, 1), 0.1).std()) > 0, float(std[0])
    (True, 1.0)
    """
    mean, std = values.mean(axis=0), values.std(axis=0)
    varies = std > ROUNDING * np.abs(mean)  # false where either is no number
    return mean, np.where(varies & (values.max(axis=0) > values.min(axis=0)), std, 1.0)


def hardly_categories(different: int, rows: int) -> bool:
    """Return whether so many different texts in so many rows are hardly categories.

    >>> hardly_categories(100, 120), hardly_categories(150, 1400), hardly_categories(150, 1500)
    (False, True, False)
    """
    return different > FEWEST_NAMES and different * FEWEST_ROWS > rows


def note_bad_features(columns: Columns, names: Sequence[str], problems: Problems) -> None:
    """Note every row with something else in a column of numbers or dates; no value at all is none of them."""
    for name in names:
        kind = columns.kind(name)
        if kind != "names":
            _note_wrong(columns, name, kind, problems, gaps_too=False)


def gaps_of(columns: Columns, names: Sequence[str]) -> dict[str, int]:
    """Return in how many rows each column has no value, of those that have such rows."""
    found = {name: int(columns.gaps(name, columns.kind(name)).sum()) for name in names}
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
        name, kind = str(column["name"]), _kind_of(column)
        if kind == "names":
            number = _category_of_rows(columns, column)
            known = np.flatnonzero(number >= 0)
            vectors[:, place : place + width(column)] = 0
            vectors[known, place + number[known]] = 1
        else:
            numbers = (columns.values(name, kind) - column["mean"]) / column["std"]
            missing = ~np.isfinite(numbers)
            if problems is not None:
                _note_wrong(columns, name, kind, problems, gaps_too=not column.get("gaps"))
            vectors[:, place] = np.where(missing, 0, numbers)
            if column.get("gaps"):
                vectors[:, place + 1] = missing
        place += width(column)
    return torch.from_numpy(vectors)


def warn_of_unknown_names(columns: Columns, learnt: Sequence[Column], told: set[str]) -> None:
    """Warn of columns in which new rows hold none of the categories of the training rows.

    Args:
        columns: The new rows.
        learnt: What ``learn_columns`` returned.
        told: Columns that were warned of already; more are added.
    """
    for column in learnt:
        name = str(column["name"])
        if name in told or "categories" not in column:
            continue
        rows = np.flatnonzero(_category_of_rows(columns, column) < 0)
        if len(rows):
            told.add(name)
            example = next((repr(text) for text in columns.texts(name)[rows].tolist() if text), "no name at all")
            warnings.warn(
                f"column {name!r} holds names that the model was not trained to tell apart, such as {example}, in "
                f"{len(rows):,} of {len(columns):,} new rows: there it counts as none of the names",
                InputWarning,
                stacklevel=2,
            )


def _category_of_rows(columns: Columns, column: Column) -> NDArray[np.intp]:
    """Return the place of each row's category among those of a column of names (M,), -1 where it is none of them."""
    texts, place = columns.different(str(column["name"]))
    number = {name: i for i, name in enumerate(column["categories"])}
    return np.array([number.get(text, -1) for text in texts.tolist()], dtype=np.intp)[place]


def plain_columns(columns: Columns, learnt: Sequence[Column]) -> dict[str, NDArray[Any]]:
    """Return the columns as they were before they became vectors, name -> (M,).

    Numbers and days are floats, NaN where there is none or an infinite one; names are texts, empty where there is none.
    """
    plain: dict[str, NDArray[Any]] = {}
    for column in learnt:
        name, kind = str(column["name"]), _kind_of(column)
        values = columns.texts(name) if kind == "names" else columns.values(name, kind)
        infinite = np.isinf(values) if values.dtype.kind == "f" else np.zeros(1, dtype=bool)
        plain[name] = np.where(infinite, np.nan, values) if infinite.any() else values
    return plain


def _kind_of(column: Column) -> Kind:
    return "names" if "categories" in column else "dates" if column.get("date") else "numbers"


def _note_wrong(columns: Columns, name: str, kind: Kind, problems: Problems, gaps_too: bool) -> None:
    """Note each row that holds no number or no date, with or without those that hold nothing."""
    wrong = ~np.isfinite(columns.values(name, kind))
    if not gaps_too:
        wrong &= ~columns.gaps(name, kind)
    what = "date, such as 2024-05-31" if kind == "dates" else "finite number"
    for row in np.flatnonzero(wrong).tolist():
        text = texts_of_values(columns.frame[name].iloc[[row]])[0]
        problems.add(row, f"column {name!r} " + (f"holds {text!r}, which is no {what}" if text else "is empty"))
