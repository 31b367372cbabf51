"""New rows of a run: what is known of their labels and attributes, and what the run says of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.correlation import Correlation
from logit_correction.data.frames import as_text, check_columns, texts_of, what_rows_are
from logit_correction.data.rows import Problems, Rows, places_of
from logit_correction.errors import InputError, InputWarning
from logit_correction.evaluation.report import DataSummary
from logit_correction.files import printable

if TYPE_CHECKING:
    from logit_correction.runs.run import Run

#: What a run predicts: names of files, texts, numbers or mappings of columns, a row each; arrays, or a data frame.
NewInputs: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | Mapping[str, Any]

#: Names of n rows, or the column of a data frame that holds them.
Names: TypeAlias = str | Sequence[Any] | NDArray[Any]


def labels_of(rows: Rows, label: Names | None, known: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers (n,) of the labels of new rows among the known ones."""
    label = rows.label if label is None or rows.label is not None else label
    if label is None:
        raise InputError("new rows can be judged only by their labels: give label=, a list of names or a column")
    labels = _names_of(rows, label, "label")
    number, problems = places_of(labels, known), Problems(rows.place, rows.names)
    for row in (number < 0).nonzero().flatten().tolist():
        problems.add(row, f"the label {labels[row]!r} is not in the training data" if labels[row] else "has no label")
    problems.raise_if_any(fix=f"the labels of training are {', '.join(known)}: give one of them to each row")
    return number.numpy()


def attributes_of(
    rows: Rows, attribute: Names, data: DataSummary
) -> tuple[NDArray[np.int64], list[str], Correlation | None]:
    """Return the attributes of new rows, -1 where unknown, their names, and the correlation where all are known."""
    values, known = _names_of(rows, attribute, "attribute"), data.attribute_names
    there = sorted({name for name in values if name})
    if not set(there) <= set(known):
        return places_of(values, there).numpy(), there, None
    correlation = None if data.correlation is None else Correlation.from_table(data.correlation, len(known))
    return places_of(values, known).numpy(), known, correlation


def _names_of(rows: Rows, given: Names, what: str) -> Sequence[str | None]:
    """Return the names of rows as text, None where there is none."""
    if not isinstance(given, str):
        names = [as_text(value) for value in np.asarray(given, dtype=object).tolist()]
        if len(names) != len(rows):
            raise InputError(f"there are {len(rows):,} rows, but {len(names):,} {what}s: give one a row")
        return names
    if rows.frame is None:
        raise InputError(f"{what} {given!r} names a column, and {rows.place} have none: give one {what} a row")
    check_columns(rows.frame, rows.place, [given])
    return texts_of(rows.frame, given)


def answers(run: Run, rows: Iterable[Rows], several: bool = False) -> Iterator[list[list[str]]]:
    """Yield what a run says of new rows as lines of a CSV, its header first, a few at a time.

    A row that cannot be read has empty cells and is told of at the end. With ``several`` names hold the file too.
    """
    labels, waiting, bad, good = run.label_names, list[list[str]](), list[Problems](), 0
    for part, store, forms in run.source.read(rows, run.inputs_info, bad_too=True):
        key, names = what_rows_are(part.numbers), [str(number) for number in part.numbers]
        if "files" in forms:
            key, names = "path", [printable(path) for path in forms["files"]]
        if not good and not waiting:
            waiting = [[key, "label", *(f"probability_{name}" for name in labels)]]
        if several and key != "path":
            names = [f"{part.place}:{name}" for name in names]
        for row, (name, probability) in enumerate(zip(names, run.probabilities_of(store), strict=True)):
            if row in part.problems.of_row:
                waiting.append([name, *[""] * (1 + len(labels))])
            else:
                waiting.append([name, labels[int(probability.argmax())], *(f"{value:.6g}" for value in probability)])
        bad += [part.problems] if part.problems else []
        good += int(part.problems.good.sum())
        if good:  # else nothing may come of it
            yield waiting
            waiting = []
    if bad and not good:
        bad[0].raise_if_any()
    if bad:
        count = sum(map(len, bad))
        what = "1 row has no answer" if count == 1 else f"{count:,} rows have no answer"
        told = "; ".join(f"{one.place}: {one}" for one in bad[:3])
        warnings.warn(f"{what}: {told}{'; and more' if len(bad) > 3 else ''}", InputWarning, stacklevel=2)
