"""What is known of new rows, their labels and attributes, and how well predictions do by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logit_correction.correlation import Correlation
from logit_correction.data.frames import MOST_NAMED, as_text, row_names
from logit_correction.data.rows import Problems
from logit_correction.errors import InputError, did_you_mean, format_first
from logit_correction.evaluation.predictions import EstimatedAttributes, Predictions
from logit_correction.evaluation.report import GroupReport

#: Names of n rows, or the column of a data frame that holds them.
Names: TypeAlias = str | Sequence[Any] | NDArray[Any]

#: Probabilities count as no less than this where a logarithm is taken.
_LEAST = 1e-30


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
        return GroupReport.from_predictions(rows, self.correlation).to_dict()


def labelled(
    data: Any,
    label: Names | None,
    attribute: Names | None,
    report: Mapping[str, Any],
    place: str = "the new rows",
    rows: Sequence[str] | None = None,
) -> LabelledRows:
    """Read the labels of new rows.

    Args:
        data: The rows; a data frame or a mapping if ``label`` or ``attribute`` is a column.
        label: (n,) names or whole numbers, or a column.
        attribute: The same of attributes, or None.
        report: The run's ``report.json``.
        place: What messages call the file or folder that they are from.
        rows: What messages call each row; by default its number.

    Raises:
        InputError: If labels are missing or none of the run's; names the first ten.
    """
    if label is None:
        raise InputError("new rows can be judged only by their labels: give label=, a list of names or a column")
    names = [str(name) for name in report["data"]["label_names"]]
    labels = _column(data, label, "label")
    numbers = _numbers(labels, names)
    problems = Problems(place, row_names(range(len(labels))) if rows is None else rows)
    for row in np.flatnonzero(numbers < 0).tolist():
        problems.add(row, f"the label {labels[row]!r} is none that was trained on" if labels[row] else "has no label")
    problems.raise_if_any("error", hint=f"the labels of training are {', '.join(names)}: give one of them to each row")
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
            there = [str(name) for name in data]
            raise InputError(
                f"the rows have no column {given!r}{did_you_mean(given, there)}: they have "
                f"{format_first(there, MOST_NAMED)}; give another column as {what}, or from Python a list of names"
            )
        given = data[given]
    return [as_text(value) or "" for value in np.asarray(given, dtype=object).tolist()]


def _numbers(values: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Return the place of each name among ``names``, -1 where it is none of them."""
    place = {name: number for number, name in enumerate(names)}
    return np.array([place.get(value, -1) for value in values], dtype=np.int64)
