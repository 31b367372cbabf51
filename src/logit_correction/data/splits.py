"""Splits of the rows into train, valid and test: given ones are kept, missing ones are drawn label by label.

Rows of one patient, or of another unit that a column names, must not lie in two splits, since a network recognises the
unit. So units are drawn, each as one of the rarest of its labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.rows import OnBadRows
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import format_first, format_option
from logit_correction.seeds import make_generator

SPLITS = ("train", "valid", "test")

#: A further split: rows that the model will be used on, with labels or without.
NEW = "new"

#: What people call the splits.
SPLIT_ALIASES = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
    "testing": "test",
    NEW: NEW,
}


class Splitting:
    """Which rows are for what where no split is given, and what is done with bad ones."""

    def __init__(
        self, valid_fraction: float = 0.1, test_fraction: float = 0.2, seed: int = 0, on_bad_rows: OnBadRows = "error"
    ) -> None:
        """Choose the fractions.

        Args:
            valid_fraction: Fraction of each label's rows for validation, where no split is given.
            test_fraction: Fraction of each label's rows for the test, where no split is given.
            seed: Seed of the split, apart from the run's.
            on_bad_rows: ``error`` names the bad rows and stops, ``skip`` names them and leaves them out.
        """
        self.fractions = {"valid": valid_fraction, "test": test_fraction}
        for name, fraction in self.fractions.items():
            check_range(format_option(f"data.{name}_fraction"), fraction, 0, 1, open_end=True)
        if valid_fraction + test_fraction >= 1:
            fractions = f"{format_option('data.valid_fraction')} and {format_option('data.test_fraction')}"
            raise InputError(f"{fractions} leave no row to train on: lower them")
        self.seed = seed
        self.on_bad_rows: OnBadRows = on_bad_rows


def make_consecutive_splits(*sizes: int) -> dict[str, Tensor]:
    """Return the rows of train, valid and test of these sizes, which follow each other."""
    return dict(zip(SPLITS, torch.arange(sum(sizes)).split(sizes), strict=True))


def make_splits(
    label: Tensor,
    given_splits: Sequence[str | None],
    label_names: Sequence[str],
    splitting: Splitting,
    unit: Tensor | None = None,
    split_by: str | None = None,
) -> tuple[dict[str, Tensor], str]:
    """Return the rows of train, valid and test, and one line on where they are from.

    A split that is given stays as it is. Missing ones are drawn from the training rows, or from all rows if no split
    is given: label by label, so that each has its share of every label. Attributes are not looked at.

    Args:
        label: (M,) long, 0..L-1; rows of label -1 belong to no split.
        given_splits: The split of each row, None where it has none; of no rows or None for all if no split is given.
        label_names: L names.
        splitting: Fractions and seed of the splits that are drawn.
        unit: (M,) long, 0..U-1; rows of one unit are drawn together. By default each row is one.
        split_by: The column of the units, for messages.

    Raises:
        InputError: If a label has too few rows, or units, for the splits.
    """
    rows = (label >= 0).nonzero().flatten()
    split = {"train": rows}
    is_any_given = any(given_splits)
    if is_any_given:
        names = np.asarray(given_splits, dtype=object)[rows.numpy()]
        split = {name: rows[torch.from_numpy(names == name)] for name in SPLITS}
        split = {name: part for name, part in split.items() if len(part)}
        if "train" not in split:
            raise InputError("no row is for training: give some rows the split train")
    shares = {name: share for name, share in splitting.fractions.items() if name not in split}
    if not shares:
        return split, "given"
    train = split["train"]
    unit = torch.arange(len(label)) if unit is None else unit
    size = torch.bincount(unit[train], minlength=int(unit.max()) + 1)
    commonest_first = train[torch.bincount(label[train])[label[train]].argsort(descending=True, stable=True)]
    unit_label = torch.full_like(size, -1)
    unit_label[unit[commonest_first]] = label[commonest_first]  # the rarest label of each unit comes last
    _check_labels_can_be_split(unit_label[unit_label >= 0], label_names, list(shares.values()), split_by)
    drawn_for = torch.zeros(len(unit_label), dtype=torch.long)
    # Labels are numbered as they first appear, so that other names for them change nothing.
    for label_number, y in enumerate(dict.fromkeys(label[train].tolist())):
        units = (unit_label == y).nonzero().flatten()
        total = int(size[units].sum())
        # A generator of its own for each label: more rows of one label leave the split of the others as it was.
        generator = make_generator(splitting.seed, "split", label_number)
        units = units[torch.randperm(len(units), generator=generator)]
        for split_number, share in enumerate(shares.values(), 1):
            enough = int(torch.searchsorted(size[units].cumsum(0), max(1, round(share * total)))) + 1
            drawn = min(enough, len(units) - 1) if share and len(units) else 0
            drawn_for[units[:drawn]] = split_number
            units = units[drawn:]
    drawn_for_row = drawn_for[unit[train]]
    for split_number, name in enumerate(("train", *shares)):
        split[name] = train[drawn_for_row == split_number]
    percentages = ", ".join(f"{100 * share:g} % {name}" for name, share in shares.items())
    origin = f"drawn label by label, {percentages}, seed {splitting.seed}"
    if split_by:
        origin += f", rows of one {split_by} together"
    if is_any_given:
        origin = f"given; {origin} from the training rows"
    return {name: split[name] for name in SPLITS}, origin


def _check_labels_can_be_split(
    unit_label: Tensor, label_names: Sequence[str], shares: Sequence[float], split_by: str | None
) -> None:
    """Raise ``InputError`` if a label has fewer units than there are splits."""
    least = sum(share > 0 for share in shares) + 1
    counts = torch.bincount(unit_label, minlength=len(label_names)).tolist()
    rare = [f"{name} {count}" for name, count in zip(label_names, counts, strict=True) if 0 < count < least]
    if rare:
        units = f"values of {split_by}" if split_by else "rows"
        raise InputError(
            f"labels with too few {units} to split ({units} per label: {format_first(rare)}): each needs at "
            f"least {least}, one a split: add rows, drop the label, give a split, or name another column of labels"
        )
