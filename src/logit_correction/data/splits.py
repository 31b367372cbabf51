"""Splits that a user gives, and stratified ones where none is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from logit_correction.errors import InputError, check_range, format_first
from logit_correction.seeds import make_generator

#: What people call the splits.
ALIASES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev"), "valid"),
    **dict.fromkeys(("test", "testing"), "test"),
}

#: The splits in the columns of published metadata files.
NUMBERS = {"0": "train", "1": "valid", "2": "test"}

#: Labels that a message names.
MOST_NAMED = 10


@dataclass(frozen=True)
class Splitting:
    """How rows are parted where no split is given.

    Attributes:
        valid_fraction: Fraction of the rows of each label that goes to validation; 0 leaves it without rows.
        test_fraction: Fraction of the rows of each label that goes to the test; likewise.
        seed: Seed of the draw.
    """

    valid_fraction: float
    test_fraction: float
    seed: int

    def __post_init__(self) -> None:
        """Check the fractions.

        Raises:
            InputError: If one is not in [0, 1), or nothing is left to train on.
        """
        for name in ("valid_fraction", "test_fraction"):
            check_range(f"--data.{name}", getattr(self, name), 0, 1, open_end=True)
        if self.valid_fraction + self.test_fraction >= 1:
            raise InputError("--data.valid_fraction and --data.test_fraction leave no row to train on: lower them")


def split_name(value: str, numbers: bool = True) -> str | None:
    """Return train, valid or test for what people call them, None for anything else.

    Args:
        value: What somebody wrote.
        numbers: Whether 0, 1 and 2 are splits, as in a column; a folder of such a name is a label.

    >>> split_name("Val"), split_name("2"), split_name("2", numbers=False), split_name("holdout")
    ('valid', 'test', None, None)
    """
    name = value.strip().lower()
    return ALIASES.get(name) or (NUMBERS.get(name) if numbers else None)


def consecutive_splits(*sizes: int) -> dict[str, Tensor]:
    """Return the rows of train, valid and test where they follow each other, each of a given size."""
    parts = torch.arange(sum(sizes)).split(sizes)
    return dict(zip(("train", "valid", "test"), parts, strict=True))


def make_splits(
    label: Tensor, given: Sequence[str | None] | None, label_names: Sequence[str], splitting: Splitting
) -> tuple[dict[str, Tensor], str]:
    """Return the rows of train, valid and test, and one line on where they are from.

    A split that is given stays as it is. Missing ones are drawn from the training rows, or from all rows if no split
    is given: label by label, so that each has its share of every label. Attributes are never looked at.

    Args:
        label: (M,) long; -1 for rows that belong nowhere.
        given: The split of each row, or None where none is given.
        label_names: L names.
        splitting: Fractions and seed.

    Raises:
        InputError: If a label has too few rows, or no row is for training.
    """
    rows = (label >= 0).nonzero().flatten()
    if given is None:
        split = {"train": rows}
    else:
        names = np.asarray(given, dtype=object)[rows.numpy()]
        split = {name: rows[torch.from_numpy(names == name)] for name in ("train", "valid", "test")}
        split = {name: part for name, part in split.items() if len(part)}
        if "train" not in split:
            raise InputError("no row is for training: give some rows the split train")
    missing = [name for name in ("valid", "test") if name not in split]
    shares = {name: getattr(splitting, f"{name}_fraction") for name in missing}
    if missing:
        split |= _drawn(split["train"], label, label_names, shares, splitting.seed)
    drawn = ", ".join(f"{100 * share:g} % {name}" for name, share in shares.items())
    how = f"drawn label by label, {drawn}, seed {splitting.seed}"
    source = "given" if not missing else how if given is None else f"given; {how} from the training rows"
    return {name: split[name] for name in ("train", "valid", "test")}, source


def _drawn(
    rows: Tensor, label: Tensor, label_names: Sequence[str], shares: dict[str, float], seed: int
) -> dict[str, Tensor]:
    """Part ``rows`` label by label; each part with a share has at least one row of every label."""
    least = sum(share > 0 for share in shares.values()) + 1
    counts = torch.bincount(label[rows], minlength=len(label_names)).tolist()
    few = [f"{name} {count}" for name, count in zip(label_names, counts, strict=True) if 0 < count < least]
    if few:
        hint = "add rows, drop the label, or give a split"
        if 2 * len(few) > len(rows):
            hint = f"with {len(few):,} such labels among {len(rows):,} rows, is it the column of labels?"
        raise InputError(
            f"labels with too few rows to split (rows per label: {format_first(few, MOST_NAMED)}): "
            f"each needs at least {least}, one a split; "
            f"{hint}"
        )
    parts: dict[str, list[Tensor]] = {name: [] for name in ("train", *shares)}
    for y, name in enumerate(label_names):
        own = rows[label[rows] == y]
        # A generator of its own for each label: more rows of one label leave the split of the others as it was.
        own = own[torch.randperm(len(own), generator=make_generator(seed, "split", str(name)))]
        for part, share in shares.items():
            count = min(max(1, round(share * counts[y])), len(own) - 1) if share and len(own) else 0
            parts[part].append(own[:count])
            own = own[count:]
        parts["train"].append(own)
    return {name: torch.cat(part).sort().values for name, part in parts.items()}
