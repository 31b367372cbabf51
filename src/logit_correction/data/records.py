"""From the rows that a user gives to a ``DataTable``: names to numbers, splits, and everything that may be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.augment import Augmentation
from logit_correction.data.problems import OnBadRows, Problems
from logit_correction.data.row_names import row_names
from logit_correction.data.splits import Splitting, make_splits, split_name
from logit_correction.data.stores import InputStore
from logit_correction.data.table import UNKNOWN, DataTable
from logit_correction.data.table_notes import alike_names, partly_known, thin_splits
from logit_correction.data.tabular_io import check_columns, texts_of
from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: Most values of an attribute; a column of more is hardly one.
MOST_ATTRIBUTES = 1000


@dataclass
class Records:
    """Rows as they were found, with everything still a text.

    Attributes:
        problems: What is wrong with rows; it knows where they are from, and what messages call each.
        label: The label of each row, None where it is missing.
        split: The split of each row as it is written, None where none is given at all.
        attributes: For each attribute column the values, None where unknown.
        keys: Rows with the same key are the same row; None does not look for such.
        row_names: What a reader of the report is shown of each row.
        metadata: What a reader of a result must know.
        notes: What a user should be told.
    """

    problems: Problems
    label: list[str | None]
    split: list[str | None] | None = None
    attributes: dict[str, list[str | None]] = field(default_factory=dict)
    keys: Iterable[Hashable] | None = None
    row_names: Sequence[str] | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def records_of_frame(
    frame: pd.DataFrame, place: str, label: str, split: str | None, attributes: Sequence[str]
) -> Records:
    """Take label, split and attributes out of the table of a file.

    Raises:
        InputError: If a column is missing.
    """
    check_columns(frame, place, [label, *([split] if split else []), *attributes])
    return Records(
        problems=Problems(place, row_names(frame.index)),
        label=texts_of(frame, label),
        split=texts_of(frame, split) if split else None,
        attributes={name: texts_of(frame, name) for name in attributes},
    )


def build_table(
    raw: Records,
    inputs: Callable[[], InputStore],
    splitting: Splitting,
    on_bad_rows: OnBadRows,
    augment: Augmentation | None = None,
) -> DataTable:
    """Make the table of rows that a user gave.

    Everything that is wrong with single rows is gathered before it is told. Rows that are left out stay in the table
    and belong to no split.

    Args:
        raw: The rows, with the problems that the source has found already; more are added.
        inputs: Makes the store of all rows, bad ones too, and may add to the problems; called when all else is checked.
        splitting: How to draw the splits that are not given.
        on_bad_rows: error or skip.
        augment: For the training images.

    Raises:
        InputError: If rows are bad and not to be skipped, or labels or splits cannot be trained on.
    """
    given = None if raw.split is None else [None if value is None else split_name(value) for value in raw.split]
    problems = raw.problems
    _check_rows(raw, given)
    if on_bad_rows == "skip" or not len(problems):  # else the rows are told first, together with unreadable files
        problems.raise_if_any(on_bad_rows)  # where none is left
        _labels_and_splits(raw, given, splitting)
    store = inputs()
    notes = problems.raise_if_any(on_bad_rows)
    label, label_names, split, how = _labels_and_splits(raw, given, splitting)
    attribute, attribute_names = combined(raw.attributes, problems.good)
    if len(attribute_names) > MOST_ATTRIBUTES:
        raise InputError(
            f"{problems.place}: attribute {', '.join(raw.attributes)} has {len(attribute_names):,} different values, "
            f"more than {MOST_ATTRIBUTES:,}: name columns of few values"
        )
    return DataTable(
        inputs=store,
        label=label.clamp(min=0),
        attribute=attribute,
        split=split,
        label_names=label_names,
        attribute_names=attribute_names,
        metadata=raw.metadata | {"split": how},
        notes=(*notes, *raw.notes, *thin_splits(label, split, label_names), *alike_names("labels", label_names)),
        attribute_notes=(*partly_known(attribute, split), *alike_names("values of the attribute", attribute_names)),
        augment=augment,
        row_names=raw.row_names,
    )


def coded(values: Sequence[str | None], good: Tensor) -> tuple[Tensor, list[str]]:
    """Number the values of good rows, -1 where a row is bad or has none; numbers sort as numbers, names as texts.

    >>> coded(["10", "9", None, "10"], torch.ones(4, dtype=torch.bool))
    (tensor([ 1,  0, -1,  1]), ['9', '10'])
    """
    kept = [value if usable else None for value, usable in zip(values, good.tolist(), strict=True)]
    found = {value for value in kept if value is not None}
    names = sorted(found, key=(lambda name: (float(name), name)) if all(map(_is_number, found)) else None)
    number = {name: i for i, name in enumerate(names)}
    return torch.tensor([-1 if value is None else number[value] for value in kept], dtype=torch.long), names


def combined(attributes: dict[str, list[str | None]], good: Tensor) -> tuple[Tensor, list[str]]:
    """Return one attribute for each row: the only column's value, or the combination of several columns' values.

    A row of which one value is unknown is unknown; combinations that no row has are left out.

    >>> both = {"sex": ["f", "m", "f"], "age": ["old", "young", None]}
    >>> combined(both, torch.ones(3, dtype=torch.bool))
    (tensor([ 0,  1, -1]), ['sex=f, age=old', 'sex=m, age=young'])
    """
    if not attributes:
        return torch.full((len(good),), UNKNOWN, dtype=torch.long), []
    columns = [coded(values, good) for values in attributes.values()]
    if len(columns) == 1:
        return columns[0]
    stacked = torch.stack([number for number, _ in columns], dim=1)
    known = (stacked >= 0).all(1)
    found, place = stacked[known].unique(dim=0, return_inverse=True)
    attribute = torch.full((len(good),), UNKNOWN, dtype=torch.long)
    attribute[known] = place
    names = [
        ", ".join(f"{column}={values[i]}" for column, (_, values), i in zip(attributes, columns, row, strict=True))
        for row in found.tolist()
    ]
    return attribute, names


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _check_rows(raw: Records, given: list[str | None] | None) -> None:
    """Note labels and splits that are missing or wrong, repeated rows, and labels that training does not know."""
    problems = raw.problems
    first = {} if raw.keys is None else _repeated(raw.keys)
    for row, label in enumerate(raw.label):
        if label is None:
            problems.add(row, "has no label")
        if given is not None and raw.split is not None and given[row] is None:
            split = raw.split[row]
            problems.add(row, "has no split" if split is None else f"split {split!r} is none of train, valid, test")
        if row in first:
            problems.add(row, f"repeats {problems.rows[first[row]]}")
    if given is None:
        return
    good = problems.good.tolist()
    rows = [row for row, usable in enumerate(good) if usable]
    known = {raw.label[row] for row in rows if given[row] == "train"}
    for row in rows:
        if known and raw.label[row] not in known:
            problems.add(row, f"label {raw.label[row]!r} is in the {given[row]} split but not in train")


def _repeated(keys: Iterable[Hashable]) -> dict[int, int]:
    """Return the rows that repeat an earlier one -> the first such row.

    >>> _repeated(["a", "b", "a", "a"])
    {2: 0, 3: 0}
    """
    import pandas as pd

    values = keys if isinstance(keys, pd.Series) else np.fromiter(keys, dtype=object)
    number, _ = pd.factorize(values, use_na_sentinel=False)
    _, first = np.unique(number, return_index=True)
    rows = np.flatnonzero(first[number] != np.arange(len(number)))
    return dict(zip(rows.tolist(), first[number[rows]].tolist(), strict=True))


def _labels_and_splits(
    raw: Records, given: list[str | None] | None, splitting: Splitting
) -> tuple[Tensor, list[str], dict[str, Tensor], str]:
    place = raw.problems.place
    label, names = coded(raw.label, raw.problems.good)
    if len(names) < 2:
        found = f"the only label is {names[0]!r}" if names else "no row has a label"
        raise InputError(f"{place}: {found}: a classifier needs rows of at least two labels")
    try:
        split, how = make_splits(label, given, names, splitting)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    return label, names, split, how
