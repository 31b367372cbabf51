"""What messages and results call the rows: names of many rows, made when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from logit_correction.data.tabular_io import PARQUET


class RowNames(Sequence[str]):
    """``row 0``, ``row 1``, and so on: names of many rows, made when they are asked for."""

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> RowNames: ...
    def __getitem__(self, row: int | slice) -> str | RowNames:
        return RowNames(self.numbers[row]) if isinstance(row, slice) else f"row {self.numbers[row]}"


class ChosenNames(Sequence[str]):
    """The names of some rows, looked up when they are asked for."""

    def __init__(self, names: Sequence[str], rows: NDArray[np.int64]) -> None:
        self.names, self.rows = names, rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> ChosenNames: ...
    def __getitem__(self, row: int | slice) -> str | ChosenNames:
        return ChosenNames(self.names, self.rows[row]) if isinstance(row, slice) else self.names[self.rows[row]]


def row_names(file: Path | None, count: int, header: int = 1) -> RowNames:
    """Return what messages call the rows: in a CSV as a spreadsheet numbers them, behind ``header`` rows.

    >>> list(row_names(Path("a.csv"), 2)), list(row_names(Path("a.parquet"), 2))
    (['row 2', 'row 3'], ['row 0', 'row 1'])
    """
    first = header + 1 if file is not None and file.suffix.lower() not in PARQUET else 0
    return RowNames(range(first, first + count))
