"""A table that a person or another program has written, of rows of the data: found by their number or their name."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import torch

from logit_correction.data.frames import FIRST_LINE, read_frame, texts_of
from logit_correction.errors import InputError
from logit_correction.files import read_cells
from logit_correction.types import TrainingRows


class RowFile:
    """A CSV or Parquet file with one row for each row of the data that it tells of, in any order.

    Attributes:
        file: Where it lies.
        frame: Its table.
        key: The column that says which row it is: ``row``, the row's number in the whole data set from 0; ``line``, its
            number as a spreadsheet has it, the header being line 1; or ``path``, its name or a path that ends with it.
        names: What that column holds; None where it is empty.
    """

    def __init__(self, file: Path | str) -> None:
        """Read the file.

        Raises:
            InputError: If it cannot be read, has none of these columns, numbers a row by no number, or tells of a row
                twice.
        """
        self.file = Path(file).expanduser()
        self.frame = read_cells(read_frame(self.file))
        keys = [name for name in ("row", "line", "path") if name in self.frame.columns]
        if not keys:
            raise InputError(f"{self.file} has no column row, line or path: name each row by its number or its path")
        self.key = keys[0]
        self.names = texts_of(self.frame, self.key)
        repeated = [str(name) for name, count in Counter(self.names).items() if count > 1]
        if repeated:
            raise InputError(f"{self.file}: {self.key} {min(repeated)} stands there more than once")
        other = next((name for name in self.names if name is not None and not name.isdecimal()), None)
        if self.key != "path" and other is not None:
            raise InputError(f"{self.file}: {self.key} {other!r} is no whole number: number the rows so, or give path")
        early = {str(line) for line in range(FIRST_LINE)} & {str(name) for name in self.names}
        if self.key == "line" and early:
            raise InputError(
                f"{self.file} tells of line {min(early)}, but line 1 is the header, the first row line {FIRST_LINE}: "
                "number the lines so, or give row, which counts from 0"
            )

    def names_of(self, rows: TrainingRows) -> list[str]:
        """Return what the file would call each of these rows.

        Raises:
            InputError: If it names rows by path, and these have no names, or several paths end with one of them.
        """
        if self.key != "path":
            numbers = torch.arange(len(rows.label)) if rows.numbers is None else rows.numbers
            if self.key == "line":  # blank lines between the rows count too
                numbers = FIRST_LINE + numbers if rows.lines is None else rows.lines
            return [str(number) for number in numbers.tolist()]
        if rows.names is None:
            raise InputError(f"{self.file} names rows by path, but the rows of these data have no names: give row")
        return self._paths_of([str(name) for name in rows.names])

    def _paths_of(self, names: list[str]) -> list[str]:
        """Return each name itself, or the only path of the file that ends with it, folder by folder."""
        known = {name for name in self.names if name is not None}
        depths = sorted({name.count("/") + 1 for name in names if name not in known})
        ends: dict[str, str] = {}
        several = set()
        for depth, path in product(depths, known):
            if path.count("/") >= depth:
                end = path.split("/", path.count("/") - depth + 1)[-1]
                if ends.setdefault(end, path) != path:
                    several.add(end)
        found = [name if name in known else ends.get(name, name) for name in names]
        unclear = next((name for name in names if name in several and name not in known), None)
        if unclear is not None:
            raise InputError(f"{self.file}: more than one path ends with {unclear}: name the rows as the data do")
        return found
