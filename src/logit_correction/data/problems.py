"""What is wrong with the rows of a user's data: gathered first, then told all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from logit_correction.data.stores import InputStore
from logit_correction.errors import InputError

OnBadRows = Literal["error", "skip"]


class BadRows(InputError):
    """Rows are bad.

    Attributes:
        faults: Number of a row -> what is wrong with it.
    """

    def __init__(self, message: str, faults: dict[int, str]) -> None:
        super().__init__(message)
        self.faults = faults


#: So many faults are spelled out; the others are counted.
SHOWN = 10


class Problems:
    """Faults of rows, in the order of the rows.

    >>> problems = Problems("birds.csv", ["line 2", "line 3"])
    >>> problems.add(1, "'b.png' is missing")
    >>> problems.raise_if_any("error")
    Traceback (most recent call last):
    ...
    logit_correction.data.problems.BadRows: birds.csv: 1 row is bad: line 3: 'b.png' is missing; fix it, or leave such
    rows out by --data.on_bad_rows skip
    """

    def __init__(self, place: str, rows: Sequence[str]) -> None:
        """Start with none.

        Args:
            place: The file or folder that the rows are from.
            rows: What each row is called, such as ``line 2``.
        """
        self.place, self.rows = place, rows
        self._faults: dict[int, str] = {}
        self._advice: dict[str, None] = {}

    def add(self, row: int, fault: str, advice: str = "") -> None:
        """Note a fault; the first one of a row counts. ``advice`` is told once for all rows that have it."""
        if self._faults.setdefault(int(row), fault) == fault and advice:
            self._advice[advice] = None

    def __len__(self) -> int:
        return len(self._faults)

    @property
    def good(self) -> Tensor:
        """(M,) bool, whether each row is good."""
        good = torch.ones(len(self.rows), dtype=torch.bool)
        good[list(self._faults)] = False
        return good

    def raise_if_any(self, on_bad_rows: OnBadRows, hint: str = "") -> tuple[str, ...]:
        """Return what to tell of rows left out, nothing if all are good.

        Args:
            on_bad_rows: error or skip.
            hint: How to fix it; by default also that rows can be skipped.

        Raises:
            BadRows: If there are bad rows and they are not to be skipped.
            InputError: If there are no good ones.
        """
        if not self._faults:
            return ()
        count = len(self._faults)
        what = "1 row is bad" if count == 1 else f"{count:,} rows are bad"
        if on_bad_rows == "error":
            them = "it, or leave such rows" if count == 1 else "them, or leave them"
            hint = hint or f"fix {them} out by --data.on_bad_rows skip"
            raise BadRows(f"{self.place}: {what}: {'; '.join([str(self), hint, *self._advice])}", dict(self._faults))
        if count == len(self.rows):
            raise InputError(f"{self.place}: {what}, so none is left: {'; '.join([str(self), *self._advice])}")
        left_out = "1 bad row was" if count == 1 else f"{count:,} bad rows were"
        return (f"{self.place}: {left_out} left out: {self}",)

    def __str__(self) -> str:
        return format_faults([f"{self.rows[row]}: {fault}" for row, fault in sorted(self._faults.items())])


def format_faults(faults: list[str]) -> str:
    """Join the first ten faults, and say how many more there are.

    >>> format_faults([f"row {i}" for i in range(12)])
    'row 0; row 1; row 2; row 3; row 4; row 5; row 6; row 7; row 8; row 9; and 2 more'
    """
    more = [f"and {len(faults) - SHOWN:,} more"] if len(faults) > SHOWN else []
    return "; ".join([*faults[:SHOWN], *more])


def check_finite(inputs: InputStore, chunk: int = 4096) -> None:
    """Return if all inputs are finite, ``chunk`` rows at a time.

    Raises:
        InputError: Names the first row that is not.
    """
    if getattr(inputs, "always_finite", False):
        return
    for start in range(0, len(inputs), chunk):
        fetched = inputs.fetch(torch.arange(start, min(start + chunk, len(inputs))))
        for part in fetched.values() if isinstance(fetched, dict) else (fetched,):
            finite = torch.isfinite(part).reshape(len(part), -1).all(1)
            if not bool(finite.all()):
                row = start + int((~finite).nonzero()[0])
                raise InputError(f"the input of row {row} holds NaN or infinity: fix or remove the row")
