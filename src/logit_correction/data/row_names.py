"""What messages and results call the rows: names of many rows, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from logit_correction.data.tabular_io import PARQUET

if TYPE_CHECKING:
    import pandas as pd


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


#: What a spreadsheet calls the first row behind the header.
FIRST_LINE = 2


def numbered(file: Path, numbers: Iterable[int]) -> tuple[str, list[str]]:
    """Return the column that says which row of a file it is, and what stands in it; ``RowFile`` reads it.

    A CSV has lines, as a spreadsheet numbers them, the header being line 1; rows of other files count from 0.

    >>> numbered(Path("a.csv"), range(2, 4)), numbered(Path("a.parquet"), range(2))
    (('line', ['2', '3']), ('row', ['0', '1']))
    """
    return "line" if has_lines(file) else "row", [str(number) for number in numbers]


def has_lines(file: Path) -> bool:
    """Return whether the rows of a table stand in lines, as those of a CSV do."""
    return file.suffix.lower() not in PARQUET


def row_names(numbers: range | pd.Index) -> LazyNames:
    """Return what messages call the rows of such numbers; ``read_frame`` gives those of a file as its index.

    >>> list(row_names(range(2)))
    ['row 0', 'row 1']
    """
    return LazyNames("row {}".format, numbers if isinstance(numbers, range) else numbers.to_numpy())
