"""Columns of numbers, dates and names of a table, as vectors for a network."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from logit_correction.data import features
from logit_correction.data.columns import Columns
from logit_correction.data.problems import OnBadRows, Problems, format_faults
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.data.table_inputs import InputColumns
from logit_correction.errors import InputError
from logit_correction.views.columns import told_apart

if TYPE_CHECKING:
    import pandas as pd

#: A column of this name says which rows are for what, also where nobody has named it: * leaves it out.
SPLIT = "split"


class Features(InputColumns):
    """Columns of numbers and dates, standardised by the training rows, and of names, each a 0 or 1 of its own."""

    def __init__(self, names: list[str], others: list[str], categorical: Sequence[str] = ()) -> None:
        """Choose the columns, and those whose numbers stand for names.

        * stands for all but ``others``, those of too many different texts, and a column split.

        Raises:
            InputError: A column of the latter is none of the former.
        """
        self.names, self.others, self.categorical = names, others, categorical
        for name in categorical:
            if name in others or (names != ["*"] and name not in names):
                raise InputError(f"--data.categorical {name} is none of the features: add it to --data.features")
        self.learnt: list[features.Column] = []
        self._last: Columns | None = None
        self._told: set[str] = set()

    def columns(self, frame: pd.DataFrame) -> list[str]:
        """Return the columns."""
        if self.learnt:
            return [column["name"] for column in self.learnt]
        if self.names != ["*"]:
            return self.names
        left_out = {*self.others, *self._left_out(frame)} | ({SPLIT} - set(self.categorical))
        return [name for name in frame.columns if name not in left_out]

    def _left_out(self, frame: pd.DataFrame) -> dict[str, int]:
        """Return how many different texts each column holds that * leaves out, since they are hardly categories."""
        numbers = self._numbers_of_names(frame, [name for name in frame.columns if name not in self.others])
        return {name: number for name, number in numbers.items() if features.hardly_categories(number, len(frame))}

    def _numbers_of_names(self, frame: pd.DataFrame, columns: list[str]) -> dict[str, int]:
        """Return how many different names each column of names holds."""
        read = self._converted(frame)
        return {name: len(read.different(name)[0]) for name in columns if read.kind(name) == "names"}

    def notes(self, frame: pd.DataFrame) -> list[str]:
        """Return which columns are left out, look like numbers, hold more names than are told apart, or have gaps."""
        notes = []
        left_out = self._left_out(frame) if self.names == ["*"] else {}
        if left_out:
            listed = format_faults([f"{name!r} ({number:,} different texts)" for name, number in left_out.items()])
            notes.append(f"columns that are no features, since few rows share a text: {listed}")
        most, columns = told_apart(len(frame)), self.columns(frame)
        examples = {name: self._converted(frame).written_number(name) for name in [*columns, *left_out]}
        written = [f"{name!r} (such as {example!r})" for name, example in examples.items() if example]
        if written:
            notes.append(
                f"columns that look like numbers, but are read as names: {format_faults(written)}; write plain "
                "numbers, such as 0.126 or 1037.5"
            )
        numbers = self._numbers_of_names(frame, columns)
        many = [f"{name!r} ({number:,})" for name, number in numbers.items() if number > most]
        if many:
            notes.append(
                f"columns of more names than {most}, of which the commonest {most} are told apart: "
                f"{format_faults(many)}"
            )
        gaps = features.gaps_of(self._converted(frame), columns)
        if gaps:
            listed = format_faults([f"{name!r} in {number:,} of {len(frame):,} rows" for name, number in gaps.items()])
            notes.append(
                f"columns with missing values: {listed}; a number or date that is missing counts as the mean of the "
                "training rows, and an input of its own says that it is missing"
            )
        return notes

    def keys(self, frame: pd.DataFrame, without: str | None) -> Iterable[Hashable]:
        """Return keys of the rows in which numbers stand for how they are written: that is thirty times as fast."""
        read = self._converted(frame)
        numeric = [name for name in self.columns(frame) if name != without and read.kind(name) == "numbers"]
        return super().keys(frame.assign(**{name: read.numbers(name) for name in numeric}), without)

    def note_faults(self, frame: pd.DataFrame, problems: Problems) -> None:
        """Note what is no number or no date in a column of such."""
        features.note_bad_features(self._converted(frame), self.columns(frame), problems)

    def store(self, frame: pd.DataFrame, problems: Problems, on_bad_rows: OnBadRows) -> InputStore:
        """Return a place holder: the vectors need the training rows, see ``finished``."""
        if not self.columns(frame):
            raise InputError(f"{problems.place} has no column left for features: name them by --data.features")
        return ArrayStore(torch.zeros(len(frame), 1))

    def finished(self, table: DataTable, frame: pd.DataFrame) -> DataTable:
        """Return the table with its vectors, and the columns as they were written."""
        self.learnt = features.learn_columns(self._converted(frame), self.columns(frame), table.split["train"])
        vectors = features.to_vectors(self._converted(frame), self.learnt)
        metadata = table.metadata | {"features": f"{vectors.shape[1]}, standardised by the training rows"}
        looks, self._last = self.looks(frame, None), None
        return replace(
            table, inputs=ArrayStore(vectors), metadata=metadata, preparation={"columns": self.learnt}, **looks
        )

    def looks(self, frame: pd.DataFrame, folder: Path | None) -> dict[str, Any]:
        """Return the columns as they were written."""
        own = [column for column in self.learnt if column["name"] not in self.others]
        return {"columns": features.plain_columns(self._converted(frame), own)}

    def prepare(self, preparation: Mapping[str, Any]) -> None:
        """Take over means and categories."""
        self.learnt = list(preparation.get("columns", []))

    def new(self, frame: pd.DataFrame, problems: Problems, folder: Path | None) -> InputStore:
        """Standardise new rows as those of training were."""
        store = ArrayStore(features.to_vectors(self._converted(frame), self.learnt, problems))
        features.warn_of_unknown_names(self._converted(frame), self.learnt, self._told)
        return store

    def _converted(self, frame: pd.DataFrame) -> Columns:
        """Return the columns of a frame; those of the last one are kept, since it is asked for several times."""
        if self._last is None or self._last.frame is not frame:
            self._last = Columns(frame, self.categorical)
        return self._last

    def scaled(self, values: Tensor) -> Tensor:
        """Standardise numbers; names, dates and what may be missing are none."""
        if any("categories" in column or column.get("date") or column.get("gaps") for column in self.learnt):
            what = "some features are names or dates, or may be missing"
            raise InputError(f"{what}: give the new rows as a data frame or a file")
        mean, deviation = (torch.tensor([column[key] for column in self.learnt]) for key in ("mean", "std"))
        return (values - mean) / deviation
