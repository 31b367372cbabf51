"""Labels and attributes as numbers: how their names are sorted, and names that people would take for one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from logit_correction.data.cells import group_by_number, match_numeric_names
from logit_correction.errors import InputError
from logit_correction.formatting import format_first
from logit_correction.unicode_text import normalize_text


def find_name_positions(values: Sequence[str | None], label_names: Sequence[str]) -> Tensor:
    """Return the position (M,) long of each value among the names, -1 for others; 1.0 is 1 (``match_numeric_names``).

    Args:
        values: M values.
        label_names: The names.
    """
    position: dict[str | None, int] = {name: i for i, name in enumerate(label_names)}
    for written, name in match_numeric_names(values, label_names).items():
        position[written] = position[name]
    return torch.tensor([position.get(value, -1) for value in values], dtype=torch.long)


def encode_labels(values: Sequence[str | None], is_usable: Tensor) -> tuple[Tensor, list[str]]:
    """Return a number (M,) for each value, and the names by number; numbers sort as numbers, names as texts.

    Args:
        values: M labels or attributes.
        is_usable: (M,) bool; the values of others are not numbered and get -1.
    """
    usable_values = [value if usable else None for value, usable in zip(values, is_usable.tolist(), strict=True)]
    names = {value for value in usable_values if value is not None}
    numeric = all(map(is_finite_number, names))
    in_order = sorted(names, key=(lambda name: (float(name), name)) if numeric else None)
    return find_name_positions(usable_values, in_order), in_order


def is_finite_number(text: str) -> bool:
    """Return whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def combine_attributes(attributes: Mapping[str, Sequence[str | None]], num_rows: int) -> Sequence[str | None]:
    """Return one attribute for each row: the value of the only column, or the combination of several columns'.

    Args:
        attributes: Column -> a value for each row; a row with an unknown value (None) is unknown.
        num_rows: Rows.
    """
    if len(attributes) < 2:
        return next(iter(attributes.values()), [None] * num_rows)
    return [
        None if None in values else ", ".join(f"{name}={value}" for name, value in zip(attributes, values, strict=True))
        for values in zip(*attributes.values(), strict=True)
    ]


def check_labels_distinct(labels: Sequence[str | None], names: Sequence[str], source_name: str) -> None:
    """Raise ``InputError`` if two names of labels look alike to people.

    Args:
        labels: The label of each row, to count them.
        names: The names of the labels.
        source_name: Where the rows are from, for messages.
    """
    by_look: dict[str, list[str]] = {}
    for name in names:
        look = " ".join(normalize_text(name, "NFKC").casefold().split())
        by_look.setdefault(look, []).append(f"{name!r} ({labels.count(name):,})")
    alike = [" and ".join(names) for names in by_look.values() if len(names) > 1]
    if alike:
        raise InputError(
            f"{source_name}: labels that differ only in case, blanks or the form of letters: "
            f"{format_first(alike)}: write them alike if they mean the same, else give each a name of its "
            "own"
        )


def describe_equal_numbers(names: Sequence[str]) -> tuple[str, ...]:
    """Return a note on names of labels that are one number written in several ways; none without such."""
    equal = [" and ".join(map(repr, same)) for same in group_by_number(names).values() if len(same) > 1]
    fact = "labels that are one number, but count as different ones, as they are written"
    return (f"{fact}: {format_first(equal, separator='; ')}",) if equal else ()
