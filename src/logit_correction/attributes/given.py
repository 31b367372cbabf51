"""Attributes that are known row by row: from a file or a column of a person's, or the labels of the data themselves."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from logit_correction.attributes.base import AttributeEstimator, NetworkBuilder
from logit_correction.data.frames import RowFile, check_column_names, convert_attributes_to_texts
from logit_correction.errors import InputError
from logit_correction.formatting import format_option
from logit_correction.types import UNKNOWN_ATTRIBUTE, Correlation, DataInfo, NetworkFactory, TrainingRows
from logit_correction.unicode_text import normalize_text


class Given(AttributeEstimator):
    """Attributes from a file, or from a feature column of the data; rows without one stay unknown.

    The file, CSV or Parquet, has one row for each row of the data that it names, in any order. One of three columns
    names the row: ``row`` is its number in the data set, from 0, as in the audit. ``line`` is its line in a CSV, from
    2, as ``predict`` writes it. ``path`` is its file, with or without folders. The column ``attribute`` holds the
    attribute's name. An empty cell, or -1, is unknown, and an unknown row is not corrected. A column ``label`` must
    agree with the data.

    A label's majority is its commonest value. The report calls what was read ``given attribute``.
    """

    def __init__(self, file: str | None = None, column: str | None = None) -> None:
        """Choose where the attributes stand.

        Args:
            file: CSV or Parquet file.
            column: Without a file, the feature column of the data; with one its column of names, ``attribute`` by
                default.
        """
        super().__init__()
        if file is None and column is None:
            raise InputError(
                f"Given needs a file, or a column of the data: give {format_option('method.attributes.file')}"
            )
        self.file, self.column = None if file is None else Path(file).expanduser(), column and normalize_text(column)

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        names = self._in_data(rows) if self.file is None else self._in_file(self.file, rows)
        self.attribute_names = sorted({name for name in names if name is not None})
        number = {name: i for i, name in enumerate(self.attribute_names)}
        self.given = torch.tensor([UNKNOWN_ATTRIBUTE if name is None else number[name] for name in names])
        self.correlation = Correlation.from_majority_attribute(
            rows.label, self.given, self.info.num_labels, len(number)
        )

    def _in_data(self, rows: TrainingRows) -> list[str | None]:
        """Return what the column of the data holds of each row, None where unknown."""
        columns, column = {} if rows.view_inputs is None else rows.view_inputs.columns, str(self.column)
        check_column_names(list(columns), "the data", [column])
        names = convert_attributes_to_texts(columns[column])
        count = len({*names} - {None})
        if not 1 < count <= 100:
            raise InputError(f"column {self.column!r} has {count} different values: name one of 2 to 100")
        return names

    def _in_file(self, file: Path, rows: TrainingRows) -> list[str | None]:
        """Return what the file says of each row, None where unknown."""
        given, column = RowFile(file), self.column or "attribute"
        names = [None if name == "-1" else name for name in given.values(column, rows)]
        if names.count(None) == len(names):
            raise InputError(
                f"{file} gives no attribute to the rows that learn by it: fill in its column {column}. Its column "
                f"{given.key} has values such as {given.names[0]!r}, which must name training rows (for LastLayer "
                "validation rows, which an audit of the run lists in rows.csv)"
            )
        if column != "label" and "label" in given.frame:
            given.check_labels(rows, self.info.label_names)
        return names

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        return self.given

    def warnings(self) -> list[str]:
        unknown = int((self.row_attribute < 0).sum())
        if not unknown:
            return []
        rows = f"{unknown:,} of {len(self.row_attribute):,} training rows"
        return [f"{rows} have no attribute in {self.describe()}: not corrected"]

    def describe(self) -> str:
        return f"the column {self.column} of the data" if self.file is None else f"the file {self.file.name}"


class TrueAttributes(AttributeEstimator):
    """Reads the attribute label of every training row, and says so in the report: the oracle.

    A label's majority is what the data source's table says, and where there is none the commonest value of the label.
    """

    needs_attributes = True

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self.attribute_names = list(info.attribute_names)
        # Where the source has no table, one that serves until the rows are counted.
        even = [[1.0 / info.num_attributes] * info.num_attributes] * info.num_labels
        self.correlation = info.correlation or Correlation(even)

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        if rows.attribute is None or bool((rows.attribute == UNKNOWN_ATTRIBUTE).any()):
            raise InputError(
                "TrueAttributes needs the attribute of every row that learns by it, and some have none: name it "
                f"by {format_option('data.attribute')} and fill it in, or take Given, which leaves rows unknown"
            )
        if self.info.correlation is None:
            sizes = self.info.num_labels, self.info.num_attributes
            self.correlation = Correlation.from_majority_attribute(rows.label, rows.attribute, *sizes)

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        assert self.rows.attribute is not None
        return self.rows.attribute

    def describe(self) -> str:
        return "the attribute labels of the training rows"
