"""Columns of numbers and names as feature vectors, brought to one scale by what the training rows show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.problems import Problems
from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

#: A column counts as numbers if so large a share of its values are numbers.
SHARE_OF_NUMBERS = 0.9

#: Most different names of a column; more are hardly categories.
MOST_CATEGORIES = 100

#: What a column was found to be: its name, and mean and std of its numbers, or its categories.
Column = dict[str, Any]


class Columns:
    """The columns of a frame as numbers and as texts, each converted once."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self._numbers: dict[str, NDArray[np.float64]] = {}
        self._texts: dict[str, NDArray[np.object_]] = {}

    def __len__(self) -> int:
        return len(self.frame)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as numbers (M,), NaN where there is none."""
        if name not in self._numbers:
            self._numbers[name] = _numbers(self.frame[name])
        return self._numbers[name]

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return a column as texts (M,) without blanks around them, empty where there is nothing."""
        if name not in self._texts:
            self._texts[name] = _texts(self.frame[name])
        return self._texts[name]

    def is_numeric(self, name: str) -> bool:
        """Return whether a column holds numbers, but for a few rows at most."""
        finite = int(np.isfinite(self.numbers(name)).sum())
        return finite == len(self) or finite >= SHARE_OF_NUMBERS * int((self.texts(name) != "").sum())


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
    if columns.is_numeric(name):
        numbers = columns.numbers(name)[train]
        deviation = float(numbers.std())
        return {"name": name, "mean": float(numbers.mean()), "std": deviation if deviation > 0 else 1.0}
    categories = sorted(set(columns.texts(name)[train]) - {""})
    if len(categories) > MOST_CATEGORIES:
        raise InputError(
            f"column {name!r} holds {len(categories):,} different texts, more than {MOST_CATEGORIES}: leave it out of "
            "the features, or give it as --data.text"
        )
    return {"name": name, "categories": categories}


def note_bad_features(columns: Columns, names: Sequence[str], problems: Problems) -> None:
    """Note every row with a gap or, in a column of numbers, with what is no finite number."""
    for name in names:
        numeric = columns.is_numeric(name)
        bad = ~np.isfinite(columns.numbers(name)) if numeric else np.asarray(columns.texts(name) == "")
        _note(problems, name, columns.frame[name], bad)


def to_vectors(columns: Columns, learnt: Sequence[Column], problems: Problems | None = None) -> Tensor:
    """Return the rows as vectors (M, F) float32: numbers standardised, categories as one number each, 0 or 1.

    A category that no training row has is all zeros. What is no number is noted in ``problems`` and 0.
    """
    vectors = np.empty((len(columns), sum(len(c.get("categories", "1")) for c in learnt)), dtype=np.float32)
    place = 0
    for column in learnt:
        name = str(column["name"])
        if "mean" in column:
            numbers = (columns.numbers(name) - column["mean"]) / column["std"]
            bad = ~np.isfinite(numbers)
            if problems is not None:
                _note(problems, name, columns.frame[name], bad)
            vectors[:, place] = np.where(bad, 0, numbers)
            place += 1
        else:
            names = np.asarray(column["categories"], dtype=object)
            vectors[:, place : place + len(names)] = columns.texts(name)[:, None] == names
            place += len(names)
    return torch.from_numpy(vectors)


def plain_columns(columns: Columns, learnt: Sequence[Column]) -> dict[str, NDArray[Any]]:
    """Return the columns as they were before they became vectors, name -> (M,).

    Numbers are floats, NaN where there is none or an infinite one; names are texts, empty where there is none.
    """
    plain: dict[str, NDArray[Any]] = {}
    for column in learnt:
        name = str(column["name"])
        values = columns.texts(name) if "categories" in column else columns.numbers(name)
        infinite = np.isinf(values) if values.dtype.kind == "f" else np.zeros(1, dtype=bool)
        plain[name] = np.where(infinite, np.nan, values) if infinite.any() else values
    return plain


def _note(problems: Problems, name: str, values: pd.Series, bad: NDArray[np.bool_]) -> None:
    for row in np.flatnonzero(bad).tolist():
        text = _texts(values.iloc[[row]])[0]
        what = f"holds {text!r}, which is no finite number" if text else "is empty"
        problems.add(row, f"column {name!r} {what}")


def _numbers(values: pd.Series) -> NDArray[np.float64]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.dtype.kind not in "biuf":
        try:  # reads a column of nothing but numbers thirty times as fast as pandas does
            return np.asarray(pc.cast(pc.utf8_trim_whitespace(pa.array(values, pa.string())), pa.float64()), np.float64)
        except (pa.ArrowException, TypeError):
            pass
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _texts(values: pd.Series) -> NDArray[np.object_]:
    """Return a column as texts without blanks around them, empty where there is nothing."""
    texts = values.astype(object).where(values.notna(), "").astype(str).str.strip()
    return texts.to_numpy(dtype=object)
