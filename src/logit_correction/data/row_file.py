"""Files that people write about rows of the data: attributes, predictions or answers, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from logit_correction.data.cells import check_required_column_names, convert_to_texts
from logit_correction.data.table_files import read_frame
from logit_correction.errors import InputError
from logit_correction.spreadsheets import unescape_spreadsheet_texts
from logit_correction.types import TrainingRows

#: Columns that may name the rows; the first that the file has does.
KEYS = ("row", "line", "path")


class RowFile:
    """A CSV or Parquet file with one row for each row of the data that it is about, in any order.

    The column ``key`` names the row: ``row`` is its number in the whole data set from 0, ``line`` its number as a
    spreadsheet has it, the header being line 1, ``path`` its name or a path that ends with it.
    """

    def __init__(self, path: Path | str) -> None:
        """Read the file; ``InputError`` unless it names each row once."""
        self.path = Path(path).expanduser()
        self.frame = unescape_spreadsheet_texts(read_frame(self.path))
        self.key = next((name for name in KEYS if name in self.frame), "")
        if not self.key:
            raise InputError(f"{self.path} has no column row, line or path: name each row by its number or its path")
        self.names = [name or "" for name in convert_to_texts(self.frame[self.key], as_written=True)]
        bad = next((name for name, count in Counter(self.names).items() if count > 1 or not name), None)
        if bad is not None:
            raise InputError(f"{self.path}: {self.key} {bad!r} is empty or stands there twice: name each row once")
        if self.key == "line" and {"0", "1"} & set(self.names):
            raise InputError(f"{self.path} has a row for line 1, but line 1 is the header: begin with line 2")

    def find_row_positions(self, rows: TrainingRows) -> Tensor:
        """Return the position (N,) long of each of these rows in the file; -1 for rows that it does not name.

        Args:
            rows: N rows of the data.

        Raises:
            InputError: It names a row that the data cannot have, as a file does that counts rows from 1.
        """
        position = {name: number for number, name in enumerate(self.names)}
        if self.key == "path":
            if rows.names is None:
                raise InputError(f"{self.path} names rows by path, but the rows of these data have no names: give row")
            names = [str(name) for name in rows.names]
            ends: dict[str, int] = {}
            for depth in {name.count("/") + 1 for name in names}:
                for path, number in position.items():
                    end = "/".join(path.split("/")[-depth:])
                    ends[end] = -1 if end in ends else number  # two paths that end alike name neither
            position = ends | position
        else:
            numbers = torch.arange(len(rows.label)) if rows.numbers is None else rows.numbers
            if self.key == "line":  # blank lines between the rows count too
                numbers = numbers + 2 if rows.lines is None else rows.lines
            elif rows.num_table_rows is not None:
                self._check_row_numbers(rows.num_table_rows)
            names = [str(number) for number in numbers.tolist()]
        return torch.tensor([position.get(name, -1) for name in names], dtype=torch.long)

    def _check_row_numbers(self, num_rows: int) -> None:
        """Raise ``InputError`` if a number is not that of one of ``num_rows`` rows, counted from 0."""
        numbers = [name for name in self.names if name.isdecimal()]
        highest = max(numbers, key=lambda name: (len(name), name), default="0")
        if len(highest) > len(str(num_rows)) or int(highest) >= num_rows:
            remedy = "count from 0, or name rows by line, the header being line 1"
            if "0" in numbers:
                remedy = "give the file of these data"
            raise InputError(
                f"{self.path} has row {highest[:20]}, but the rows of the data are 0 to {num_rows - 1}: {remedy}"
            )

    def get_values(self, column: str, rows: TrainingRows) -> list[str | None]:
        """Return what a column holds for each of these rows, N texts; None where it holds nothing.

        Args:
            column: The column.
            rows: N rows of the data.
        """
        check_required_column_names(self.frame, str(self.path), [column])
        texts = convert_to_texts(self.frame[column])
        return [texts[position] if position >= 0 else None for position in self.find_row_positions(rows).tolist()]

    def check_labels(self, rows: TrainingRows, label_names: Sequence[str]) -> None:
        """Raise ``InputError`` if its column ``label`` gives one of these rows another label than the data do.

        Args:
            rows: N rows of the data.
            label_names: The name of each label.
        """
        positions = self.find_row_positions(rows).tolist()
        labels = [label_names[label] for label in rows.label.tolist()]
        for position, text, label in zip(positions, self.get_values("label", rows), labels, strict=True):
            if text not in (None, label):
                raise InputError(
                    f"{self.path}: {self.key} {self.names[position]!r} has label {text!r}, but {label!r} in the data: "
                    "give the file of these data, or leave its column label out"
                )
