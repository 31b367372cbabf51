"""The table of a user's rows: labels, splits and inputs, checked together so that all faults are reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.data.cells import GAPS
from logit_correction.data.column_kinds import MIN_ROWS_PER_NAME
from logit_correction.data.labels import (
    check_labels_distinct,
    combine_attributes,
    describe_equal_numbers,
    encode_labels,
    find_name_positions,
    is_finite_number,
)
from logit_correction.data.reader import PreparedInputs, Reader
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.splits import NEW, SPLIT_ALIASES, SPLITS, Splitting, make_splits
from logit_correction.data.stores import LARGE, ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.types import UNKNOWN_ATTRIBUTE

#: Numbers of splits, as published metadata have them; 0 and 1 alone may as well mean no and yes.
SPLIT_NUMBERS = {"0": "train", "1": "valid", "2": "test"}

#: More labels than these may be a continuous number, more attribute values an identifier.
MAX_LABELS = 20
MAX_ATTRIBUTES = 100

#: Units, such as patients, that each label must be in so that rows of one unit are kept in one fold.
MIN_UNITS_PER_LABEL = 3


def build_table(
    rows: Rows,
    reader: Reader,
    splitting: Splitting,
    *,
    source: str,
    split_by: str | None = None,
    units: Sequence[str | None] = (),
    attributes: Mapping[str, Sequence[str | None]] | None = None,
    **fields: Any,
) -> DataTable:
    """Make the table of rows that a user gave with their labels.

    Rows that are left out stay in the table and belong to no split.

    Args:
        rows: M rows with labels, and with splits if they have some.
        reader: Reads the rows; it is fitted to the training rows last, and may find further bad rows.
        splitting: How missing splits are drawn, and whether bad rows are left out.
        source: What the data are, for reports.
        split_by: A column whose values are drawn into one split each.
        units: Its value for each row, None where it is missing.
        attributes: Column -> its value for each row, None where it is unknown.
        **fields: Further fields of the table.

    Raises:
        InputError: If rows are bad and not to be left out, or the rest cannot be trained on.
    """
    assert rows.label is not None
    content, row_names, reader_notes = reader.validate(rows)
    errors = rows.errors
    errors.add_where([value is None for value in units], f"column {split_by!r} is empty")
    given_splits = _read_splits(rows, errors)
    is_new = torch.tensor([name == NEW for name in given_splits])
    _check_labels_of_rows(rows.label, given_splits, is_new, errors)
    if errors and splitting.on_bad_rows == "error":
        reader.check_readable(content, errors)
    errors.raise_if_any(splitting.on_bad_rows)
    label, label_names = encode_labels(rows.label, errors.is_good & ~is_new)
    _check_label_names(rows, label_names)
    unit = torch.from_numpy(pd.factorize(np.asarray(units, object))[0]) if split_by else None
    try:
        split, origin = make_splits(label, given_splits, label_names, splitting, unit, split_by)
    except InputError as error:
        raise InputError(f"{rows.place}: {error}") from error
    if bool(is_new.any()):  # their labels are not read where the other splits are drawn
        split[NEW] = (is_new & errors.is_good).nonzero().flatten()
        label[split[NEW]] = find_name_positions([rows.label[row] for row in split[NEW].tolist()], label_names)
    prepared = reader.fit_transform(content, split["train"], errors)
    left_out = errors.raise_if_any(splitting.on_bad_rows)
    split = {name: part[errors.is_good[part]] for name, part in split.items()}  # less the files that cannot be read
    has_units = unit is not None and _has_enough_units(unit[split["train"]], label[split["train"]])
    attribute, attribute_names = encode_labels(combine_attributes(attributes or {}, len(rows)), errors.is_good)
    if len(attribute_names) > MAX_ATTRIBUTES and len(attribute_names) * MIN_ROWS_PER_NAME > len(rows):
        raise InputError(
            f"{rows.place}: the attribute has {len(attribute_names):,} different values in {len(rows):,} rows: name "
            "columns of few values, or write numbers as bins, such as pandas.cut(ages, 5) makes"
        )
    return DataTable(
        inputs=prepared.inputs,
        label=torch.where(is_new, label, label.clamp(min=0)),
        attribute=attribute,
        split=split,
        label_names=label_names,
        attribute_names=attribute_names,
        metadata={"source": source, **prepared.metadata, "split": origin},
        notes=(
            *left_out,
            *rows.notes,
            *_describe_copies(prepared, split),
            *describe_equal_numbers(label_names),
            *_describe_few_units(split_by, has_units),
            *_describe_names_of_gaps("label", label_names),
            *_describe_names_of_gaps("attribute", attribute_names),
            *reader_notes,
            *prepared.notes,
        ),
        attribute_notes=_describe_unknown_attributes(attribute[split["test"]]),
        preparation=prepared.preparation,
        row_names=row_names,
        identifiers=reader.read_identifier_columns(rows),
        unit=unit if has_units else None,
        drawn=tuple(name for name in SPLITS[1:] if name not in given_splits),
        **prepared.forms,
        **fields,
    )


def _read_splits(rows: Rows, errors: RowErrors) -> list[str | None]:
    """Return the split of each row, and note rows that have none; None for all if no split is given."""
    if rows.split is None:
        return [None] * len(rows)
    names = [(name or "").strip().lower().removesuffix(".0") for name in rows.split]
    has_numbers = "2" in names
    aliases = SPLIT_ALIASES | (SPLIT_NUMBERS if has_numbers else {})
    splits = [aliases.get(name) for name in names]
    for row, name in enumerate(rows.split):
        if name is None:
            errors.add(row, "has no split")
        elif splits[row] is None:
            number = (
                ""
                if has_numbers or names[row] not in SPLIT_NUMBERS
                else " (of 0 and 1 alone it cannot be told what they mean: write the names)"
            )
            errors.add(row, f"split {name!r} is not one of train, valid, test and new{number}")
    return splits


def _check_labels_of_rows(
    labels: Sequence[str | None], splits: Sequence[str | None], is_new: Tensor, errors: RowErrors
) -> None:
    """Note rows without a label, and rows of other splits whose label no training row has."""
    errors.add_where(torch.tensor([label is None for label in labels]) & ~is_new, "has no label")
    good = errors.is_good.nonzero().flatten().tolist()
    trained = {labels[row] for row in good if splits[row] == "train"}
    for row in good:
        if trained and labels[row] is not None and labels[row] not in trained:
            errors.add(row, f"label {labels[row]!r} is in the {splits[row]} split but not in train")


def _check_label_names(rows: Rows, names: Sequence[str]) -> None:
    """Raise ``InputError`` if labels are numbers of something, fewer than two, or alike to people."""
    assert rows.label is not None
    rows_per_label = MIN_ROWS_PER_NAME if any("." in name for name in names) else 2
    if len(names) > MAX_LABELS and len(names) * rows_per_label > len(rows) and all(map(is_finite_number, names)):
        raise InputError(
            f"{rows.place}: the label looks continuous, {len(names):,} different numbers in {len(rows):,} rows: name "
            "a column of classes, or write it as bins, such as pandas.qcut(prices, 3) makes"
        )
    if len(names) < 2:
        raise InputError(f"{rows.place} has {len(names)} label: a classifier needs rows of at least two labels")
    check_labels_distinct(rows.label, names, rows.place)


def _has_enough_units(unit: Tensor, label: Tensor) -> bool:
    """Return whether each label of these rows is in so many units that every fold of an estimator can hold some."""
    pairs = torch.stack([label, unit], dim=1).unique(dim=0)
    return int(pairs[:, 0].bincount(minlength=int(label.max()) + 1).min()) >= MIN_UNITS_PER_LABEL


def _describe_few_units(split_by: str | None, has_units: bool) -> list[str]:
    """Return a note if units are too few for folds; none without units."""
    if split_by is None or has_units:
        return []
    return [
        f"a label is in fewer than {MIN_UNITS_PER_LABEL} different {split_by!r} of training: estimators take rows for "
        "independent, and may know these again"
    ]


def _describe_names_of_gaps(kind: str, names: Sequence[str]) -> list[str]:
    """Return a note on names that often stand for no value; none without such.

    Args:
        kind: What the names are of.
        names: Of labels or attributes.
    """
    return [
        f"{name!r} counts as a name of the {kind} like any other: leave the cell empty, if it means missing"
        for name in names
        if len(name) > 1 and name.lower() in GAPS
    ]


def _describe_copies(prepared: PreparedInputs, split: Mapping[str, Tensor]) -> list[str]:
    """Return a note on test rows that have the input of a training row; none without such, or if there are too many."""
    store = prepared.inputs
    if isinstance(store, ArrayStore) and store.values.nbytes <= LARGE:
        values: np.ndarray[Any, Any] = store.values.numpy()
        hashes = [hash(row.tobytes()) for row in values]
    else:
        hashes = [hash(text) for text in prepared.forms.get("texts", ())]
    if not hashes:
        return []
    trained = {hashes[row] for row in split["train"].tolist()}
    copies = sum(hashes[row] in trained for row in split["test"].tolist())
    fact = f"{copies:,} of {len(split['test']):,} test rows have the input of a training row"
    return [f"{fact}: are they copies?"] if copies else []


def _describe_unknown_attributes(attribute: Tensor) -> tuple[str, ...]:
    """Return a note on test rows without an attribute; none if all or none have one."""
    is_unknown = attribute == UNKNOWN_ATTRIBUTE
    if not is_unknown.any() or is_unknown.all():
        return ()
    fact = f"{int(is_unknown.sum()):,} of {len(attribute):,} test rows have no attribute"
    return (f"{fact}: they count in no group",)
