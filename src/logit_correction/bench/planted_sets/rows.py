"""Which rows a set has: drawn label by label, with splits that share no example and a test as balanced as asked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from logit_correction.data.rows import consecutive_splits
from logit_correction.errors import InputError

#: Share of the training and validation rows that goes to validation.
VALID_SHARE = 0.2

#: Share of the examples that goes to the test, where the data have no test part of their own.
TEST_SHARE = 0.25


@dataclass(frozen=True)
class Rows:
    """The rows of a table.

    Attributes:
        example: (M,) long, which example of the data each row shows; a test example may be shown several times.
        split: The rows of train, valid and test.
    """

    example: Tensor
    split: dict[str, Tensor]


def draw_rows(
    label: Tensor, test_part: Tensor | None, rows: int | None, num_marks: int | None, generator: torch.Generator
) -> Rows:
    """Draw rows so that each split has every label in its share, and a test with marks has all labels equally often.

    Args:
        label: (P,) long, 0..L-1, of all examples; -1 for those that are left out.
        test_part: (P,) bool, which examples the test may be drawn from and training may not; None where the data have
            no such part. Then a quarter is set apart, and each of its examples is to be shown with every mark.
        rows: Training and validation rows; None for all.
        num_marks: K, or None where nothing is planted.
        generator: CPU generator.

    Raises:
        InputError: If there are not so many rows, or too few for the labels.
    """
    num_labels = int(label.max()) + 1
    own = [(label == y).nonzero().flatten() for y in range(num_labels)]
    own = [part[torch.randperm(len(part), generator=generator)] for part in own]
    if test_part is None:
        counts = [round(TEST_SHARE * len(part)) for part in own]
        counts = counts if num_marks is None else [min(counts)] * num_labels
        test = [part[:count] for part, count in zip(own, counts, strict=True)]
        rest = [part[count:] for part, count in zip(own, counts, strict=True)]
        copies = num_marks or 1
    else:
        test, rest = ([part[test_part[part] == side] for part in own] for side in (True, False))
        if num_marks is not None:
            least = min(len(part) for part in test) // num_marks * num_marks
            test = [part[:least] for part in test]
        copies = 1
    rest = _thinned(rest, rows)
    valid = [part[: round(VALID_SHARE * len(part))] for part in rest]
    train = [part[round(VALID_SHARE * len(part)) :] for part in rest]
    parts = [_mixed(train, generator), _mixed(valid, generator), _mixed(test, generator).repeat_interleave(copies)]
    return Rows(torch.cat(parts), consecutive_splits(*map(len, parts)))


def _mixed(parts: list[Tensor], generator: torch.Generator) -> Tensor:
    """Bring the rows of all labels into one random order, so that a row's number tells nothing."""
    whole = torch.cat(parts)
    return whole[torch.randperm(len(whole), generator=generator)]


def _thinned(parts: list[Tensor], rows: int | None) -> list[Tensor]:
    """Keep ``rows`` rows, of every label in its share."""
    total = sum(map(len, parts))
    if rows is None:
        return parts
    counts = [round(rows * len(part) / total) for part in parts]
    if rows > total:
        raise InputError(f"--data.rows is {rows:,}, but there are only {total:,} rows beside the test: give fewer")
    if min(counts) < 5:
        raise InputError(f"--data.rows is {rows:,}, too few for {len(parts)} labels: give at least {10 * len(parts)}")
    return [part[:count] for part, count in zip(parts, counts, strict=True)]


def drawn_labels(rows: int, num_labels: int, num_marks: int | None, test: int) -> tuple[Tensor, Tensor]:
    """Return labels for examples that are yet to be drawn, and which of them are the test's.

    Args:
        rows: Training and validation rows.
        num_labels: L.
        num_marks: K, or None where nothing is planted.
        test: About how many rows the test has; a multiple of L times K is taken.
    """
    cells = num_labels * (num_marks or 1)
    test = max(1, test // cells) * cells
    rows = -(-rows // num_labels) * num_labels
    return torch.arange(rows + test) % num_labels, torch.arange(rows + test) >= rows


def even_marks(label: Tensor, num_marks: int) -> Tensor:
    """Give the rows of each label (n,) the marks 0..K-1 in turn, so that each pair of both is equally frequent."""
    attribute = torch.empty_like(label)
    for y in label.unique().tolist():
        rows = (label == y).nonzero().flatten()
        attribute[rows] = torch.arange(len(rows)) % num_marks
    return attribute
