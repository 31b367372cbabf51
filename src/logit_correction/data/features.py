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


def learn_columns(frame: pd.DataFrame, names: Sequence[str], train: Tensor) -> list[Column]:
    """Find out what each column holds, and its mean and standard deviation or its categories over the training rows.

    Args:
        frame: All rows.
        names: The columns.
        train: (n,) long, the training rows.

    Raises:
        InputError: If a column of names has too many different ones.
    """
    return [_learn(name, frame[name], train.numpy()) for name in names]


def _learn(name: str, values: pd.Series, train: NDArray[np.int64]) -> Column:
    if is_numeric(values):
        numbers = _numbers(values)[train]
        deviation = float(numbers.std())
        return {"name": name, "mean": float(numbers.mean()), "std": deviation if deviation > 0 else 1.0}
    categories = sorted(set(_texts(values)[train]) - {""})
    if len(categories) > MOST_CATEGORIES:
        raise InputError(
            f"column {name!r} holds {len(categories):,} different texts, more than {MOST_CATEGORIES}: leave it out of "
            "the features, or give it as --data.text"
        )
    return {"name": name, "categories": categories}


def note_bad_features(frame: pd.DataFrame, names: Sequence[str], problems: Problems) -> None:
    """Note every row with a gap or, in a column of numbers, with what is no finite number."""
    for name in names:
        bad = np.asarray(_texts(frame[name]) == "")
        if is_numeric(frame[name]):
            bad |= ~np.isfinite(_numbers(frame[name]))
        _note(problems, name, frame[name], bad)


def to_vectors(frame: pd.DataFrame, columns: Sequence[Column], problems: Problems | None = None) -> Tensor:
    """Return the rows as vectors (M, F) float32: numbers standardised, categories as one number each, 0 or 1.

    A category that no training row has is all zeros. What is no number is noted in ``problems`` and 0.
    """
    parts, plain = [], plain_columns(frame, columns)
    for column in columns:
        name = str(column["name"])
        if "mean" in column:
            numbers = (plain[name] - column["mean"]) / column["std"]
            bad = ~np.isfinite(numbers)
            if problems is not None:
                _note(problems, name, frame[name], bad)
            parts.append(np.where(bad, 0, numbers)[:, None])
        else:
            parts.append(plain[name][:, None] == np.asarray(column["categories"], dtype=object))
    return torch.from_numpy(np.concatenate(parts, axis=1, dtype=np.float32))


def plain_columns(frame: pd.DataFrame, columns: Sequence[Column]) -> dict[str, NDArray[Any]]:
    """Return the columns as they were before they became vectors, name -> (M,).

    Numbers are floats, NaN where there is none or an infinite one; names are texts, empty where there is none.
    """
    names = [(str(column["name"]), "categories" in column) for column in columns]
    plain = {name: _texts(frame[name]) if texts else _numbers(frame[name]) for name, texts in names}
    return {name: np.where(np.isinf(v), np.nan, v) if v.dtype.kind == "f" else v for name, v in plain.items()}


def _note(problems: Problems, name: str, values: pd.Series, bad: NDArray[np.bool_]) -> None:
    for row in np.flatnonzero(bad).tolist():
        text = _texts(values.iloc[[row]])[0]
        what = f"holds {text!r}, which is no finite number" if text else "is empty"
        problems.add(row, f"column {name!r} {what}")


def is_numeric(values: pd.Series) -> bool:
    """Return whether a column holds numbers, but for a few rows at most."""
    given = int((_texts(values) != "").sum())
    return int(np.isfinite(_numbers(values)).sum()) >= SHARE_OF_NUMBERS * given


def _numbers(values: pd.Series) -> NDArray[np.float64]:
    import pandas as pd

    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _texts(values: pd.Series) -> NDArray[np.object_]:
    """Return a column as texts without blanks around them, empty where there is nothing."""
    texts = values.astype(object).where(values.notna(), "").astype(str).str.strip()
    return texts.to_numpy(dtype=object)
