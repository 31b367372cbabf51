"""What messages and results call the rows: names of many rows, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from logit_correction.data.tabular_io import PARQUET


class LazyNames(Sequence[str]):
    """The names of some rows, each made of the row's number when it is asked for.

    >>> names = LazyNames("row {}".format, range(2, 6))
    >>> names[1], list(names[2:])
    ('row 3', ['row 4', 'row 5'])
    """

    def __init__(self, name: Callable[[int], str], rows: range | NDArray[np.integer]) -> None:
        """Keep how a row is named, and the numbers of the rows."""
        self.name, self.rows = name, rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> LazyNames: ...
    def __getitem__(self, row: int | slice) -> str | LazyNames:
        return LazyNames(self.name, self.rows[row]) if isinstance(row, slice) else self.name(int(self.rows[row]))


def row_names(file: Path | None, count: int, header: int = 1) -> LazyNames:
    """Return what messages call the rows: in a CSV as a spreadsheet numbers them, behind ``header`` rows.

    >>> list(row_names(Path("a.csv"), 2)), list(row_names(Path("a.parquet"), 2))
    (['row 2', 'row 3'], ['row 0', 'row 1'])
    """
    first = header + 1 if file is not None and file.suffix.lower() not in PARQUET else 0
    return LazyNames("row {}".format, range(first, first + count))
