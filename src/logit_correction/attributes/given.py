"""Attributes that are known row by row: from a file or a column of a person's, or the labels of the data themselves."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from logit_correction.attributes.base import UNKNOWN, AttributeEstimator, Builder
from logit_correction.correlation import Correlation
from logit_correction.data.frames import FIRST_LINE, read_frame, row_names, texts_of
from logit_correction.errors import InputError, did_you_mean
from logit_correction.files import read_cells
from logit_correction.networks.base import weights_follow
from logit_correction.types import DataInfo, NetworkFactory, TrainingRows

#: What a column of posteriors begins with.
POSTERIOR = "p_"


class RowFile:
    """A CSV or Parquet file with one row for each row of the data that it tells of, in any order.

    The column ``key`` says which row it is: ``row`` is its number in the whole data set from 0, ``line`` its number as
    a spreadsheet has it, the header being line 1, ``path`` its name or a path that ends with it.
    """

    def __init__(self, path: Path | str) -> None:
        """Read the file; each row must be named, and once."""
        self.path = Path(path).expanduser()
        self.frame = read_cells(read_frame(self.path))
        self.key = next((name for name in ("row", "line", "path") if name in self.frame), "")
        if not self.key:
            raise InputError(f"{self.path} has no column row, line or path: name each row by its number or its path")
        self.names = ["" if name is None else name for name in texts_of(self.frame, self.key)]
        name, count = Counter(self.names).most_common(1)[0]
        if "" in self.names:
            where = row_names(self.frame.index)[self.names.index("")]
            raise InputError(f"{self.path}: {where}: column {self.key!r} is empty: name each row once")
        if count > 1:
            raise InputError(f"{self.path}: {self.key} {name} stands there more than once")
        if self.key == "line" and {"0", "1"} & set(self.names):
            raise InputError(f"{self.path} tells of line 1, but line 1 is the header: begin with line {FIRST_LINE}")

    def places_of(self, rows: TrainingRows) -> Tensor:
        """Return the place (N,) long in the table of each of these rows; -1 where it does not tell of a row."""
        place = {name: number for number, name in enumerate(self.names)}
        return torch.tensor([place.get(name, -1) for name in self.names_of(rows)], dtype=torch.long)

    def names_of(self, rows: TrainingRows) -> list[str]:
        """Return what the file would call each of these rows."""
        if self.key != "path":
            numbers = torch.arange(len(rows.label)) if rows.numbers is None else rows.numbers
            if self.key == "line":  # blank lines between the rows count too
                numbers = FIRST_LINE + numbers if rows.lines is None else rows.lines
            return [str(number) for number in numbers.tolist()]
        if rows.names is None:
            raise InputError(f"{self.path} names rows by path, but the rows of these data have no names: give row")
        names, known = [str(name) for name in rows.names], set(self.names)
        # Each name itself, or the only path of the file that ends with it, folder by folder.
        depths = {name.count("/") + 1 for name in names if name not in known}
        ends: dict[str, set[str]] = {}
        for depth, path in product(depths, known):
            if path.count("/") >= depth:
                ends.setdefault(path.split("/", path.count("/") - depth + 1)[-1], set()).add(path)
        found = [{name} if name in known else ends.get(name, {name}) for name in names]
        unclear = next((name for name, paths in zip(names, found, strict=True) if len(paths) > 1), None)
        if unclear is not None:
            raise InputError(f"{self.path}: more than one path ends with {unclear}: name the rows as the data do")
        return [next(iter(paths)) for paths in found]


class Given(AttributeEstimator):
    """Attributes from a file, or from a feature column of the data; rows without one stay unknown.

    The file, CSV or Parquet, has one row for each row of the data that it tells of, in any order. A column ``row``
    holds the row's number in the whole data set (from 0, as the audit has it), a column ``line`` its number in a CSV as
    a spreadsheet has it (from 2, as ``predict`` writes it), or a column ``path`` its name, with folders before it or
    not. The attribute's name stands in a column ``attribute``, or its posterior in columns ``p_NAME``, one for each
    value; of those the greatest counts. An empty cell is unknown, and an unknown row is not corrected.

    A label's majority is its commonest value.

    >>> from logit_correction import Given
    >>> Given(column="scanner").settled
    True
    """

    def __init__(self, file: str | None = None, column: str | None = None) -> None:
        """Choose where the attributes stand.

        Args:
            file: CSV or Parquet file.
            column: Without a file, the feature column of the data; beside one its column of names, ``attribute`` by
                default.

        Raises:
            InputError: If neither is given.
        """
        super().__init__()
        if file is None and column is None:
            raise InputError("Given needs a file, or a column of the data: give --method.attributes.file FILE")
        self.file, self.column = None if file is None else Path(file).expanduser(), column
        self.names: list[str] = []

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Read the file, so that what is wrong with it is told before any work."""
        if self.file is not None and not (weights_follow() and not self.file.is_file()):
            self._given = RowFile(self.file)
            self._take(self._values(self._given, self.file))
        super().attach(build, network, info, seed)

    def choose_correlation(self, info: DataInfo) -> Correlation:
        """Return a table that serves until the rows are counted."""
        size = max(len(self.names), 1)
        return Correlation([[1.0 / size] * size] * info.num_labels)

    def _take(self, values: list[str | None]) -> None:
        """Number the names, of which the empty one and None are unknown."""
        self.names = sorted({value for value in values if value})
        number = {name: i for i, name in enumerate(self.names)}
        self._numbers = torch.tensor([number[value] if value else UNKNOWN for value in values])

    def _values(self, given: RowFile, file: Path) -> list[str | None]:
        """Return the name of each row's attribute, None where unknown."""
        import pandas as pd

        frame, column = given.frame, self.column or "attribute"
        if column in frame:
            values = texts_of(frame, column)
        else:
            columns = [name for name in frame.columns if name.startswith(POSTERIOR)]
            if self.column is not None or not columns:
                raise InputError(
                    f"{file} has no column {column!r}{did_you_mean(column, frame.columns)}, and no columns "
                    f"{POSTERIOR}NAME of posteriors"
                )
            numbers = frame[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
            if bool((np.isfinite(numbers) & ((numbers < 0) | (numbers > 1))).any()):
                raise InputError(f"{file}: posteriors must lie in 0..1")
            known = np.isfinite(numbers).all(axis=1)
            greatest = np.where(known[:, None], numbers, 0).argmax(axis=1)
            values = [columns[i].removeprefix(POSTERIOR) if ok else None for i, ok in zip(greatest, known, strict=True)]
        if not any(values):
            raise InputError(f"{file} gives no row an attribute")
        return values

    @property
    def attribute_names(self) -> list[str]:
        """K names, those that were given."""
        return self.names

    def setup(self, rows: TrainingRows) -> None:
        """Find each training row's attribute."""
        super().setup(rows)
        if self.file is None:
            columns = {} if rows.view_inputs is None else rows.view_inputs.columns
            if self.column not in columns:
                hint = did_you_mean(str(self.column), columns)
                raise InputError(f"the data have no feature column {self.column!r}{hint}: name one, or give a file")
            values = columns[str(self.column)].tolist()
            self._take(["" if value != value else str(value) for value in values])
            if not 1 < len(self.names) <= max(100, self.info.num_labels):
                raise InputError(f"column {self.column!r} has {len(self.names)} different values: name one of 2 to 100")
            self.given = self._numbers
        else:
            place = self._given.places_of(rows)
            self.given = self._numbers[place].where(place >= 0, UNKNOWN)
            if not bool((self.given >= 0).any()):
                key, mine, theirs = self._given.key, self._given.names[0], self._given.names_of(rows)[0]
                raise InputError(
                    f"{self.file} tells of no training row: its column {key} has values such as {mine!r}, and the "
                    f"training rows are named such as {theirs!r}"
                )
        self.correlation = Correlation.counted(rows.label, self.given, self.info.num_labels, len(self.names))

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the attributes."""
        return self.given, None

    def warnings(self) -> list[str]:
        """Tell how many rows are not corrected."""
        unknown = int((self.row_attribute < 0).sum())
        if not unknown:
            return []
        where = self.file if self.file is not None else f"column {self.column}"
        return [f"{unknown:,} of {len(self.row_attribute):,} training rows have no attribute in {where}: not corrected"]

    def describe(self) -> str:
        """Say where the attributes come from."""
        return f"the column {self.column} of the data" if self.file is None else f"the file {self.file.name}"


class TrueAttributes(AttributeEstimator):
    """Reads the attribute label of every training row, and says so in the report: the oracle.

    A label's majority is what the data source's table says, and where there is none the commonest value of the label.

    >>> from logit_correction import TrueAttributes
    >>> TrueAttributes().needs_attributes
    True
    """

    needs_attributes = True

    def choose_correlation(self, info: DataInfo) -> Correlation:
        """Return the source's table; where there is none, one that serves until the rows are counted."""
        return info.correlation or Correlation([[1.0 / info.num_attributes] * info.num_attributes] * info.num_labels)

    @property
    def attribute_names(self) -> list[str]:
        """K names, those of the data."""
        return list(self.info.attribute_names)

    def setup(self, rows: TrainingRows) -> None:
        """Take in the labels and the attributes, which must be there."""
        super().setup(rows)
        if rows.attribute is None or bool((rows.attribute == UNKNOWN).any()):
            raise InputError("TrueAttributes needs the attribute of every training row: give TrainingRows.attribute")
        if self.info.correlation is None:
            sizes = self.info.num_labels, self.info.num_attributes
            self.correlation = Correlation.counted(rows.label, rows.attribute, *sizes)

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the attributes."""
        assert self.rows.attribute is not None
        return self.rows.attribute, None

    def diagnose(self, batch: object) -> dict[str, Tensor]:
        """Return nothing: what is known needs no report."""
        return {}

    def describe(self) -> str:
        """Say where the attributes come from."""
        return "the attribute labels of the training rows"
