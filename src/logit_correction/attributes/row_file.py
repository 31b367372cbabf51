"""A table that a person or another program has written, of rows of the data: found by their number or their name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch

from logit_correction.data.tabular_io import read_frame, texts_of
from logit_correction.errors import InputError
from logit_correction.types import TrainingRows


class RowFile:
    """A CSV or Parquet file with one row for each row of the data that it tells of, in any order.

    Attributes:
        file: Where it lies.
        frame: Its table.
        key: The column that says which row it is: ``row``, the row's number in the whole data set, or ``path``.
        names: What that column holds; None where it is empty.
    """

    def __init__(self, file: Path | str) -> None:
        """Read the file.

        Raises:
            InputError: If it cannot be read, has neither column, or tells of a row twice.
        """
        self.file = Path(file).expanduser()
        self.frame = read_frame(self.file)
        keys = [name for name in ("row", "path") if name in self.frame.columns]
        if not keys:
            raise InputError(f"{self.file} has no column row or path: name each row by its number or its path")
        self.key = keys[0]
        self.names = texts_of(self.frame, self.key)
        repeated = [str(name) for name, count in Counter(self.names).items() if count > 1]
        if repeated:
            raise InputError(f"{self.file}: {self.key} {min(repeated)} stands there more than once")

    def names_of(self, rows: TrainingRows) -> list[str]:
        """Return what the file would call each of these rows.

        Raises:
            InputError: If it names rows by path, and these have no names.
        """
        if self.key == "row":
            numbers = torch.arange(len(rows.label)) if rows.numbers is None else rows.numbers
            return [str(number) for number in numbers.tolist()]
        if rows.names is None:
            raise InputError(f"{self.file} names rows by path, but the rows of these data have no names: give row")
        return [str(name) for name in rows.names]
