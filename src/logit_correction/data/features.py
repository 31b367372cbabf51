"""Columns of numbers, dates and names as vectors for a network, by what the training rows show."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from logit_correction.data.frames import check_columns, texts_of
from logit_correction.data.rows import format_faults
from logit_correction.data.stores import ArrayStore
from logit_correction.errors import InputError, InputWarning
from logit_correction.views.tables import FEWEST_NAMES, told_apart

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor

    from logit_correction.data.reader import Rows
    from logit_correction.data.rows import Problems

#: What a column was found to be: its name, and its categories, or mean and std of its numbers; ``date`` if these are
#: days, and ``gaps`` if training rows had no value. Among categories the empty text stands for no value.
Column = dict[str, Any]

#: What a column holds. A date is the number of days since 1970, a span of time one of days.
Kind = Literal["numbers", "dates", "names"]

#: A column counts as numbers, or as dates, if so large a share of its values are.
SHARE_OF_NUMBERS = 0.9

#: What stands for no value in a column of numbers or dates, in small letters; among names only the empty text does.
GAPS = ("", "?", "na", "n/a", "nan", "nat", "none", "null")

#: Rows that share a name, in the mean; with fewer, more than ``FEWEST_NAMES`` names are hardly categories.
FEWEST_ROWS = 10

#: Relative to the mean, a standard deviation that may come of rounding alone.
ROUNDING = 10 * np.finfo(np.float64).eps

#: Larger numbers overflow where a network works with them.
LARGEST = float(np.finfo(np.float32).max)

SECONDS_OF_A_DAY = 86_400


@dataclass(frozen=True)
class Typed:
    """A column of M rows as what it holds.

    Attributes:
        kind: What it holds.
        values: (M,) numbers or days, NaN where there is none; or texts, empty where there is none.
        wrong: (M,) where neither a value nor a gap stands.
        gaps: (M,) where there is no value.
        word: A word, or a number of another form, that makes names of what are numbers else.
    """

    kind: Kind
    values: NDArray[Any]
    wrong: NDArray[np.bool_]
    gaps: NDArray[np.bool_]
    word: str | None = None

    def categories(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return the different names (T,), and which of them each row holds (M,)."""
        import pandas as pd

        place, names = pd.factorize(self.values)
        return names, place


def typed(frame: pd.DataFrame, name: str, kind: Kind | None = None, categorical: bool = False) -> Typed:
    """Return a column as what it holds, but for gaps and a few bad rows; or as a kind that is known.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": ["40", "?"], "day": ["1970-01-03", ""], "form": ["old", "new"]})
    >>> [(one.kind, one.values.tolist()) for one in (typed(frame, name) for name in frame)]
    [('numbers', [40.0, nan]), ('dates', [2.0, nan]), ('names', ['old', 'new'])]
    """
    import pandas as pd

    held, word = frame[name], None
    boolean = held.dtype.kind in "bO" and pd.api.types.infer_dtype(held, skipna=True) == "boolean"
    if kind is None and (categorical or boolean or isinstance(held.dtype, pd.CategoricalDtype)):
        kind = "names"
    for other, of in (("numbers", _numbers), ("dates", _days)):
        if kind not in (None, other):
            continue
        values = of(held)
        none = np.isnan(values)
        gaps = none.copy()
        gaps[none] = [(text or "").lower() in GAPS for text in texts_of(frame[none], name)]
        as_other = Typed(other, values, ~gaps & ~(np.abs(values) <= LARGEST), gaps)  # type: ignore[arg-type]
        if kind == other:
            return as_other
        if not none.all() and (~none).sum() >= SHARE_OF_NUMBERS * (~gaps).sum():
            words = none & ~gaps
            if not words.any() or frame[name].nunique() * FEWEST_ROWS > len(frame):
                return as_other
            word = texts_of(frame[words], name)[0]  # among few values they are categories, and so is it
            break
    texts = np.asarray([text or "" for text in texts_of(frame, name)], dtype=object)
    if kind is None and word is None:  # perhaps they are numbers with a decimal comma, or with separated thousands
        some = pd.Series(texts[texts != ""][:1000], dtype=object)
        if some.str.fullmatch(r"[-+]?\d[\d.,' \u00a0\u202f]*%?").mean() >= SHARE_OF_NUMBERS:
            word = some.iloc[0]
    return Typed("names", texts, np.zeros(len(texts), dtype=bool), texts == "", word)


def _numbers(values: pd.Series) -> NDArray[np.float64]:
    import pandas as pd

    if values.dtype.kind == "M":  # dates, of which pandas would make nanoseconds
        return np.full(len(values), np.nan)
    if values.dtype.kind == "m":
        return (values.dt.total_seconds() / SECONDS_OF_A_DAY).to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _days(values: pd.Series) -> NDArray[np.float64]:
    import pandas as pd

    if values.dtype.kind in "biufm":
        return np.full(len(values), np.nan)
    if values.dtype.kind != "M":
        written = values.astype(object).where(values.notna(), "").astype(str).str.strip()
        written = written.where(written.str.match(r"\d{4}-\d\d"))  # pandas would take "now" for a date as well
        values = pd.to_datetime(written, format="ISO8601", errors="coerce", utc=True)
    if values.dt.tz is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    seconds = values.to_numpy(dtype="datetime64[s]")
    return np.asarray((seconds - np.datetime64(0, "s")) / np.timedelta64(1, "D"), dtype=np.float64)


class Columns:
    """Reads columns of numbers and dates, standardised by the training rows, and of names, each a 0 or 1 of its own.

    Attributes:
        learnt: What the training rows showed of each column.
    """

    def __init__(self, names: Sequence[str] = ("*",), others: Sequence[str] = (), categorical: Sequence[str] = ()):
        """Choose the columns, and those whose numbers stand for names.

        * stands for all but ``others`` and those of too many different texts.

        Raises:
            InputError: A column whose numbers stand for names is none of the features.
        """
        self.names, self.others, self.categorical = list(names), others, categorical
        for name in categorical:
            if name in others or (self.names != ["*"] and name not in names):
                raise InputError(f"--data.categorical {name} is none of the features: add it to --data.features")
        self.learnt: list[Column] = []
        self._read: dict[str, Typed] = {}
        self._told: set[str] = set()

    def check(self, frame: pd.DataFrame, problems: Problems) -> list[str]:
        """Read all rows, note those with no number or date in a column of such, and return what to tell a user.

        Raises:
            InputError: If a column is missing, or none is left.
        """
        every = self.names == ["*"]
        names = [name for name in frame.columns if name not in self.others] if every else self.names
        check_columns(frame, problems.place, [*names, *self.categorical])
        self._read = {name: typed(frame, name, categorical=name in self.categorical) for name in names}
        different = {name: one.categories()[0] for name, one in self._read.items() if one.kind == "names"}
        few = {name: of for name, of in different.items() if every and hardly_categories(len(of), len(frame))}
        self._read = {name: one for name, one in self._read.items() if name not in few}
        if not self._read:
            raise InputError(f"{problems.place} has no column left for features: name them by --data.features")
        _note_wrong(self._read, frame, problems)
        kept, rows, most = self._read.items(), len(frame), told_apart(len(frame))
        notes = {
            "columns that are no features, since few rows share a text": [
                f"{name!r} ({len(of):,} different texts, such as {of[0]!r})" for name, of in few.items()
            ],
            "columns that look like numbers, but are read as names; write plain numbers, such as 0.126 or 1037.5": [
                f"{name!r} (for {one.word!r})" for name, one in kept if one.word
            ],
            f"columns of more names than {most}, of which the commonest {most} are told apart": [
                f"{name!r} ({len(different[name]):,})" for name in self._read if len(different.get(name, ())) > most
            ],
            "columns with missing values, which count as the mean of training and have an input of their own": [
                f"{name!r} in {one.gaps.sum():,} of {rows:,} rows" for name, one in kept if one.gaps.any()
            ],
        }
        return [f"{what}: {format_faults(names)}" for what, names in notes.items() if names]

    def fit(self, train: NDArray[np.int64]) -> tuple[ArrayStore, dict[str, Any]]:
        """Find out mean and deviation, or the categories, of each column over the training rows, and transform all.

        Raises:
            InputError: If a column of names has too many different ones.
        """
        self.learnt = [_learn(name, one, train) for name, one in self._read.items()]
        read, self._read = self._read, {}
        return ArrayStore(to_vectors(read, self.learnt)), self._looks(read)

    def transform(self, rows: Rows, problems: Problems) -> tuple[ArrayStore, dict[str, Any]]:
        """Return new rows as vectors (n, F), and the columns as they were written; bad rows are noted.

        Raises:
            InputError: If a column is missing, or rows are numbers without names and the columns more than numbers.
        """
        names = [column["name"] for column in self.learnt]
        frame = rows.frame if rows.frame is not None else rows.as_frame(names)
        if rows.frame is None and any("categories" in one or one.get("date") or one.get("gaps") for one in self.learnt):
            what = "some features are names or dates, or may be missing"
            raise InputError(f"{what}: give the new rows as a data frame or a file")
        check_columns(frame, problems.place, names)
        read = {one["name"]: typed(frame, one["name"], _kind_of(one)) for one in self.learnt}
        missing_before = {one["name"] for one in self.learnt if one.get("gaps")}
        _note_wrong(read, frame, problems, names_with_gaps=missing_before)
        self._warn_of_unknown_names(read)
        return ArrayStore(to_vectors(read, self.learnt)), self._looks(read)

    def _looks(self, read: Mapping[str, Typed]) -> dict[str, Any]:
        """Return the columns for views: floats, NaN where there is none, or texts; no attribute, though a feature."""
        plain = {name: one.values if one.kind == "names" else np.where(one.wrong, np.nan, one.values)
                 for name, one in read.items() if name not in self.others}  # fmt: skip
        return {"columns": plain}

    def _warn_of_unknown_names(self, read: Mapping[str, Typed]) -> None:
        """Warn, once a column, of rows that hold none of the categories of training."""
        for column in self.learnt:
            name = column["name"]
            unknown: Sequence[str] = ()
            if "categories" in column:
                unknown = read[name].values[_category(read[name], column) < 0].tolist()
            if len(unknown) and name not in self._told:
                self._told.add(name)
                what = (
                    f"column {name!r} holds names that the model was not trained to tell apart, such as {unknown[0]!r}"
                )
                rows = "1 row" if len(unknown) == 1 else f"{len(unknown):,} rows"
                warnings.warn(f"{what}, in {rows}: they count as none of the names", InputWarning, 3)


def _learn(name: str, column: Typed, train: NDArray[np.int64]) -> Column:
    if column.kind == "names":
        names, place = column.categories()
        count = np.bincount(place[train], minlength=len(names))
        if hardly_categories(len(names), len(place)):
            raise InputError(
                f"column {name!r} holds {len(names):,} different texts in {len(place):,} rows, such as {names[0]!r}, "
                "which are hardly categories: leave it out of the features, write numbers as 1037.5, or give it as "
                "--data.text"
            )
        commonest = np.lexsort((names.astype(str), -count))[: min(int((count > 0).sum()), told_apart(len(place)))]
        return {"name": name, "categories": sorted(names[commonest].tolist())}
    values = column.values[train]
    present = values[np.isfinite(values)]
    mean, std = mean_and_std(present) if len(present) else (0.0, 1.0)
    learnt: Column = {"name": name} | ({"date": True} if column.kind == "dates" else {})
    learnt |= {"mean": float(mean), "std": float(std)}
    return learnt | ({"gaps": True} if len(present) < len(values) else {})


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


def to_vectors(read: Mapping[str, Typed], learnt: Sequence[Column]) -> Tensor:
    """Return rows as vectors (M, F) float32: numbers standardised, categories as one number each, 0 or 1.

    Where training rows had gaps, a gap is the mean, 0, and 1 in a number of its own. A category that no training row
    has is all zeros, and what is no number is 0.
    """
    parts: list[NDArray[np.float32]] = []
    for column in learnt:
        one = read[column["name"]]
        if "categories" in column:
            flags = np.zeros((len(one.values), len(column["categories"])), dtype=np.float32)
            number = _category(one, column)
            known = np.flatnonzero(number >= 0)
            flags[known, number[known]] = 1
            parts.append(flags)
            continue
        missing = one.gaps | one.wrong
        with np.errstate(invalid="ignore"):
            numbers = np.where(missing, 0, (one.values - column["mean"]) / column["std"])
        parts.append(np.stack([numbers, missing] if column.get("gaps") else [numbers], 1).astype(np.float32))
    return torch.from_numpy(np.concatenate(parts, axis=1))


def _category(one: Typed, column: Column) -> NDArray[np.intp]:
    """Return the place of each row's name among the categories (M,), -1 where it is none of them."""
    names, place = one.categories()
    number = {name: i for i, name in enumerate(column["categories"])}
    return np.array([number.get(name, -1) for name in names.tolist()], dtype=np.intp)[place]


def _kind_of(column: Column) -> Kind:
    return "names" if "categories" in column else "dates" if column.get("date") else "numbers"


def _note_wrong(
    read: Mapping[str, Typed], frame: pd.DataFrame, problems: Problems, names_with_gaps: Collection[str] | None = None
) -> None:
    """Note each row that holds no number or no date; and nothing at all, in columns that had no gap in training."""
    for name, one in read.items():
        if one.kind == "names":
            continue
        wrong = one.wrong if names_with_gaps is None or name in names_with_gaps else one.wrong | one.gaps
        rows = np.flatnonzero(wrong)
        what = "date, such as 2024-05-31" if one.kind == "dates" else "finite number"
        for row, text in zip(rows.tolist(), texts_of(frame.iloc[rows], name), strict=True):
            large = np.isfinite(one.values[row])
            why = f"holds {text!r}, which is {f'more than {LARGEST:.1e}' if large else f'no {what}'}"
            fix = f"give {name!r} in another unit, or leave it out of the features" if large else ""
            problems.add(row, why if text else "is empty", name, fix)
