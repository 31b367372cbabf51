"""Columns of numbers, dates and names as feature vectors, brought to one scale by what the training rows show."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.columns import Columns, Kind, texts_of_values
from logit_correction.data.problems import Problems
from logit_correction.errors import InputError, InputWarning
from logit_correction.views.columns import FEWEST_NAMES, told_apart

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
