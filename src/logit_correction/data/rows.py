"""Rows before they are inputs, the files that they name, and their errors.

A file of a thousand rows has several bad ones, of different kinds. So each reading step notes the errors of single
rows, and all of them are raised, or the rows left out and reported, together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.data.cells import format_row_names
from logit_correction.data.table_files import find_repeated_header_rows
from logit_correction.errors import InputError
from logit_correction.formatting import format_first, format_option, format_row_count
from logit_correction.types import Array
from logit_correction.unicode_text import escape_undecodable

OnBadRows = Literal["error", "skip"]

#: Rows that a message names for one error.
MAX_ROWS_SHOWN = 3


@dataclass
class RowErrors:
    """The errors of single rows, gathered to be raised together.

    Attributes:
        place: Where the rows are from, such as a file, for messages.
        row_names: The name of each row, for messages.
        by_row: Row -> why it is bad.
        remarks: Fact and consequence that a user should know of rows that are not bad -> how many rows, and an example.
    """

    place: str
    row_names: Sequence[str]
    by_row: dict[int, str] = field(default_factory=dict)
    remarks: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def add(self, row: int, fault: str) -> None:
        """Note an error; the first one of a row counts.

        Args:
            row: Place of the row.
            fault: Its error: "has no label".
        """
        self.by_row.setdefault(int(row), fault)

    def add_where(self, is_bad: Any, fault: str) -> None:
        """Note the same error of several rows.

        Args:
            is_bad: (M,) bool, an array or a tensor.
            fault: Their error.
        """
        for row in np.flatnonzero(is_bad).tolist():
            self.add(row, fault)

    def add_remark(self, fact: str, consequence: str, count: int, example: str) -> None:
        """Note what is true of rows that are not bad.

        Args:
            fact: "pixels are nearly equal".
            consequence: What follows: "they may have another depth than others".
            count: How many rows; those of several calls are added up.
            example: What one of them is called or holds; the first call's is shown.
        """
        before, first_example = self.remarks.get((fact, consequence), (0, example))
        self.remarks[fact, consequence] = before + count, first_example

    def describe_remarks(self) -> tuple[str, ...]:
        """Return a sentence for each remark, with its share of all rows."""
        total = len(self.row_names)
        sentences = []
        for (fact, consequence), (count, example) in self.remarks.items():
            share = f"in all {total:,} rows" if count == total > 1 else f"in {count:,} of {format_row_count(total)}"
            sentences.append(f"{fact} {share}, such as {example}: {consequence}")
        return tuple(sentences)

    def __len__(self) -> int:
        return len(self.by_row)

    @property
    def is_good(self) -> Tensor:
        """(M,) bool, whether each row is good."""
        good = torch.ones(len(self.row_names), dtype=torch.bool)
        good[list(self.by_row)] = False
        return good

    def raise_if_any(
        self, on_bad_rows: OnBadRows | None = None, *, remedy: str = "fix or remove them"
    ) -> tuple[str, ...]:
        """Raise ``InputError`` if there are bad rows that are not to be skipped, or no good ones.

        Args:
            on_bad_rows: What the user chose; None where bad rows cannot be skipped.
            remedy: What to do about them where they cannot be skipped.

        Returns:
            A note on the rows that are skipped; none without such.
        """
        if not self:
            return ()
        are_bad = "1 row is bad" if len(self) == 1 else f"{len(self):,} rows are bad"
        them = "it" if len(self) == 1 else "them"
        if on_bad_rows == "skip":
            if len(self) < len(self.row_names):
                return (f"{self.place}: {are_bad} and left out: {self}",)
            remedy = f"fix {them}, for no other is left"
        elif on_bad_rows == "error":
            remedy = f"fix {them}, or leave {them} out by {format_option('data.on_bad_rows', 'skip')}"
        raise InputError(f"{self.place}: {are_bad}: {self}; {remedy}")

    def __str__(self) -> str:
        """Return the first errors, each once with its rows, and the count of the others."""
        rows_by_fault: dict[str, list[str]] = {}
        for row, fault in sorted(self.by_row.items()):
            rows_by_fault.setdefault(fault, []).append(self.row_names[row])
        parts = [f"{format_first(rows, MAX_ROWS_SHOWN)}: {fault}" for fault, rows in rows_by_fault.items()]
        return format_first(parts, separator="; ")


def describe_row_errors(errors: Sequence[RowErrors]) -> str:
    """Return the errors of several parts of the rows, with the place of each; of many parts the first three."""
    return format_first([f"{part.place}: {part}" for part in errors], MAX_ROWS_SHOWN, "; ")


@dataclass(frozen=True)
class Rows:
    """Rows before they are read, in one of four forms: ``frame``, ``files``, ``texts`` or ``values``.

    Attributes:
        place: Where they are from, for messages.
        numbers: The number of each; the line of a CSV.
        frame: A table, one row an example.
        folder: Where the files that a frame names lie, or these files themselves.
        files: An image file for each row.
        label: The label of each, None where it is missing, if they come with labels.
        split: What each is for, None where it is missing, if they come with splits.
        texts: A text for each row.
        values: Numbers (n, ...): features or images.
        notes: What a user should know of how they were found.
    """

    place: str
    numbers: range | pd.Index
    frame: pd.DataFrame | None = None
    folder: Path | None = None
    files: Sequence[Path] | None = None
    label: Sequence[str | None] | None = None
    split: Sequence[str | None] | None = None
    texts: Sequence[str] | None = None
    values: Array | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def names(self) -> Sequence[str]:
        """What messages call each row."""
        if self.files is None:
            return format_row_names(self.numbers)
        return [escape_undecodable(path.relative_to(self.folder) if self.folder else path) for path in self.files]

    @cached_property
    def errors(self) -> RowErrors:
        """Their errors, as far as they were read."""
        errors = RowErrors(self.place, self.names)
        if self.frame is not None:
            for row in find_repeated_header_rows(self.frame):
                errors.add(row, "holds the names of the columns again, as where files were joined")
            for line, fault in self.frame.attrs.get("swallowed", {}).items():
                errors.add_where(np.asarray(self.numbers) == line, fault)
        return errors

    def iterate_parts(self, max_rows: int) -> Iterator[Rows]:
        """Yield the rows, ``max_rows`` at a time."""
        names = ("numbers", "frame", "files", "label", "split", "texts", "values")
        held = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        for start in range(0, len(self), max_rows):
            part = slice(start, start + max_rows)  # of a frame, too, it takes rows by their place
            yield replace(self, **{name: values[part] for name, values in held.items()})
