"""The table that every data source builds: rows with a split, a label, maybe an attribute, and a store of inputs.

Everything above it (methods, views, reports) reads this one class, whether the rows are photos, texts or columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.augment import Augmentation
from logit_correction.data.cache import compute_digest
from logit_correction.data.column_kinds import KINDS, list_column_inputs
from logit_correction.data.splits import SPLITS
from logit_correction.data.stores import ArrayStore, InputStore, build_view_inputs
from logit_correction.errors import InputError
from logit_correction.formatting import format_value
from logit_correction.functional import count_groups
from logit_correction.types import ROWS_PER_CHUNK, UNKNOWN_ATTRIBUTE, Array, Correlation, DataInfo, ViewInputs

#: Characters of a text that are shown to people.
SHOWN_CHARACTERS = 2000

#: The end of the name of a column that holds the times of day of another.
HOUR_SUFFIX = " hour"


@dataclass(frozen=True)
class DataTable:
    """M rows of all splits together.

    Seven fields are what a training needs: ``inputs``, ``label``, ``attribute``, ``split``, both names, and
    ``correlation`` if it is known. ``texts``, ``columns``, ``files`` and ``lines`` are the same rows in the forms in
    which views, people and files of attributes look at them. The others describe the data in reports.

    Attributes:
        inputs: Store of the M inputs.
        label: (M,) long, 0..L-1.
        attribute: (M,) long, 0..K-1, or -1 where unknown.
        split: For each of train, valid and test the rows (n,) long that belong to it.
        label_names: L names.
        attribute_names: K names.
        correlation: Category-level correlation, if the source has one.
        metadata: What a reader of a result must know of the data (sizes, seeds, jitter, scaling, source).
        evaluation_groups: Groups to evaluate on, where they are not label x attribute.
        notes: What a user should know of the data, found without a look at attributes.
        attribute_notes: What attributes add, such as groups of other sizes than the published ones.
        augment: Changes the images of training batches at random; evaluation sees them as they are.
        row_names: M names for people: a file, the beginning of a text; None where rows are only numbered.
        preparation: What was fitted to the training rows and new inputs need (means, vocabularies), as plain values;
            kept with the run and given to ``Reader.load_state`` before new inputs are read.
        texts: M texts that the inputs were made of, for views to look at.
        columns: Those of features alone: name -> (M,) numbers, NaN where missing, or names, "" where missing.
        files: M files that the rows were read from; their names may give the label away, so views look only inside.
        lines: (M,) long, the line of a CSV in which each row stands, the header being line 1; None for other data.
        unit: (M,) long, equal for rows that are drawn into one split together, as of one patient; None without such.
        ordered: Whether the rows stand as their owner keeps them. Where the source itself put them in order by label
            or attribute, as with a folder for each label, no view may look at their place.
        label_kind: What labels were before they were made texts: ``str``, ``int``, ``float`` or ``bool``.
        drawn: Which of valid and test were drawn from the same rows as the training split, and not given.
        identifiers: Name -> M texts of columns that are not features, by which people know rows.
    """

    inputs: InputStore
    label: Tensor
    attribute: Tensor
    split: Mapping[str, Tensor]
    label_names: Sequence[str]
    attribute_names: Sequence[str]
    correlation: Correlation | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    evaluation_groups: EvaluationGroups | None = None
    notes: tuple[str, ...] = ()
    attribute_notes: tuple[str, ...] = ()
    augment: Augmentation | None = None
    row_names: Sequence[str] | None = None
    preparation: dict[str, Any] = field(default_factory=dict)
    texts: Sequence[str] | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)
    files: Sequence[Path] | None = None
    lines: Tensor | None = None
    unit: Tensor | None = None
    ordered: bool = True
    label_kind: str = "str"
    drawn: tuple[str, ...] = ()
    identifiers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for field_name in ("label_names", "attribute_names"):  # a source may give numbers
            object.__setattr__(self, field_name, list(map(str, getattr(self, field_name))))

    def view_inputs(self, split: str = "train") -> ViewInputs:
        """Return the rows of ``split``, in its order, as views may look at them: without labels and attributes."""
        position = np.arange(len(self.label)) if self.ordered else None
        forms = {"texts": self.texts, "columns": self.columns, "files": self.files, "position": position}
        return build_view_inputs(self.inputs, forms).take(self.split[split])

    @property
    def info(self) -> DataInfo:
        """Sizes and names for the methods."""
        input_names = list_column_inputs(self.preparation.get("columns", ()))
        return DataInfo(
            num_labels=len(self.label_names),
            num_rows=len(self.split["train"]),
            input_shape=self.inputs.input_shape,
            num_attributes=len(self.attribute_names),
            label_names=tuple(self.label_names),
            attribute_names=tuple(self.attribute_names),
            correlation=self.correlation,
            tokens=self.inputs.holds_tokens,
            words=self.inputs.holds_words,
            augmented=self.augment is not None,
            input_names=input_names if (len(input_names),) == self.inputs.input_shape else (),
        )

    def has_attributes(self, split: str) -> bool:
        """Return whether every row of ``split`` has a known attribute."""
        return bool((self.attribute[self.split[split]] != UNKNOWN_ATTRIBUTE).all())

    def count_groups(self, split: str) -> Tensor:
        """Return the number of rows per group of ``split``, (L, K) long; rows of unknown attribute are left out."""
        rows = self.split[split]
        return count_groups(self.label[rows], self.attribute[rows], len(self.label_names), len(self.attribute_names))

    def describe_rows(self, rows: Tensor, first_columns: Sequence[str] = (), max_columns: int = 8) -> list[str] | None:
        """Return what rows hold, for people: of texts their beginning, of tables some columns; None of other data.

        Args:
            rows: (n,) long.
            first_columns: Columns that come first.
            max_columns: Columns that are shown; the others are counted.
        """
        if self.texts is not None:
            return [str(self.texts[row])[:SHOWN_CHARACTERS] for row in rows.tolist()]
        if not self.columns:
            return None
        fields = self.list_row_fields(rows, first_columns, max_columns)
        num_more = len(self.columns) - max_columns
        more = f" and {num_more} more" if num_more > 0 else ""
        return [", ".join(f"{name} {value}" for name, value in row_fields) + more for row_fields in fields]

    def list_row_fields(
        self, rows: Tensor, first_columns: Sequence[str] = (), max_columns: int = 8
    ) -> list[list[tuple[str, str]]]:
        """Return name and value, for people, of each column of each row; see ``describe_rows``."""
        names = sorted(self.columns, key=lambda name: name not in first_columns)[:max_columns]
        cells = [self.format_column_values(name, self.columns[name][rows.numpy()]) for name in names]
        return [list(zip(names, values, strict=True)) for values in zip(*cells, strict=True)]

    def format_column_values(self, name: str, values: Array) -> list[str]:
        """Return values of a column for people.

        Args:
            name: The column.
            values: (n,) values that it may have.
        """
        kinds = {column["name"]: column["kind"] for column in self.preparation.get("columns", ())}
        kind = kinds.get(name)
        if kind is None and kinds.get(name.removesuffix(HOUR_SUFFIX)) == "dates":
            kind = "times"
        format_cell = KINDS[kind].format if kind in KINDS else format_value
        return [format_cell(value) for value in values.tolist()]

    def check(self, splits: Sequence[str] = SPLITS) -> DataTable:
        """Return the table itself if it can be trained on and these splits have rows, else raise ``InputError``."""
        for name in splits:
            if len(self.split.get(name, ())) == 0:
                raise InputError(f"the {name} split has no rows: give rows to it, or a {name}_fraction above 0")
        present = set(self.label[self.split["train"]].tolist())
        if len(present) < 2:
            raise InputError("the training split holds one label only: a classifier needs rows of at least two labels")
        missing = [name for number, name in enumerate(self.label_names) if number not in present]
        if missing:
            raise InputError(f"no training row has label {', '.join(missing)}: drop the label or add rows")
        if self._has_equal_inputs():
            source = self.metadata.get("source", "the data")
            raise InputError(f"all training rows have the same input ({source}): look at them, or give other columns")
        if isinstance(self.inputs, ArrayStore) and self.inputs.values.is_floating_point():
            bad = (~torch.isfinite(self.inputs.values).flatten(1).all(1)).nonzero()
            if len(bad):
                raise InputError(f"the input of row {int(bad[0])} holds NaN or infinity: fix or remove the row")
        return self

    def _has_equal_inputs(self) -> bool:
        """Return whether all training rows have the input of the first."""
        rows = self.split["train"]

        def fetch(part: Tensor) -> list[Tensor]:
            inputs = self.inputs.fetch(part)
            return [*inputs.values()] if isinstance(inputs, dict) else [inputs]

        first = fetch(rows[:1])
        for part in rows.split(ROWS_PER_CHUNK):
            if any(bool((values != value).any()) for values, value in zip(fetch(part), first, strict=True)):
                return False
        return True


@dataclass(frozen=True)
class EvaluationGroups:
    """The groups to evaluate on where they are not label x attribute: they may overlap and leave rows out.

    Attributes:
        membership: (M, G) bool, which row of the table belongs to which group.
        label_names: The label of each group.
        attribute_names: What else the rows of each group have in common.
    """

    membership: Tensor
    label_names: Sequence[str]
    attribute_names: Sequence[str]

    @property
    def group_names(self) -> list[tuple[str, str]]:
        """Label and attribute of each group."""
        return list(zip(map(str, self.label_names), map(str, self.attribute_names), strict=True))


def compute_fingerprint(table: DataTable) -> str:
    """Return a name of 32 hexadecimal digits for inputs and labels of all rows, in their order, and for the splits."""
    parts: list[str | bytes] = [*table.label_names, table.label.cpu().numpy().tobytes()]
    for name, rows in sorted(table.split.items()):
        parts += [name, rows.cpu().numpy().tobytes()]
    return compute_digest([*parts, table.inputs.digest()])
