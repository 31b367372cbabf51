"""Columns of numbers and names of a table, as vectors for a network."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from logit_correction.data import features
from logit_correction.data.problems import OnBadRows, Problems
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.data.table_inputs import InputColumns
from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


class Features(InputColumns):
    """Columns of numbers, standardised by the training rows, and of names, each turned into a 0 or 1 of its own."""

    def __init__(self, names: list[str], others: list[str]) -> None:
        """Choose the columns; * stands for all but ``others``."""
        self.names, self.others = names, others
        self.learnt: list[features.Column] = []
        self._last: features.Columns | None = None

    def columns(self, frame: pd.DataFrame) -> list[str]:
        """Return the columns."""
        if self.learnt:
            return [column["name"] for column in self.learnt]
        if self.names == ["*"]:
            return [name for name in frame.columns if name not in self.others]
        return self.names

    def keys(self, frame: pd.DataFrame, without: str | None) -> Iterable[Hashable]:
        """Return keys of the rows in which numbers stand for how they are written: that is thirty times as fast."""
        read = self._converted(frame)
        numeric = [name for name in self.columns(frame) if name != without and read.is_numeric(name)]
        return super().keys(frame.assign(**{name: read.numbers(name) for name in numeric}), without)

    def note_faults(self, frame: pd.DataFrame, problems: Problems) -> None:
        """Note gaps and what is no number."""
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
        return ArrayStore(features.to_vectors(self._converted(frame), self.learnt, problems))

    def _converted(self, frame: pd.DataFrame) -> features.Columns:
        """Return the columns of a frame; those of the last one are kept, since it is asked for several times."""
        if self._last is None or self._last.frame is not frame:
            self._last = features.Columns(frame)
        return self._last

    def scaled(self, values: Tensor) -> Tensor:
        """Standardise numbers; categories have none."""
        if any("categories" in column for column in self.learnt):
            raise InputError("some features are names: give the new rows as a data frame or a file")
        mean, deviation = (torch.tensor([column[key] for column in self.learnt]) for key in ("mean", "std"))
        return (values - mean) / deviation
