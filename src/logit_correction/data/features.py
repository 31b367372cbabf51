"""Columns of numbers, dates and names as vectors for a network, by what the training rows show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from logit_correction.data.frames import (
    FEWEST_ROWS,
    KINDS,
    NAMES,
    DateOrder,
    NumberFormat,
    check_columns,
    count_zoned,
    describe_order,
    find_far_date,
    find_kind,
    match_names,
    read_column,
    write_iso_dates,
)
from logit_correction.data.rows import MAX_SHOWN, FittedInputs, Reader, RowErrors, Rows
from logit_correction.data.stores import ArrayStore
from logit_correction.errors import InputError
from logit_correction.formatting import format_first, format_option
from logit_correction.views.tables import FEWEST_NAMES, compute_max_names, find_commonest_names

#: What a column was found to be: its name, its kind, and its categories, or mean and std of its numbers; ``gaps`` if
#: rows of any split had no value: true if training rows did. Among categories the empty text stands for no value.
#: ``order`` is what stands first in dates as they were written. ``hours`` are mean and std of the times of day of dates
#: that have such.
Column = dict[str, Any]

Days = TypeVar("Days", NDArray[Any], Tensor)


class ColumnReader(Reader):
    """Reads columns of numbers and dates, standardised by the training rows, and of names, each a 0 or 1 of its own.

    The time of day of dates is a number beside them, and a column of its own for views: ``NAME hour``.

    Attributes:
        learnt: What the training rows showed of each column that they tell apart.
        given: All columns, in their order: those of an array, and those that must not have changed.
        orders: What stands first in the dates of each column that was checked.
    """

    def __init__(
        self,
        names: Sequence[str] = ("*",),
        others: Sequence[str] = (),
        categorical: Sequence[str] = (),
        numbers: Sequence[str] = (),
        written: NumberFormat = NumberFormat(),  # noqa: B008
    ):
        """Choose the columns, and those of names or of numbers; * are all but ``others`` and free texts."""
        self.names, self.others, self.categorical = list(names), others, categorical
        self.numbers, self.written = numbers, written
        for option, chosen in (("categorical", categorical), ("numbers", numbers)):
            for name in chosen:
                if name in others or (self.names != ["*"] and name not in names):
                    raise InputError(
                        f"{format_option(f'data.{option}', name)} is none of the features: add it to "
                        f"{format_option('data.features')}"
                    )
        self.fitted_columns: list[Column] = []
        self.input_columns: list[str] = []
        self.orders: dict[str, DateOrder] = {}

    def validate(self, rows: Rows) -> tuple[dict[str, tuple[str, NDArray[Any]]], Sequence[str], list[str]]:
        """Return kind and values of each column; rows with no number or date in a column of such are noted."""
        if self.has_loaded_state:
            return self.validate_new(rows), rows.names, []
        assert rows.frame is not None
        every, frame, read = self.names == ["*"], rows.frame, {}
        names = [name for name in frame.columns if name not in self.others] if every else self.names
        check_columns(frame, rows.place, [*names, *self.categorical, *self.numbers])
        frame = self.written.plain(frame, names)
        left_out, convert_to_label_array, numbered, gaps = [], list[str](), list[str](), list[str]()
        day_first, month_first, in_zones, far_off = list[str](), list[str](), list[str](), list[str]()
        self.orders = {}
        good = rows.errors.good.numpy()  # what a kind is found by
        for name in names:
            kind, why, order = find_kind(frame.loc[good, name], self.written)
            if name in self.categorical:
                kind, why = NAMES, ""
            elif name in self.numbers:
                kind, why = "numbers", ""
            dates = write_iso_dates(frame[name], order) if kind == "dates" else frame[name]
            values = read_column(
                dates.to_frame() if kind == "dates" else frame,
                name,
                kind,
                rows.errors.add,
                foreign=name in self.numbers,
            )
            different = 0 if kind in KINDS else len(set(values.tolist()))
            if different > FEWEST_NAMES and different * FEWEST_ROWS > len(rows):
                if not every:
                    what = f"column {name!r} holds {different:,} different texts in {len(rows):,} rows"
                    what += why and f" ({why})"
                    raise InputError(
                        f"{what}: leave it out of the features, or give it as {format_option('data.text')}"
                    )
                left_out.append(f"{name!r} ({different:,} different texts, {why or f'such as {values[0][:40]!r}'})")
                continue
            of_its_own = every and kind == "numbers" and name not in self.numbers and len(rows) > FEWEST_NAMES
            if of_its_own and len(np.unique(values)) == len(rows) and (values % 1 == 0).all():
                numbered.append(repr(name))
                continue
            read[name] = kind, values
            self.orders[name] = order if kind == "dates" else ""
            if kind == "dates":
                example = order and describe_order(frame[name], order)
                if example:
                    (day_first if order == "day" else month_first).append(f"{name!r} ({example})")
                zoned = count_zoned(dates)
                if zoned:
                    in_zones.append(f"{name!r} in {zoned:,} of {len(rows):,} rows")
                far = find_far_date(np.asarray(values, np.float64))
                if far:
                    far_off.append(f"{name!r} ({far})")
            if why:
                convert_to_label_array.append(f"{name!r} ({why})")
            missing = int((np.isnan(values) if kind in KINDS else values == "").sum())
            if 0 < missing < len(rows):  # one that holds nothing is left out
                gaps.append(f"{name!r} in {missing:,} of {len(rows):,} rows")
        if not read:
            fault = f"{rows.place} has no column left for features: name them by {format_option('data.features')}"
            texts = f", or the column of texts by {format_option('data.text')}"
            texts += f": {format_first(left_out, MAX_SHOWN, '; ')}"
            raise InputError(fault + texts if left_out else fault)
        told = {
            f"columns left out of the features, since few rows share a text ({format_option('data.text')} reads "
            "texts)": left_out,
            "columns left out of the features, since every row has a whole number of its own, as identifiers do "
            f"({format_option('data.numbers')} keeps them)": numbered,
            "columns that look like numbers or dates, but are read as names": convert_to_label_array,
            f"columns of dates with the day first ({format_option('data.dayfirst')})": day_first,
            f"columns of dates with the month first ({format_option('data.dayfirst')})": month_first,
            "columns of dates of which some name their time zone, while the others count as UTC": in_zones,
            "columns of dates of which one lies so far off that all others count as nearly equal": far_off,
            "columns with missing values, which count as the mean of training or as one more name": gaps,
        }
        return read, rows.names, [f"{what}: {format_first(one, MAX_SHOWN, '; ')}" for what, one in told.items() if one]

    def load_state(self, preparation: Mapping[str, Any]) -> None:
        super().load_state(preparation)
        self.fitted_columns = list(preparation.get("columns", []))
        self.input_columns = list(preparation.get("given", [column["name"] for column in self.fitted_columns]))
        known = set(self.input_columns)
        wrong = known.intersection(self.others) if self.names == ["*"] else known.symmetric_difference(self.names)
        if self.fitted_columns and wrong:
            took = "', '".join(sorted(known))
            raise InputError(
                f"the run was trained on the columns '{took}': name these by {format_option('data.features')}"
            )

    def fit(self, read: Mapping[str, tuple[str, NDArray[Any]]], train: Tensor, problems: RowErrors) -> None:
        """Find out mean and deviation, or the categories, of each column over the training rows.

        Columns that are empty or the same in all of them are left out: nothing is learnt of what other values mean.
        """
        import pandas as pd

        good, rows = problems.good.numpy(), train.numpy()
        self.input_columns = list(read)
        varying = {name: column for name, column in read.items() if len(pd.unique(column[1][rows])) > 1}
        # Where none varies the table says that all inputs are equal.
        # By name, so that the order of columns changes nothing.
        self.fitted_columns = [
            _fit_column(name, *column, rows, good) for name, column in sorted((varying or read).items())
        ]
        for column in self.fitted_columns:
            if column["kind"] == "dates":
                column["order"] = self.orders.get(column["name"], "")

    def encode(self, read: Mapping[str, tuple[str, NDArray[Any]]], problems: RowErrors) -> FittedInputs:
        """Return the inputs that columns become.

        Views see the columns as they were written, but no attribute, though it be a feature.
        """
        import pandas as pd

        written = {column["name"]: read[column["name"]][1] for column in self.fitted_columns}
        numbers = []
        for column in self.fitted_columns:
            values = written[column["name"]]
            if "categories" in column:
                values = pd.Index(column["categories"], dtype=object).get_indexer(pd.Index(values))
            elif "gaps" not in column:  # only rows that are left out have some
                values = np.where(np.isnan(values), column["mean"], values)
            numbers.append(torch.from_numpy(np.asarray(values, np.float64)))
        store = ArrayStore(ColumnEncoder(self.fitted_columns)(torch.stack(numbers, 1)))
        hours = {
            f"{one['name']} hour": compute_hours(written[one["name"]]) for one in self.fitted_columns if "hours" in one
        }
        known = {**written, **hours, **written}  # a column that has the name of another's hours keeps it
        seen = {name: values for name, values in known.items() if name not in self.others}
        told = f"{store.input_shape[0]}, standardised by the training rows"
        preparation: dict[str, Any] = {"columns": self.fitted_columns}
        if self.input_columns != [*written]:
            preparation["given"] = self.input_columns
        left_out = [repr(name) for name in self.input_columns if name not in written]
        fact = "columns left out of the features, since they are empty or the same in all training rows: "
        notes = (fact + format_first(left_out, MAX_SHOWN),) if left_out else ()
        return FittedInputs(store, {"columns": seen}, {"features": told}, preparation, notes)

    def validate_new(self, rows: Rows) -> dict[str, tuple[str, NDArray[Any]]]:
        """Return kind and values of each column of training, found by its name, or by its place in an array."""
        import pandas as pd

        names, frame = [column["name"] for column in self.fitted_columns], rows.frame
        if frame is None:
            if rows.values is None or rows.values.shape[1:] != (len(self.input_columns),):
                every = ", ".join(self.input_columns)
                raise InputError(f"inputs must be a table with the columns {every}, or a number for each")
            frame = pd.DataFrame(rows.values, columns=self.input_columns)
        check_columns(frame, rows.place, names)
        frame = self.written.plain(frame, names)
        read: dict[str, tuple[str, NDArray[Any]]] = {}
        for column in self.fitted_columns:
            name, kind = column["name"], column["kind"]
            if kind == "dates":
                order = column.get("order", "day" if self.written.dayfirst else "")
                frame = frame.assign(**{name: write_iso_dates(frame[str(name)], order)})
            values = read_column(frame, name, kind, rows.errors.add, "gaps" in column, name in self.numbers)
            read[name] = kind, values
            if kind in KINDS:
                continue
            written_as = match_names(values.tolist(), column["categories"])
            values = np.asarray([written_as.get(value, value) for value in values.tolist()], dtype=object)
            read[name] = kind, values
            unknown = ~pd.Index(values).isin(column["categories"])
            if unknown.any():
                fact = f"column {name!r} holds names that the model was not trained to tell apart"
                count, example = int(unknown.sum()), repr(min(values[unknown]))
                rows.errors.remark(fact, "they count as none of the names", count, example)
        return read


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
        """Keep what training found out of each column."""
        super().__init__()
        self.columns = list(columns)
        for name, usual in (("mean", 0.0), ("std", 1.0)):  # as buffers, since ONNX holds plain floats in 32 bits
            values = [column.get(name, usual) for column in columns]
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))

    def forward(self, columns: Tensor) -> Tensor:
        """Return (n, F) float32."""
        numbers, hours, parts = (columns - self.mean) / self.std, compute_hours(columns), []
        for column, number, hour in zip(self.columns, numbers.split(1, 1), hours.split(1, 1), strict=True):
            if "categories" in column:
                parts.append((number == torch.arange(len(column["categories"]))).float())
                continue
            parts.append((torch.where(number.isnan(), 0.0, number) if "gaps" in column else number).float())
            parts += [number.isnan().float()] if column.get("gaps") else []
            if "hours" in column:
                mean, std = column["hours"]
                parts.append(torch.where(hour.isnan(), 0.0, (hour - mean) / std).float())
        return torch.cat(parts, dim=1)


def _fit_column(
    name: str, kind: str, values: NDArray[Any], train: NDArray[np.int64], good: NDArray[np.bool_]
) -> Column:
    if kind not in KINDS:
        return {
            "name": name,
            "kind": kind,
            "categories": sorted(find_commonest_names(values[train], compute_max_names(len(values)))),
        }
    present = values[train][np.isfinite(values[train])]
    mean, std = compute_mean_and_std(present) if len(present) else (0.0, 1.0)
    learnt: Column = {"name": name, "kind": kind, "mean": float(mean), "std": float(std)}
    if kind == "dates" and len(present) and np.ptp(hours := compute_hours(present)):
        learnt["hours"] = [float(hours.mean()), float(hours.std())]
    return learnt | ({"gaps": len(present) < len(train)} if np.isnan(values[good]).any() else {})


def compute_hours(days: Days) -> Days:
    """Return the time of day in hours, [0, 24), to the second: days are too coarse for less."""
    return (days % 1 * 86400).round() % 86400 / 3600


def compute_mean_and_std(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of numbers (n, ...) over the n; a deviation is 1 where numbers are all equal.

    Rounding alone makes numbers deviate from their mean, so that what is no larger than it counts as none.
    """
    mean, std = values.mean(axis=0), values.std(axis=0)
    varies = std > 10 * np.finfo(np.float64).eps * np.abs(mean)  # false where either is no number
    return mean, np.where(varies & (values.max(axis=0) > values.min(axis=0)), std, 1.0)
