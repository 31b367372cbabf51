"""The table that every data source builds: rows with a split, a label, maybe an attribute, and an input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from logit_correction.correlation import Correlation
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.types import DataInfo, InputError

#: The attribute of a row where nobody has recorded it.
UNKNOWN = -1

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class DataTable:
    """M rows of all splits together.

    Attributes:
        inputs: Store of the M inputs.
        label: (M,) long, 0..L-1.
        attribute: (M,) long, 0..K-1, or -1 where unknown.
        split: For each of train, valid and test the rows (n,) long that belong to it.
        label_names: L names.
        attribute_names: K names.
        correlation: Category-level correlation, where the source knows it.
        facts: What a reader of a result must know of the data (sizes, seeds, jitter, scaling, source).
    """

    inputs: InputStore
    label: Tensor
    attribute: Tensor
    split: Mapping[str, Tensor]
    label_names: Sequence[str]
    attribute_names: Sequence[str]
    correlation: Correlation | None = None
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def info(self) -> DataInfo:
        """Sizes and names for the methods."""
        return DataInfo(
            num_labels=len(self.label_names),
            num_rows=len(self.split["train"]),
            input_shape=self.inputs.input_shape,
            num_attributes=len(self.attribute_names),
            label_names=tuple(self.label_names),
            attribute_names=tuple(self.attribute_names),
            correlation=self.correlation,
        )

    def has_attributes(self, split: str) -> bool:
        """Return whether every row of ``split`` has a known attribute."""
        return bool((self.attribute[self.split[split]] != UNKNOWN).all())

    def group_counts(self, split: str) -> Tensor:
        """Return the number of rows per group of ``split``, (L, K) long; rows of unknown attribute are left out."""
        rows = self.split[split]
        label, attribute = self.label[rows], self.attribute[rows]
        known = attribute != UNKNOWN
        num_attributes = len(self.attribute_names)
        cell = label[known] * num_attributes + attribute[known]
        counts = torch.bincount(cell, minlength=len(self.label_names) * num_attributes)
        return counts.reshape(len(self.label_names), num_attributes)

    def check(self) -> DataTable:
        """Return the table itself if it can be trained on.

        Raises:
            InputError: Says what is wrong and how to mend it: an empty split, labels that are not 0..L-1, only
                one label in training, or inputs that are not finite.
        """
        for name in SPLITS:
            if len(self.split.get(name, ())) == 0:
                raise InputError(f"the {name} split has no rows: give rows to it, or let the source make a split")
        present = torch.bincount(self._checked_labels(), minlength=len(self.label_names)) > 0
        if int(present.sum()) < 2:
            raise InputError("the training split holds one label only: a classifier needs rows of at least two labels")
        if not bool(present.all()):
            missing = [self.label_names[i] for i in (~present).nonzero().flatten().tolist()]
            raise InputError(
                f"the training split has no row with label {', '.join(missing)}: drop the label or add rows"
            )
        if bool(((self.attribute < UNKNOWN) | (self.attribute >= len(self.attribute_names))).any()):
            raise InputError(f"attributes must be 0..{len(self.attribute_names) - 1}, or {UNKNOWN} where unknown")
        self._check_finite()
        return self

    def _checked_labels(self) -> Tensor:
        bad = ((self.label < 0) | (self.label >= len(self.label_names))).nonzero().flatten()
        if len(bad):
            row = int(bad[0])
            raise InputError(
                f"labels must be 0..{len(self.label_names) - 1}, but row {row} has label {int(self.label[row])} "
                f"({len(bad)} such rows): renumber the labels"
            )
        return self.label[self.split["train"]]

    def _check_finite(self, chunk: int = 4096) -> None:
        for start in range(0, len(self.inputs), chunk):
            rows = torch.arange(start, min(start + chunk, len(self.inputs)))
            fetched = self.inputs.fetch(rows)
            for part in fetched.values() if isinstance(fetched, dict) else (fetched,):
                finite = torch.isfinite(part).reshape(len(part), -1).all(1)
                if not bool(finite.all()):
                    row = start + int((~finite).nonzero()[0])
                    raise InputError(f"the input of row {row} holds NaN or infinity: mend or remove the row")


class DataSource(ABC):
    """A data set with its options; the constructor's signature is what the command line offers.

    A new source is one file with one subclass, and one line in ``logit_correction.data.SOURCES``.

    Attributes:
        scale: What inputs, bytes brought to [0, 1] before, are multiplied by.
    """

    scale: float = 1.0

    @abstractmethod
    def build(self) -> DataTable:
        """Read or make the data.

        Raises:
            InputError: If a file is missing or damaged; the message names it and says how to mend it.
        """

    def read_new(self, paths: Sequence[Path]) -> InputStore:
        """Read new picture files in the form that this source's networks take.

        Raises:
            InputError: If the source cannot read new files or a file is damaged.
        """
        raise InputError(f"{type(self).__name__} cannot read new files")

    def as_store(self, values: Tensor) -> InputStore:
        """Return new inputs (n, *input_shape) in the form that this source's networks take."""
        return ArrayStore(values, self.scale)
