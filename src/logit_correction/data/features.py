"""Columns of numbers, dates and names as vectors for a network, by what the training rows show.

Numbers and dates are standardised, each name of a column of names becomes a 0 or 1 of its own, and a missing value is
the mean and, if training rows had gaps, a flag. Columns that cannot help a network are left out and named: texts that
hardly any rows share, numbers that merely count the rows, and columns that never vary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from logit_correction.data.cells import check_required_columns, convert_to_texts, match_numeric_names
from logit_correction.data.column_kinds import (
    KINDS,
    MIN_ROWS_PER_NAME,
    NAMES,
    ColumnKind,
    NumberFormat,
    describe_likely_thousands,
    describe_missing_code,
    infer_column_kind,
    list_present_texts,
    parse_column,
)
from logit_correction.data.dates import YEAR_LAST, DateOrder, describe_dates, have_zones, infer_date_order
from logit_correction.data.ranges import compute_range, remark_on_values_out_of_range
from logit_correction.data.reader import PreparedInputs, Reader, compute_mean_and_std
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.stores import ArrayStore
from logit_correction.errors import InputError
from logit_correction.formatting import format_first, format_option
from logit_correction.types import Array
from logit_correction.views.tables import (
    MAX_CATEGORIES_OF_MANY_ROWS,
    compute_max_categories,
    find_missing_values,
    find_most_frequent_categories,
)

#: Columns that people know rows by, and characters of their values, which descriptions of rows begin with.
MAX_IDENTIFIERS = 4
IDENTIFIER_LENGTH = 60

#: A column as it was fitted: its name, its kind, and its categories, or mean and std of its numbers; ``gaps`` if rows
#: of any split had no value: true if training rows did. Among categories the empty text stands for no value. ``order``
#: is what stands first in dates as they were written, ``zoned`` whether they name their zone. ``hours`` are mean and
#: std of the times of day of dates that have such. ``range`` and ``rows`` are least, greatest and number of the values
#: of training.
Column = dict[str, Any]

#: Name -> kind and values (n,) of each column of a table.
ParsedColumns = dict[str, tuple[ColumnKind, Array]]

Days = TypeVar("Days", Array, Tensor)

#: What users should know of columns, in the order in which it is printed.
NOTES = {
    "text": "columns left out of the features, since few rows share a text ({text} reads texts, {path} image files)",
    "identifier": "columns left out of the features, since every row has a whole number of its own, as identifiers do "
    "({numbers} keeps them)",
    "doubt": "columns that look like numbers or dates, but are read as names",
    "thousands": "columns of numbers in which a point or a comma may stand between thousands ({decimal} and "
    "{thousands} say so)",
    "day": "columns of dates with the day first ({dayfirst})",
    "month": "columns of dates with the month first ({dayfirst})",
    "zone": "columns of dates in which some name their time zone, while the others count as UTC",
    "far": "columns of dates in which one lies so far off that all others count as nearly equal",
    "code": "columns of numbers in which one of nines lies far off (leave its cells empty, if it means missing)",
    "gaps": "columns with missing values, which count as the mean of training or as one more name",
}

#: The options that they name.
OPTIONS_OF_NOTES = ("text", "path", "numbers", "dayfirst", "decimal", "thousands")


class ColumnReader(Reader):
    """Reads columns of numbers and dates, standardised by the training rows, and of names, each a 0 or 1 of its own.

    The time of day of dates is a number next to them, and a column of its own for views: ``NAME hour``.

    Attributes:
        fitted_columns: What the training rows showed of each column that varies in them.
        input_columns: All columns, in their order: those of an array, and those that must not have changed.
    """

    def __init__(
        self,
        names: Sequence[str] = ("*",),
        others: Sequence[str] = (),
        categorical: Sequence[str] = (),
        numbers: Sequence[str] = (),
        number_format: NumberFormat = NumberFormat(),  # noqa: B008
    ):
        """Choose the columns.

        Args:
            names: The columns; * takes all but ``others`` and free texts.
            others: Columns that are not features. One that is named as a feature all the same is not shown to views.
            categorical: Columns of names, also if the names are numbers.
            numbers: Columns of numbers, whose other cells are gaps.
            number_format: How numbers and dates are written.
        """
        self.names = list(names)
        self.takes_all_columns = self.names == ["*"]
        self.others = others
        self.chosen_kinds = {name: ColumnKind("numbers") for name in numbers}
        self.chosen_kinds |= {name: ColumnKind(NAMES) for name in categorical}
        self.numbers = numbers
        self.number_format = number_format
        for name, kind in self.chosen_kinds.items():
            if name in others or not (self.takes_all_columns or name in names):
                option = "numbers" if kind.name == "numbers" else "categorical"
                raise InputError(
                    f"{format_option(f'data.{option}', name)} is not one of the features"
                    f": add it to {format_option('data.features')}"
                )
        self.fitted_columns: dict[str, Column] = {}
        self.input_columns: list[str] = []

    def validate(self, rows: Rows) -> tuple[ParsedColumns, Sequence[str], list[str]]:
        """Return kind and values of each column; rows with no number or date in a column of such are noted."""
        if self.has_loaded_state:
            return self.validate_new(rows), rows.names, []
        assert rows.frame is not None
        names = [str(name) for name in rows.frame if name not in self.others] if self.takes_all_columns else self.names
        check_required_columns(rows.frame, rows.place, [*names, *self.chosen_kinds])
        frame = self.number_format.normalize(rows.frame, names)
        notes: dict[str, list[str]] = defaultdict(list)
        columns: ParsedColumns = {}
        is_good = rows.errors.is_good.numpy()  # rows by which kinds are inferred
        for name in names:
            cells = frame[name]
            kind = self.chosen_kinds.get(name) or infer_column_kind(cells[is_good], self.number_format)
            values = parse_column(cells, kind, rows.errors, coerce=name in self.numbers)
            reason, example = self._find_reason_to_leave_out(name, kind, cells, values, rows.place)
            if reason:
                notes[reason].append(f"{name!r}{example}")
                continue
            columns[name] = kind, values
            missing = find_missing_values(values).sum()
            examples = {
                "doubt": kind.doubt and f" ({kind.doubt})",
                "code": describe_missing_code(values) if kind.name == "numbers" else "",
                "thousands": self._describe_likely_thousands(rows.frame[name]) if kind.name == "numbers" else "",
                "gaps": f" in {missing:,} of {len(rows):,} rows" if 0 < missing < len(rows) else "",
            }
            if kind.name == "dates":
                examples |= describe_dates(list_present_texts(cells), values, kind.order)
            for key, example in examples.items():
                if example:
                    notes[key].append(f"{name!r}{example}")
        if not columns:
            fault = f"{rows.place} has no column left for features: name them by {format_option('data.features')}"
            if notes["text"]:
                texts_left_out = format_first(notes["text"], separator="; ")
                fault += f", or the column of texts by {format_option('data.text')}: {texts_left_out}"
            raise InputError(fault)
        options = {name: format_option(f"data.{name}") for name in OPTIONS_OF_NOTES}
        sentences = [
            f"{sentence.format(**options)}: {format_first(notes[key], separator='; ')}"
            for key, sentence in NOTES.items()
            if notes[key]
        ]
        return columns, rows.names, sentences

    def _describe_likely_thousands(self, cells: pd.Series[Any]) -> str:
        """Return numbers of a column of texts that may be thousands; "" if the user said how numbers are written."""
        if self.number_format.thousands or self.number_format.decimal or cells.dtype.kind != "O":
            return ""
        return describe_likely_thousands(cells)

    def _find_reason_to_leave_out(
        self, name: str, kind: ColumnKind, cells: pd.Series[Any], values: Array, place: str
    ) -> tuple[str, str]:
        """Return the key of ``NOTES`` of a column that is not a feature, and an example of its values; else "".

        Args:
            name: The column.
            kind: What it holds.
            cells: (n,) its cells.
            values: (n,) what they were parsed as.
            place: What messages call the rows.

        Raises:
            InputError: The user named the column as a feature.
        """
        if kind.name == NAMES:
            different = len(pd.unique(values))
            may_be_text = self.takes_all_columns and name not in self.chosen_kinds
            names_each_row = may_be_text and different == len(values) > MIN_ROWS_PER_NAME
            is_short = different <= MAX_CATEGORIES_OF_MANY_ROWS and not names_each_row
            if is_short or different * MIN_ROWS_PER_NAME <= len(values):
                return "", ""
            if not self.takes_all_columns:
                fault = f"column {name!r} holds {different:,} different texts in {len(values):,} rows"
                fault += f" ({kind.doubt})" if kind.doubt else ""
                remedy = f"leave it out of the features, or give it as {format_option('data.text')}"
                raise InputError(f"{place}: {fault}: {remedy}")
            example = kind.doubt or f"such as {values[0][:40]!r}"
            return "text", f" ({different:,} different texts, {example})"
        may_be_identifier = self.takes_all_columns and kind.name == "numbers" and name not in self.numbers
        if not may_be_identifier or len(values) <= MAX_CATEGORIES_OF_MANY_ROWS or (values % 1 != 0).any():
            return "", ""
        return "identifier" if cells.nunique() == len(values) else "", ""  # of the cells: floats round long numbers

    def load_state(self, preparation: Mapping[str, Any]) -> None:
        super().load_state(preparation)
        self.fitted_columns = {column["name"]: column for column in preparation.get("columns", ())}
        self.input_columns = list(preparation.get("given", self.fitted_columns))
        trained = set(self.input_columns)
        changed = trained & set(self.others) if self.takes_all_columns else trained ^ set(self.names)
        if self.fitted_columns and changed:
            names = "', '".join(sorted(trained))
            raise InputError(
                f"the run was trained on the columns '{names}': name these by {format_option('data.features')}"
            )

    def fit(self, parsed_rows: ParsedColumns, train_rows: Tensor, errors: RowErrors) -> None:
        """Compute mean and deviation, or the categories, of each column over the training rows.

        Columns that are empty or the same in all of them are left out: they do not show what other values mean.
        """
        is_good = errors.is_good.numpy()
        rows = train_rows.numpy()
        self.input_columns = list(parsed_rows)
        varying = [name for name, (_, values) in parsed_rows.items() if len(pd.unique(values[rows])) > 1]
        # By name: the order of columns changes nothing. ``DataTable.check`` refuses a table in which none varies.
        self.fitted_columns = {
            name: _fit_column(name, *parsed_rows[name], rows, is_good) for name in sorted(varying or parsed_rows)
        }

    def build_inputs(self, parsed_rows: ParsedColumns, errors: RowErrors) -> PreparedInputs:
        """Return the inputs that columns become.

        Views see the columns as they were written, but no attribute, even if it is a feature.
        """
        numbers = []
        view_columns = {name: parsed_rows[name][1] for name in self.fitted_columns}
        left_out = [repr(name) for name in self.input_columns if name not in view_columns]
        for name, column in self.fitted_columns.items():
            values = parsed_rows[name][1]
            if "hours" in column:  # a column named as another's hours keeps its name
                view_columns.setdefault(f"{name} hour", compute_hours(values))
            if "categories" in column:
                values = pd.Index(column["categories"], dtype=object).get_indexer(pd.Index(values))
            elif "gaps" not in column:  # only rows that are left out have some
                values = np.where(np.isnan(values), column["mean"], values)
            numbers.append(torch.from_numpy(np.asarray(values, np.float64)))
        columns = list(self.fitted_columns.values())
        store = ArrayStore(ColumnEncoder(columns)(torch.stack(numbers, 1)))
        preparation: dict[str, Any] = {"columns": columns}
        if self.input_columns != [*self.fitted_columns]:
            preparation["given"] = self.input_columns
        fact = "columns left out of the features, since they are empty or the same in all training rows: "
        return PreparedInputs(
            inputs=store,
            forms={"columns": {name: values for name, values in view_columns.items() if name not in self.others}},
            metadata={"features": f"{store.input_shape[0]}, standardised by the training rows"},
            preparation=preparation,
            notes=(fact + format_first(left_out),) if left_out else (),
        )

    def validate_new(self, rows: Rows) -> ParsedColumns:
        """Return kind and values of each column of training, found by its name, or by its place in an array."""
        frame = rows.frame
        if frame is None:
            if rows.values is None or rows.values.shape[1:] != (len(self.input_columns),):
                names = ", ".join(self.input_columns)
                raise InputError(f"inputs must be a table with the columns {names}, or a number for each")
            frame = pd.DataFrame(rows.values, columns=self.input_columns)
        check_required_columns(frame, rows.place, [*self.fitted_columns])
        frame = self.number_format.normalize(frame, [*self.fitted_columns])
        columns: ParsedColumns = {}
        for name, column in self.fitted_columns.items():
            order = column.get("order", "day" if self.number_format.dayfirst else "")
            kind = ColumnKind(column["kind"], order=order)
            if kind.name == "dates" and frame[name].dtype.kind not in "iufbMm":
                _check_date_order(frame[name], order, rows.errors)
            if kind.name == "dates":
                _remark_on_zones(frame[name], column, rows.errors)
            values = parse_column(frame[name], kind, rows.errors, "gaps" in column, name in self.numbers)
            if kind.name == NAMES:
                matches = match_numeric_names(values, column["categories"])
                values = np.asarray([matches.get(value, value) for value in values], dtype=object)
                unknown = values[rows.errors.is_good.numpy() & ~pd.Index(values).isin(column["categories"])]
                if len(unknown):
                    fact = f"column {name!r} holds names that the model was not trained on"
                    rows.errors.add_remark(fact, "they count as none of the names", len(unknown), repr(min(unknown)))
            columns[name] = kind, values
        return columns

    def read_identifier_columns(self, rows: Rows) -> dict[str, list[str]]:
        """Return name -> texts of columns that were left out, since hardly any rows share a value: names and numbers.

        None are returned where features were named: what else a table holds may be anything.
        """
        if rows.frame is None or not self.takes_all_columns:
            return {}
        names = [name for name in rows.frame if name not in (*self.input_columns, *self.others)][:MAX_IDENTIFIERS]
        texts = {str(name): convert_to_texts(rows.frame[name]) for name in names}
        return {name: [(text or "")[:IDENTIFIER_LENGTH] for text in values] for name, values in texts.items()}

    def remark_on_new(self, parsed_rows: ParsedColumns, errors: RowErrors) -> None:
        """Note columns of numbers and dates whose values lie outside of those of training."""
        for name, column in self.fitted_columns.items():
            kind, values = parsed_rows[name]
            if kind.name != NAMES:
                remark_on_values_out_of_range(column, values, errors, KINDS[kind.name].format)


def _check_date_order(values: pd.Series[Any], order: DateOrder, errors: RowErrors) -> None:
    """Note all dates of a new column as bad if some of them show that it has another order than that of training."""
    texts = convert_to_texts(values)
    if {order, infer_date_order([text for text in texts if text])} != {"day", "month"}:
        return
    for row, text in enumerate(texts):
        if YEAR_LAST.match(text or ""):
            fault = f"has dates with the {order} first in training, and here in another order (write 2024-12-31)"
            errors.add(row, f"column {values.name!r} {fault}")


def _remark_on_zones(values: pd.Series[Any], column: Column, errors: RowErrors) -> None:
    """Note times of a new column that name their zone where those of training do not, and the reverse."""
    zoned = column.get("zoned")
    if zoned is None or "hours" not in column:
        return
    texts = [text for text in convert_to_texts(values) if text and ":" in text and have_zones([text]) != zoned]
    if texts:
        forms = ("with", "without") if zoned else ("without", "with")
        fact = f"column {column['name']!r} has times {forms[0]} a time zone in training, and {forms[1]} one"
        errors.add_remark(fact, "times without a zone count as UTC", len(texts), repr(texts[0]))


class ColumnEncoder(nn.Module):
    """Columns (n, C) as they were written -> standardised numbers, and a 0 or 1 for each name, (n, F).

    A name is given by its place among the column's names, and anything else, such as -1, is a name that training did
    not know: all zeros. A date is given by the days since 1970. A missing number is NaN, in columns that had gaps: it
    becomes the mean, 0, and where training rows had gaps also 1 in a number of its own. Numbers are taken in double
    precision, for a large one would lose digits before its mean is taken off.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, columns: Sequence[Column]) -> None:
        """Keep what training found of each column."""
        super().__init__()
        self.columns = list(columns)
        for name, default in (("mean", 0.0), ("std", 1.0)):  # as buffers, since ONNX holds plain floats in 32 bits
            values = [column.get(name, default) for column in columns]
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))

    def forward(self, columns: Tensor) -> Tensor:
        """Return (n, F) float32."""
        numbers = (columns - self.mean) / self.std
        hours = compute_hours(columns)
        parts = []
        for column, number, hour in zip(self.columns, numbers.split(1, 1), hours.split(1, 1), strict=True):
            if "categories" in column:
                parts.append((number == torch.arange(len(column["categories"]))).float())
                continue
            parts.append((torch.where(number.isnan(), 0.0, number) if "gaps" in column else number).float())
            if column.get("gaps"):
                parts.append(number.isnan().float())
            if "hours" in column:
                mean, std = column["hours"]
                parts.append(torch.where(hour.isnan(), 0.0, (hour - mean) / std).float())
        return torch.cat(parts, dim=1)


def _fit_column(
    name: str, kind: ColumnKind, values: Array, train_rows: NDArray[np.int64], is_good: NDArray[np.bool_]
) -> Column:
    column: Column = {"name": name, "kind": kind.name}
    if kind.name == NAMES:
        names = find_most_frequent_categories(values[train_rows], compute_max_categories(len(values)))
        return {**column, "categories": sorted(names)}
    present = values[train_rows][np.isfinite(values[train_rows])]
    mean, std = compute_mean_and_std(present) if len(present) else (0.0, 1.0)
    column |= {"mean": float(mean), "std": float(std), **compute_range(present)}
    if kind.name == "dates":
        column |= {"order": kind.order, "zoned": kind.zoned}
        hours = compute_hours(present)
        if len(present) and np.ptp(hours):
            column["hours"] = [float(hours.mean()), float(hours.std())]
    if np.isnan(values[is_good]).any():
        column["gaps"] = len(present) < len(train_rows)
    return column


def compute_hours(days: Days) -> Days:
    """Return the time of day in hours, [0, 24), to the second: days are too coarse for less."""
    return (days % 1 * 86400).round() % 86400 / 3600
