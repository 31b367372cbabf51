"""Attributes that are known row by row: from a file or a column of the user's, or from the labels of the data set."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.data.cells import check_required_column_names, convert_attributes_to_texts
from logit_correction.data.labels import find_name_positions
from logit_correction.data.row_file import RowFile
from logit_correction.errors import InputError
from logit_correction.formatting import format_option
from logit_correction.types import UNKNOWN_ATTRIBUTE, Correlation, TrainingRows
from logit_correction.unicode_text import normalize_text

MAX_COLUMN_VALUES = 100  # a column with more values is a measurement or an identifier, not an attribute


class Given(AttributeEstimator):
    """Attributes from a file, or from a feature column of the data; rows without one stay unknown.

    Use it if the attribute was recorded or annotated, also for a part of the rows only: an unknown row is not
    corrected.

    The file, CSV or Parquet, has one row for each row of the data that it names, in any order. One of three columns
    names the row: ``row`` is its number in the data set, from 0, as in the audit. ``line`` is its line in a CSV, from
    2, as ``predict`` writes it. ``path`` is its file, with or without folders. The column ``attribute`` holds the
    attribute's name. An empty cell, or -1, is unknown. A column ``label`` must agree with the data.

    A label's majority is its commonest value. The report has it as ``given attribute``.
    """

    def __init__(self, file: str | None = None, column: str | None = None) -> None:
        """Choose where the attributes are read from.

        Args:
            file: CSV or Parquet file.
            column: Without a file, the feature column of the data, with 2 to 100 different values; with a file its
                column of attribute names, ``attribute`` by default.

        Raises:
            InputError: Neither is given.
        """
        super().__init__()
        if file is None and column is None:
            option = format_option("method.attributes.file")
            raise InputError(f"Given needs a file, or a column of the data: give {option}")
        self.file = None if file is None else Path(file).expanduser()
        self.column = column and normalize_text(column)

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        names = self._read_attribute_column(rows) if self.file is None else self._read_attribute_file(self.file, rows)
        self.attribute_names = sorted({name for name in names if name is not None})
        self.given_attribute = find_name_positions(names, self.attribute_names)
        self.correlation = Correlation.from_majority_attribute(
            rows.label, self.given_attribute, self.info.num_labels, len(self.attribute_names)
        )

    def _read_attribute_column(self, rows: TrainingRows) -> list[str | None]:
        """Return the attribute name of each row in the feature column, None where unknown."""
        columns = {} if rows.view_inputs is None else rows.view_inputs.columns
        column = str(self.column)
        check_required_column_names(columns, "the data", [column])
        names = convert_attributes_to_texts(columns[column])
        count = len({*names} - {None})
        if not 1 < count <= MAX_COLUMN_VALUES:
            raise InputError(
                f"column {self.column!r} has {count} different values: name one of 2 to {MAX_COLUMN_VALUES}"
            )
        return names

    def _read_attribute_file(self, file: Path, rows: TrainingRows) -> list[str | None]:
        """Return the attribute name of each row in the file, None where unknown."""
        row_file = RowFile(file)
        column = self.column or "attribute"
        names = [None if name == "-1" else name for name in row_file.get_values(column, rows)]
        if names.count(None) == len(names):
            raise InputError(
                f"{file} gives no attribute to the rows that learn by it: fill in its column {column}. Its column "
                f"{row_file.key} has values such as {row_file.names[0]!r}, which must name training rows (for "
                "LastLayer validation rows, which an audit of the run lists in rows.csv)"
            )
        if column != "label" and "label" in row_file.frame:
            row_file.check_labels(rows, self.info.label_names)
        return names

    def assign_training(self, outputs: Tensor) -> Tensor:
        return self.given_attribute

    def list_estimate_warnings(self) -> list[str]:
        num_unknown = int((self.row_attribute < 0).sum())
        if not num_unknown:
            return []
        rows = f"{num_unknown:,} of {len(self.row_attribute):,} training rows"
        return [f"{rows} have no attribute in {self.describe()}: not corrected"]

    def describe(self) -> str:
        return f"the column {self.column} of the data" if self.file is None else f"the file {self.file.name}"


class TrueAttributes(AttributeEstimator):
    """The attribute labels of the training rows: the oracle with which estimators are compared.

    It reads every training row's attribute label, and the report states that. A label's majority is that of the data
    source's table, or without a table the label's commonest value.
    """

    needs_attributes = True

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        if rows.attribute is None or (rows.attribute == UNKNOWN_ATTRIBUTE).any():
            raise InputError(
                "TrueAttributes needs the attribute of every row that learns by it, and some have none: name it "
                f"by {format_option('data.attribute')} and fill it in, or take Given, which leaves rows unknown"
            )
        self.attribute_names = list(self.info.attribute_names)
        self.correlation = self.info.correlation or Correlation.from_majority_attribute(
            rows.label, rows.attribute, self.info.num_labels, self.info.num_attributes
        )

    def assign_training(self, outputs: Tensor) -> Tensor:
        assert self.rows.attribute is not None
        return self.rows.attribute

    def describe(self) -> str:
        return "the attribute labels of the training rows"
