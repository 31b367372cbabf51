"""New rows of a run: what is known of their labels and attributes, and rows from standard input as they come."""

from __future__ import annotations

import csv
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.correlation import Correlation
from logit_correction.data.frames import as_text, check_columns, texts_of
from logit_correction.data.images import Images
from logit_correction.data.reader import DataSource, Rows
from logit_correction.data.rows import FIX, Problems, combined, places_of
from logit_correction.errors import InputError, InputWarning
from logit_correction.evaluation.predictions import EstimatedAttributes, Predictions
from logit_correction.evaluation.report import GroupReport

if TYPE_CHECKING:
    from logit_correction.runs.run import Run

#: What a run predicts: names of files, texts, numbers or mappings of columns, a row each; arrays, or a data frame.
NewInputs: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | Mapping[str, Any]

#: Names of n rows, or the column of a data frame that holds them.
Names: TypeAlias = str | Sequence[Any] | NDArray[Any]

#: Bytes that are read from a stream at a time, and those of a row at most: whatever is sent, memory stays bounded.
BLOCK, MOST_BYTES = 2**16, 2**24

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
    attribute: NDArray[np.int64] | None = None
    attribute_names: Sequence[str] = ()
    correlation: Correlation | None = None

    def evaluate(self, probability: NDArray[np.float32], estimate: EstimatedAttributes | None = None) -> dict[str, Any]:
        """Return the figures of predictions (n, L), and of what an estimator says, as ``report.json`` has them."""
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


def labelled(rows: Rows, label: Names | None, attribute: Names | None, data: Mapping[str, Any]) -> LabelledRows:
    """Return the labels and attributes of new rows.

    Args:
        rows: The rows.
        label: (n,) names or whole numbers, or a column; None where rows lie in the folders of their labels.
        attribute: The same of attributes; None where nobody knows them.
        data: What ``report.json`` says of the data.

    Raises:
        InputError: If labels are missing or none of the run's; names the first ten.
    """
    label = rows.label if label is None or rows.label is not None else label
    if label is None:
        raise InputError("new rows can be judged only by their labels: give label=, a list of names or a column")
    names, labels = [str(name) for name in data["label_names"]], _names_of(rows, label, "label")
    number, problems = places_of(labels, names), Problems(rows.place, rows.names)
    for row in (number < 0).nonzero().flatten().tolist():
        problems.add(row, f"the label {labels[row]!r} is none that was trained on" if labels[row] else "has no label")
    problems.raise_if_any(fix=f"the labels of training are {', '.join(names)}: give one of them to each row")
    if attribute is None:
        return LabelledRows(number.numpy(), names)
    values = _names_of(rows, attribute, "attribute")
    known, table = [str(name) for name in data["attribute_names"]], data.get("correlation")
    there = sorted({name for name in values if name})
    if not set(there) <= set(known):
        return LabelledRows(number.numpy(), names, places_of(values, there).numpy(), there)
    correlation = None if table is None else Correlation.from_table(table, len(known))
    return LabelledRows(number.numpy(), names, places_of(values, known).numpy(), known, correlation)


def trained_attributes(rows: Rows, source: DataSource, chosen: Sequence[str]) -> Names | None:
    """Return the attribute of rows by the columns that training would read: those chosen, or ``attribute`` of images.

    Args:
        rows: The rows.
        source: The run's data source.
        chosen: The columns of attributes that the run was given.
    """
    reader = source.reader
    if not chosen and isinstance(reader, Images) and reader.column is None:
        chosen = ["attribute"]
    if rows.frame is None or not chosen or not set(chosen) <= set(rows.frame.columns):
        return None
    number, names = combined({name: texts_of(rows.frame, name) for name in chosen}, torch.ones(len(rows)).bool())
    return [None if one < 0 else names[one] for one in number.tolist()]


def _names_of(rows: Rows, given: Names, what: str) -> Sequence[str | None]:
    """Return the names of rows as text, None where there is none."""
    if not isinstance(given, str):
        names = [as_text(value) for value in np.asarray(given, dtype=object).tolist()]
        if len(names) != len(rows):
            raise InputError(f"there are {len(rows):,} rows, but {len(names):,} {what}s: give one a row")
        return names
    if rows.frame is None:
        raise InputError(
            f"{what} {given!r} names a column, and {rows.place} have none: give a table, or one {what} a row"
        )
    check_columns(rows.frame, rows.place, [given])
    return texts_of(rows.frame, given)


def answers(run: Run, rows: Iterable[Rows], several: bool = False) -> Iterator[list[list[str]]]:
    """Yield what a run says of new rows as lines of a CSV, its header first, a few at a time.

    A row that cannot be read has empty cells and is told of at the end. With ``several`` names hold the file too.

    Raises:
        InputError: If rows are of another kind, or none can be answered.
    """
    labels, waiting, bad, good = list(map(str, run.label_names)), list[list[str]](), list[Problems](), 0
    for part in (part for one in rows for part in run.source.read(one, run.inputs_info)):
        key, names = part.answered
        if not good and not waiting:
            waiting = [[key, "label", *(f"probability_{name}" for name in labels)]]
        if several and key != "path":
            names = [f"{part.rows.place}:{name}" for name in names]
        for row, (name, probability) in enumerate(zip(names, run.probabilities_of(part.store), strict=True)):
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
        bad[0].raise_if_any(fix=FIX)
    if bad:
        count = sum(map(len, bad))
        what = "1 row has no answer" if count == 1 else f"{count:,} rows have no answer"
        told = "; ".join(f"{one.place}: {one}" for one in bad[:3])
        warnings.warn(f"{what}: {told}{'; and more' if len(bad) > 3 else ''}", InputWarning, stacklevel=2)


def rows_of_stream(stream: BinaryIO, source: DataSource) -> Iterator[Rows]:
    """Yield rows from a stream as they come: a CSV, JSON lines, or names of image files, a line each.

    Args:
        stream: Bytes, such as those of standard input.
        source: Says which rows are wanted.

    Raises:
        InputError: A line is none of these; the rows before it have been yielded.
    """
    images = isinstance(source.reader, Images)
    parse: Callable[[bytes], Any] | None = None
    number = 0
    for lines in _lines_as_they_come(stream):
        found: dict[int, Any] = {}
        fault = None
        for line in lines:
            number += 1
            try:
                if parse is None:
                    parse, is_header = _parser_of(line, images)
                    if is_header:
                        continue
                if line.strip():
                    found[number] = parse(line)
            except (ValueError, KeyError, TypeError, RecursionError, csv.Error) as error:
                reason = f"has no {error}" if isinstance(error, KeyError) else f"cannot be read ({error})"
                fault = InputError(f"row {number} of the stream {reason}; the rows before it were answered")
                break
        if found:
            numbers, values = pd.Index(list(found)), list(found.values())
            if images:
                yield Rows("the stream", numbers, "line", files=values)
            elif isinstance(values[0], dict):
                yield Rows("the stream", numbers, "line", frame=pd.DataFrame(values, numbers, dtype=object))
            else:
                yield Rows("the stream", numbers, "line", values=np.asarray(values, dtype=np.float32))
        if fault is not None:
            raise fault


def _parser_of(line: bytes, images: bool) -> tuple[Callable[[bytes], Any], bool]:
    """Return how the lines of a stream are read by what its first one is, and whether this is a header."""
    if line.lstrip().startswith((b"{", b"[")):
        return (lambda one: Path(json.loads(one)["path"])) if images else json.loads, False
    if images:
        return lambda one: Path(os.fsdecode(one.rstrip(b"\r"))), False
    separator = max("\t;,|", key=line.decode("utf-8-sig").count)
    header = [name.strip() for name in next(csv.reader([line.decode("utf-8-sig")], delimiter=separator))]

    def cells(one: bytes) -> dict[str, str]:
        row = next(csv.reader([one.decode().rstrip("\r")], delimiter=separator, strict=True))
        if len(row) > len(header):
            raise ValueError(f"it has {len(row)} cells, but there are {len(header)} columns")
        return dict(zip(header, row + [""] * (len(header) - len(row)), strict=True))

    return cells, True


def _lines_as_they_come(stream: Any) -> Iterator[list[bytes]]:
    """Yield the lines that are there, and wait for more only where there is none."""
    rest = b""
    while block := stream.read1(BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > MOST_BYTES:
            raise InputError(f"a row of the stream is longer than {MOST_BYTES:,} bytes")
        if lines:
            yield lines
    if rest:
        yield [rest]
