"""The columns of a table as numbers, dates and texts, however the table holds them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

import numpy as np

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
