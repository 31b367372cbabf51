"""New rows from Python: their inputs, and with labels and attributes how well a run does on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.correlation import Correlation
from logit_correction.data.channels import checked_values
from logit_correction.data.image_io import UnreadableImages
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataSource
from logit_correction.data.tabular_io import as_text
from logit_correction.errors import InputError
from logit_correction.evaluation.estimated import EstimatedAttributes, figures_of
from logit_correction.evaluation.predictions import Predictions
from logit_correction.types import DataInfo

#: What a run predicts: names of files or texts, arrays, or a data frame.
NewInputs: TypeAlias = Tensor | NDArray[Any] | Sequence[Path | str] | Mapping[str, Any]

#: Names of n rows, or the column of a data frame that holds them.
Names: TypeAlias = str | Sequence[Any] | NDArray[Any]

#: New rows as the source reads them, and in what other forms views may look at them.
Part: TypeAlias = tuple[InputStore, dict[str, Any]]

#: Image files in memory at a time.
CHUNK = 512

#: Probabilities count as no less than this where a logarithm is taken.
_LEAST = 1e-30


def are_files(inputs: NewInputs, source: DataSource) -> bool:
    """Return whether inputs are names of files; where texts are inputs only a ``Path`` is one.

    Raises:
        InputError: If they are one name alone.
    """
    if isinstance(inputs, str | Path):
        raise InputError(f"inputs are one name, {str(inputs)!r}: give a list of names")
    if isinstance(inputs, Tensor | Mapping) or hasattr(inputs, "columns"):
        return False
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "UO":
        return False
    return not source.takes_texts or any(isinstance(one, Path) for one in inputs)


def store_of(inputs: NewInputs, source: DataSource, info: DataInfo) -> InputStore:
    """Return inputs that are no files as the networks take them.

    Args:
        inputs: Arrays, texts, a data frame or a mapping of columns.
        source: The run's data source.
        info: What inputs are.

    Raises:
        InputError: If the shape or the values do not fit.
    """
    if not isinstance(inputs, Tensor | np.ndarray) or (isinstance(inputs, np.ndarray) and inputs.dtype.kind in "UO"):
        return source.read_values(inputs)
    if isinstance(inputs, np.ndarray):
        inputs = np.require(inputs, requirements=["C", "W"])  # else torch refuses a flipped array
    values, shape = torch.as_tensor(inputs), info.input_shape
    if len(shape) == 3 and values.dim() == 4 and tuple(values.shape[1:]) == (*shape[1:], shape[0]):
        values = values.permute(0, 3, 1, 2)  # channels last, as most programs have images
    if tuple(values.shape[1:]) != shape:
        shown = ", ".join(map(str, shape))
        raise InputError(f"inputs have shape {tuple(values.shape)}, but must be (n, {shown})")
    if len(shape) == 3:
        values = values.detach().cpu()
        values = torch.from_numpy(checked_values((values.float() if values.is_floating_point() else values).numpy()))
    if values.is_floating_point() and not bool(torch.isfinite(values).all()):
        raise InputError("the inputs hold NaN or infinity: fix or remove those rows")
    return source.as_store(values)


def parts_of(inputs: NewInputs, source: DataSource, info: DataInfo) -> Iterator[Part]:
    """Yield new rows as a source reads them, images of files a few at a time.

    Args:
        inputs: Arrays, texts, a data frame, a mapping of columns, or names of files.
        source: The data source, prepared by its training rows.
        info: What inputs are.

    Raises:
        InputError: If a file cannot be read, or the shape or the values do not fit.
    """
    if not are_files(inputs, source):
        store = store_of(inputs, source, info)
        images = len(info.input_shape) == 3  # which views see as they are
        yield store, {} if images else source.looks(inputs)
        return
    paths, faults = [Path(path) for path in cast(Iterable[str], inputs)], []
    for start in range(0, len(paths), CHUNK):
        chunk = paths[start : start + CHUNK]
        try:
            store = source.read_new(chunk)
        except UnreadableImages as error:  # the others are looked at as well, to name all at once
            faults += error.faults
        else:
            yield store, {"files": chunk}
    if faults:
        raise UnreadableImages(faults)


@dataclass(frozen=True)
class LabelledRows:
    """What is known of n new rows.

    Attributes:
        label: (n,) numbers of labels.
        label_names: L names.
        attribute: (n,) numbers of attribute values, -1 where unknown; None where nobody told.
        attribute_names: K names.
        correlation: Which labels go with which of these values, where that is known.
    """

    label: NDArray[np.int64]
    label_names: Sequence[str]
    attribute: NDArray[np.int64] | None
    attribute_names: Sequence[str]
    correlation: Correlation | None

    def check_count(self, rows: int) -> None:
        """Return if there is a label for each of so many rows.

        Raises:
            InputError: Otherwise.
        """
        if rows != len(self.label):
            raise InputError(f"there are {rows:,} rows, but {len(self.label):,} labels: give one a row")

    def evaluate(self, probability: NDArray[np.float32], estimate: EstimatedAttributes | None = None) -> dict[str, Any]:
        """Return the figures of predictions (n, L), as ``report.json``'s test block has them.

        Args:
            probability: (n, L).
            estimate: What an estimator says of the same rows.

        Raises:
            InputError: If there are more or fewer predictions than labels.
        """
        self.check_count(len(probability))
        rows = Predictions(
            index=np.arange(len(self.label)),
            label=self.label,
            logits=np.log(probability.clip(_LEAST)),
            label_names=self.label_names,
            attribute=self.attribute,
            attribute_names=self.attribute_names,
            split="new rows",
            estimate=estimate,
        )
        return figures_of(rows, self.correlation)


def labelled(data: Any, label: Names | None, attribute: Names | None, report: Mapping[str, Any]) -> LabelledRows:
    """Read the labels of new rows.

    Args:
        data: The rows; a data frame or a mapping if ``label`` or ``attribute`` is a column.
        label: (n,) names or whole numbers, or a column.
        attribute: The same of attributes, or None.
        report: The run's ``report.json``.

    Raises:
        InputError: If labels are missing, or one is none of the run's.
    """
    if label is None:
        raise InputError("new rows can be judged only by their labels: give label=, a list of names or a column")
    names = [str(name) for name in report["data"]["label_names"]]
    labels = _column(data, label, "label")
    numbers = _numbers(labels, names)
    if (numbers < 0).any():
        row = int((numbers < 0).argmax())
        raise InputError(f"row {row}: the label {labels[row]!r} is none that was trained on: {', '.join(names)}")
    if attribute is None:
        return LabelledRows(numbers, names, None, (), None)
    values = _column(data, attribute, "attribute")
    known, table = [str(name) for name in report["data"]["attribute_names"]], report["data"].get("correlation")
    there = sorted({name for name in values if name})
    if set(there) <= set(known):
        correlation = None if table is None else Correlation.from_table(table, len(known))
        return LabelledRows(numbers, names, _numbers(values, known), known, correlation)
    return LabelledRows(numbers, names, _numbers(values, there), there, None)


def _column(data: Any, given: Names, what: str) -> list[str]:
    """Return the names as text, "" where there is none."""
    if isinstance(given, str):
        if not isinstance(data, Mapping) and not hasattr(data, "columns"):
            raise InputError(f"{what}={given!r} names a column, but the rows are no data frame: give one {what} a row")
        if given not in data:
            raise InputError(f"the rows have no column {given!r}: give {what}= another column, or a list of names")
        given = data[given]
    return [as_text(value) or "" for value in np.asarray(given, dtype=object).tolist()]


def _numbers(values: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Return the place of each name among ``names``, -1 where it is none of them."""
    place = {name: number for number, name in enumerate(names)}
    return np.array([place.get(value, -1) for value in values], dtype=np.int64)
