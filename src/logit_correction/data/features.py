"""Columns of numbers, dates and names as vectors for a network, by what the training rows show."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from logit_correction.data.frames import check_columns, texts_of
from logit_correction.data.rows import format_faults
from logit_correction.data.stores import ArrayStore, Learnt, Reader
from logit_correction.errors import InputError, InputWarning
from logit_correction.views.tables import FEWEST_NAMES, most_names

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor

    from logit_correction.data.reader import Rows
    from logit_correction.data.rows import Problems

#: What a column was found to be: its name, its kind, and its categories, or mean and std of its numbers; ``gaps`` if
#: rows of any split had no value: true if training rows did. Among categories the empty text stands for no value.
Column = dict[str, Any]

#: What a column holds. A date is the number of days since 1970.
Kind = Literal["numbers", "dates", "names"]

#: A column counts as numbers, or as dates, if so large a share of its values are.
SHARE_OF_NUMBERS = 0.9

#: What stands for no value in a column of numbers or dates, in small letters; among names only the empty text does.
GAPS = ("", "?", "na", "n/a", "nan", "nat", "none", "null")

#: How people write dates and numbers that are read as names, and what to tell of such a column.
MISREAD = {
    r"(\d{4}[./]\d\d?[./]\d\d?|\d\d?([./-])\d\d?\2\d{4}|\d\d?/\d\d?/\d\d)(\s|$)": "looks like a date: write 2024-12-31",
    r"[+-]?\d[\d.,]*,\d+$": "has a comma: write numbers as 3.5",
}

#: Rows that share a name, in the mean; with fewer, more than ``FEWEST_NAMES`` names are hardly categories.
FEWEST_ROWS = 10

#: Relative to the mean, a standard deviation that may come of rounding alone.
ROUNDING = 10 * np.finfo(np.float64).eps

#: Larger numbers overflow where a network works with them.
LARGEST = float(np.finfo(np.float32).max)


def kind_of(frame: pd.DataFrame, name: str) -> tuple[Kind, str]:
    """Return what a column holds, but for gaps and a few bad rows, and why it is names if it looks like others."""
    import pandas as pd

    held = frame[name]
    if isinstance(held.dtype, pd.CategoricalDtype) or pd.api.types.infer_dtype(held, skipna=True) == "boolean":
        return "names", ""
    kinds: tuple[Kind, ...] = ("numbers", "dates")
    for kind in kinds:
        none = np.isnan(_as_floats(held, kind))
        if not none.all():
            words = [text for text in texts_of(frame[none], name) if text and text.lower() not in GAPS]
            count = len(held) - none.sum()
            if count >= SHARE_OF_NUMBERS * (count + len(words)):
                # among few values a word is a category, and so are they
                few = bool(words) and held.nunique() * FEWEST_ROWS <= len(held)
                return ("names", f"for {words[0]!r}") if few else (kind, "")
    words = [text for text in texts_of(frame, name) if text and text.lower() not in GAPS]
    for pattern, why in MISREAD.items():
        if words and sum(re.match(pattern, text) is not None for text in words) >= SHARE_OF_NUMBERS * len(words):
            return "names", f"{words[0]!r} {why}"
    return "names", ""


def read_column(
    frame: pd.DataFrame, name: str, kind: Kind, problems: Problems, may_miss: bool = True
) -> NDArray[np.float64] | NDArray[np.object_]:
    """Return a column as numbers or days, NaN where there is none, or as texts; rows that hold neither are noted."""
    if kind == "names":
        return np.asarray([text or "" for text in texts_of(frame, name)], dtype=object)
    values = _as_floats(frame[name], kind)
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    for row, text in zip(bad.tolist(), texts_of(frame.iloc[bad], name), strict=True):
        if not may_miss or (text or "").lower() not in GAPS:
            why = "is no finite number" if kind == "numbers" else "is no date, such as 2024-05-31"
            if np.isfinite(values[row]):
                why = f"is more than {LARGEST:.1e} (give it in another unit, or leave it out of the features)"
            problems.add(row, f"column {name!r} " + (f"holds {text!r}, which {why}" if text else "is empty"))
    return np.where(np.abs(values) <= LARGEST, values, np.nan)


def _as_floats(values: pd.Series, kind: Kind) -> NDArray[np.float64]:
    """Return numbers, or days since 1970, NaN where there is none."""
    import pandas as pd

    if values.dtype.kind in ("M" if kind == "numbers" else "biufm"):
        return np.full(len(values), np.nan)
    if kind == "numbers":
        values = values.dt.total_seconds() if values.dtype.kind == "m" else pd.to_numeric(values, errors="coerce")
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if values.dtype.kind != "M":
        written = values.astype(object).where(values.notna(), "").map(str).str.strip()
        written = written.where(written.str.match(r"\d{4}-\d\d"))  # pandas would take "now" for a date as well
        values = pd.to_datetime(written, format="ISO8601", errors="coerce", utc=True)
    if values.dt.tz is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    seconds = values.to_numpy(dtype="datetime64[s]")
    return np.asarray((seconds - np.datetime64(0, "s")) / np.timedelta64(1, "D"), dtype=np.float64)


class Columns(Reader):
    """Reads columns of numbers and dates, standardised by the training rows, and of names, each a 0 or 1 of its own.

    Attributes:
        learnt: What the training rows showed of each column.
    """

    def __init__(self, names: Sequence[str] = ("*",), others: Sequence[str] = (), categorical: Sequence[str] = ()):
        """Choose the columns, and those whose numbers stand for names; * are all but ``others`` and free texts."""
        self.names, self.others, self.categorical = list(names), others, categorical
        for name in categorical:
            if name in others or (self.names != ["*"] and name not in names):
                raise InputError(f"--data.categorical {name} is none of the features: add it to --data.features")
        self.learnt: list[Column] = []
        self._told: set[str] = set()

    def check(
        self, rows: Rows, problems: Problems
    ) -> tuple[dict[str, tuple[Kind, NDArray[Any]]], Sequence[str], list[str]]:
        """Return kind and values of each column; rows with no number or date in a column of such are noted."""
        assert rows.frame is not None
        every, frame, read = self.names == ["*"], rows.frame, {}
        names = [name for name in frame.columns if name not in self.others] if every else self.names
        check_columns(frame, problems.place, [*names, *self.categorical])
        left_out, as_names, gaps = [], [], []
        for name in names:
            kind, why = kind_of(frame, name)
            if name in self.categorical:
                kind, why = "names", ""
            values = read_column(frame, name, kind, problems)
            different = len(set(values.tolist())) if kind == "names" else 0
            if different > FEWEST_NAMES and different * FEWEST_ROWS > len(rows):
                if not every:
                    what = f"column {name!r} holds {different:,} different texts in {len(rows):,} rows"
                    what += why and f" ({why})"
                    raise InputError(f"{what}: leave it out of the features, or give it as --data.text")
                left_out.append(f"{name!r} ({different:,} different texts, {why or f'such as {values[0][:40]!r}'})")
                continue
            read[name] = kind, values
            if why:
                as_names.append(f"{name!r} ({why})")
            if missing := int((values == "").sum() if kind == "names" else np.isnan(values).sum()):
                gaps.append(f"{name!r} in {missing:,} of {len(rows):,} rows")
        if not read:
            texts = f", or the column of texts by --data.text: {format_faults(left_out)}" if left_out else ""
            raise InputError(f"{problems.place} has no column left for features: name them by --data.features{texts}")
        told = {
            "columns left out of the features, since few rows share a text (--data.text reads texts)": left_out,
            "columns that look like numbers or dates, but are read as names": as_names,
            "columns with missing values, which count as the mean of training": gaps,
        }
        return read, rows.names, [f"{what}: {format_faults(found)}" for what, found in told.items() if found]

    @property
    def preparation(self) -> dict[str, Any]:
        return {"columns": self.learnt}

    def prepare(self, preparation: Mapping[str, Any]) -> None:
        self.learnt = list(preparation.get("columns", []))

    def learn(self, read: Mapping[str, tuple[Kind, NDArray[Any]]], train: Tensor, problems: Problems) -> Learnt:
        """Find out mean and deviation, or the categories, of each column over the training rows, and transform all."""
        good, rows = problems.good.numpy(), train.numpy()
        self.learnt = [_learn(name, kind, values, rows, good) for name, (kind, values) in read.items()]
        store, forms = self._inputs({name: values for name, (_, values) in read.items()})
        return store, forms, {"features": f"{store.input_shape[0]}, standardised by the training rows"}

    def transform(self, rows: Rows, problems: Problems) -> tuple[ArrayStore, dict[str, Any]]:
        """Return new rows as vectors (n, F), and the columns as they were written; bad rows are noted."""
        import pandas as pd

        names, frame = [column["name"] for column in self.learnt], rows.frame
        if frame is None:
            if rows.values is None or rows.values.shape[1:] != (len(names),):
                raise InputError(f"inputs must be a table with the columns {', '.join(names)}, or a number for each")
            frame = pd.DataFrame(rows.values, columns=names)
        check_columns(frame, problems.place, names)
        read: dict[str, NDArray[Any]] = {}
        for column in self.learnt:
            name, kind = column["name"], column["kind"]
            read[name] = values = read_column(frame, name, kind, problems, may_miss="gaps" in column)
            unknown = [] if kind != "names" else sorted(set(values.tolist()).difference(column["categories"]))
            if unknown and name not in self._told:
                self._told.add(name)
                what = f"column {name!r} holds names that the model was not trained to tell apart, such as"
                warnings.warn(f"{what} {unknown[0]!r}: they count as none of the names", InputWarning, 3)
        return self._inputs(read)

    def _inputs(self, read: Mapping[str, NDArray[Any]]) -> tuple[ArrayStore, dict[str, Any]]:
        """Return vectors, and the columns for views; no attribute, though it be a feature."""
        seen = {name: values for name, values in read.items() if name not in self.others}
        return ArrayStore(to_vectors(read, self.learnt)), {"columns": seen}


def _learn(name: str, kind: Kind, values: NDArray[Any], train: NDArray[np.int64], good: NDArray[np.bool_]) -> Column:
    if kind == "names":
        import pandas as pd

        count = pd.Series(values[train]).value_counts().to_dict()
        commonest = sorted(count, key=lambda text: (-count[text], text))[: most_names(len(values))]
        return {"name": name, "kind": kind, "categories": sorted(commonest)}
    present = values[train][np.isfinite(values[train])]
    mean, std = mean_and_std(present) if len(present) else (0.0, 1.0)
    learnt: Column = {"name": name, "kind": kind, "mean": float(mean), "std": float(std)}
    return learnt | ({"gaps": len(present) < len(train)} if np.isnan(values[good]).any() else {})


def mean_and_std(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of numbers (n, ...) over the n; a deviation is 1 where numbers are all equal.

    Rounding alone makes numbers deviate from their mean, so that what is no larger than it counts as none.
    """
    mean, std = values.mean(axis=0), values.std(axis=0)
    varies = std > ROUNDING * np.abs(mean)  # false where either is no number
    return mean, np.where(varies & (values.max(axis=0) > values.min(axis=0)), std, 1.0)


def to_vectors(read: Mapping[str, NDArray[Any]], learnt: Sequence[Column]) -> Tensor:
    """Return rows as vectors (M, F) float32: numbers standardised, categories as one number each, 0 or 1.

    A gap is the mean, 0, and where training rows had gaps also 1 in a number of its own. A category that no training
    row has is all zeros.
    """
    import pandas as pd

    parts: list[NDArray[np.float32]] = []
    for column in learnt:
        values = read[column["name"]]
        if "categories" in column:
            code = pd.Index(column["categories"], dtype=object).get_indexer(pd.Index(values))
            parts.append((code[:, None] == np.arange(len(column["categories"]))).astype(np.float32))
            continue
        missing = np.isnan(values)
        numbers = np.where(missing, 0, (values - column["mean"]) / column["std"])
        parts.append(np.stack([numbers, missing] if column.get("gaps") else [numbers], 1).astype(np.float32))
    return torch.from_numpy(np.concatenate(parts, axis=1))
