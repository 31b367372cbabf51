"""Attributes that a person or another program has given, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from logit_correction.attributes.base import UNKNOWN, AttributeEstimator, Builder
from logit_correction.attributes.row_file import RowFile
from logit_correction.correlation import Correlation
from logit_correction.data.frames import texts_of
from logit_correction.errors import InputError, did_you_mean
from logit_correction.networks.base import weights_follow
from logit_correction.types import DataInfo, NetworkFactory, TrainingRows

if TYPE_CHECKING:
    import pandas as pd

#: What a column of posteriors begins with.
POSTERIOR = "p_"


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
            self._read(self.file)
        super().attach(build, network, info, seed)

    def choose_correlation(self, info: DataInfo) -> Correlation:
        """Return a table that serves until the rows are counted."""
        size = max(len(self.names), 1)
        return Correlation([[1.0 / size] * size] * info.num_labels)

    def _read(self, file: Path) -> None:
        self._given = RowFile(file)
        values = self._values(self._given.frame, file)
        self.names = sorted({value for value in values if value is not None})
        if not self.names:
            raise InputError(f"{file} gives no row an attribute")
        number = {name: i for i, name in enumerate(self.names)}
        self._numbers = [UNKNOWN if value is None else number[value] for value in values]

    def _values(self, frame: pd.DataFrame, file: Path) -> list[str | None]:
        """Return the name of each row's attribute, None where unknown."""
        column = self.column or "attribute"
        if column in frame.columns:
            return texts_of(frame, column)
        columns = [name for name in frame.columns if name.startswith(POSTERIOR)]
        if self.column is not None or not columns:
            raise InputError(
                f"{file} has no column {column!r}{did_you_mean(column, frame.columns)}, and no columns {POSTERIOR}NAME "
                "of posteriors"
            )
        numbers = frame[columns].apply(_numbers, axis=0).to_numpy(dtype=float)
        if bool((np.isfinite(numbers) & ((numbers < 0) | (numbers > 1))).any()):
            raise InputError(f"{file}: posteriors must lie in 0..1")
        known = np.isfinite(numbers).all(axis=1)
        greatest = np.where(known[:, None], numbers, 0).argmax(axis=1)
        return [columns[i].removeprefix(POSTERIOR) if ok else None for i, ok in zip(greatest, known, strict=True)]

    @property
    def attribute_names(self) -> list[str]:
        """K names, those that were given."""
        return self.names

    def setup(self, rows: TrainingRows) -> None:
        """Find each training row's attribute.

        Raises:
            InputError: If the file tells of no training row, or the data have no such column.
        """
        super().setup(rows)
        if self.file is None:
            self._from_column(rows)
        else:
            self._from_file(rows)
        sizes = self.info.num_labels, len(self.names)
        self.correlation = Correlation.counted(rows.label, self.given, *sizes)

    def _from_column(self, rows: TrainingRows) -> None:
        columns = {} if rows.view_inputs is None else rows.view_inputs.columns
        if self.column not in columns:
            hint = did_you_mean(str(self.column), columns)
            raise InputError(f"the data have no feature column {self.column!r}{hint}: name one, or give a file")
        values = np.asarray(columns[str(self.column)])
        texts = np.asarray(["" if value != value else str(value) for value in values.tolist()])
        self.names = sorted(set(texts.tolist()) - {""})
        if not 1 < len(self.names) <= max(100, self.info.num_labels):
            raise InputError(f"column {self.column!r} has {len(self.names)} different values: name one of 2 to 100")
        found = np.searchsorted(np.asarray(self.names), texts)
        self.given = torch.from_numpy(np.where(texts == "", UNKNOWN, found)).long()

    def _from_file(self, rows: TrainingRows) -> None:
        keys = self._given.names_of(rows)
        place = dict(zip(self._given.names, self._numbers, strict=True))
        self.given = torch.tensor([place.get(key, UNKNOWN) for key in keys])
        if not bool((self.given >= 0).any()):
            raise InputError(
                f"{self.file} tells of no training row: its column {self._given.key} has values such as "
                f"{self._given.names[0]!r}, and the training rows are named such as {keys[0]!r}"
            )

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


def _numbers(column: pd.Series) -> pd.Series:
    import pandas as pd

    return pd.to_numeric(column, errors="coerce")
