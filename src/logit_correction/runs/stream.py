"""New rows from a stream that may never end: CSV rows, JSON lines, or names of image files, a line each."""

from __future__ import annotations

import csv
import io
import json
import queue
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np
import pandas as pd

from logit_correction.data.frames import separator_of
from logit_correction.data.images import UnreadableImages
from logit_correction.data.rows import BadRows
from logit_correction.data.stores import InputStore
from logit_correction.errors import InputError
from logit_correction.runs.chunks import Chunk
from logit_correction.runs.new_rows import store_of

if TYPE_CHECKING:
    from logit_correction.runs.run import Run

T = TypeVar("T")

#: Rows that are answered together, at most.
MOST_ROWS = 512

#: Characters of a row, at most: whatever is sent, memory stays bounded.
MOST_CHARACTERS = 2**24

#: So long is waited for further rows before those that are there are answered.
SECONDS = 0.02


class StreamStopped(InputError):
    """A row of a stream is bad; those before it were answered."""


@dataclass(frozen=True)
class Record:
    """One row as it came.

    Attributes:
        number: Its number: in a CSV as a spreadsheet has it, with the header as row 1, else the line.
        value: A mapping of columns, a list of numbers, or the name of a file.
        fault: What is wrong with it, or empty.
    """

    number: int
    value: Any
    fault: str = ""


def chunks_of_stream(run: Run, stream: BinaryIO) -> Iterator[Chunk]:
    """Yield the rows of a stream as they come.

    Args:
        run: The run; it says which rows are wanted.
        stream: Bytes, read ahead by a thread of its own.

    Raises:
        StreamStopped: A row is bad; names it. The rows before it have been yielded.
        InputError: The run takes no rows of this form.
    """
    images = len(run.inputs_info.input_shape) == 3
    for batch in _as_they_come(_records(stream, images, run.source.reads_tables), MOST_ROWS):
        good = next((place for place, record in enumerate(batch) if record.fault), len(batch))
        fault = batch[good].fault if good < len(batch) else ""
        try:
            chunk = _chunk(run, batch[:good], images) if good else None
        except InputError:
            good, fault = _first_bad(run, batch[:good], images)
            chunk = _chunk(run, batch[:good], images) if good else None
        if chunk is not None:
            yield chunk
        if fault:
            raise StreamStopped(f"row {batch[good].number} of the stream: {fault}; the rows before it were answered")


def _chunk(run: Run, records: Sequence[Record], images: bool) -> Chunk:
    values = [record.value for record in records]
    if images:
        paths = [Path(value) for value in values]
        return Chunk("path", [str(path) for path in paths], run.source.read_new(paths))
    rows = _rows(values)
    store: InputStore
    if isinstance(rows, np.ndarray):
        store = store_of(rows, run.source, run.inputs_info)
    else:
        store = run.source.read_values(rows)
    return Chunk("line", [str(record.number) for record in records], store)


def _rows(values: Sequence[Any]) -> Any:
    """Return rows as a data frame, or lists of numbers as an array."""
    if all(isinstance(value, dict) for value in values):
        # Values stay what they are, whatever else is in the column: a gap beside a 3 does not make it 3.0.
        return pd.DataFrame(list(values), dtype=object)
    try:
        return np.asarray(values, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise InputError("it must be a mapping of columns, or a list of numbers as long as training's") from error


def _first_bad(run: Run, records: Sequence[Record], images: bool) -> tuple[int, str]:
    """Return the place of the first row that cannot be read, and what is wrong with it."""
    for place, record in enumerate(records):
        try:
            _chunk(run, [record], images)
        except BadRows as error:
            return place, next(iter(error.faults.values()))
        except UnreadableImages as error:
            return place, error.faults[0]
        except InputError as error:
            return place, str(error)
    return 0, "it does not fit the rows beside it"


def _records(stream: BinaryIO, images: bool, tables: bool) -> Generator[Record, None, None]:
    """Yield the rows of a stream, in the form that its first line shows."""
    with io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        lines = _lines(text)
        first = next(lines, None)
        if first is not None:
            yield from _rows_of_lines(first, chain([first], lines), images, tables)


def _rows_of_lines(first: str, lines: Iterator[str], images: bool, tables: bool) -> Iterator[Record]:
    if first.lstrip()[:1] in ("{", "["):
        yield from _json_rows(lines, images)
    elif images:
        named = ((number, line.strip("\r\n")) for number, line in enumerate(lines, 1))
        yield from (Record(number, name) for number, name in named if name)
    elif tables:
        yield from _csv_rows(lines, separator_of(first))
    else:
        yield Record(1, None, "this run takes a list of numbers a line, such as [0.5, 1, 2]")


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Yield lines, none longer than memory should hold."""
    while line := text.readline(MOST_CHARACTERS + 1):
        if len(line) > MOST_CHARACTERS:
            raise StreamStopped(f"a row of the stream is longer than {MOST_CHARACTERS:,} characters")
        yield line


def _json_rows(lines: Iterable[str], images: bool) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if images:
                value = value["path"]
            fault = "" if isinstance(value, str if images else dict | list) else "it is no JSON object or list"
        except (ValueError, RecursionError) as error:
            value, fault = None, f"it is no JSON ({error})"
        except (TypeError, KeyError):
            value, fault = None, 'it must be an object with the name of an image file: {"path": "a.png"}'
        yield Record(number, value, fault or ("" if images else _fault_of_text(line)))


def _csv_rows(lines: Iterable[str], separator: str) -> Iterator[Record]:
    """Yield the rows of a CSV, whose first line names the columns; a row that ends too early has empty cells."""
    csv.field_size_limit(MOST_CHARACTERS)
    reader, number = csv.reader(lines, delimiter=separator, strict=True), 1
    try:
        header = [name.strip() for name in next(reader)]
        for number, cells in enumerate(reader, 2):
            if not cells:
                continue
            fault = _fault_of_text("".join(cells))
            if len(cells) > len(header):
                fault = f"it has {len(cells)} cells, but there are {len(header)} columns"
            cells += [""] * (len(header) - len(cells))
            yield Record(number, dict(zip(header, cells, strict=False)), fault)
    except csv.Error as error:
        yield Record(number + 1, None, f"it is no row of a CSV ({error})")


def _fault_of_text(text: str) -> str:
    """Return what is wrong with a text that was not UTF-8."""
    return "it is not UTF-8" if any("\ud800" <= character <= "\udfff" for character in text) else ""


def _as_they_come(records: Generator[T, None, None], most: int) -> Iterator[list[T]]:
    """Yield what there is, at most so many at a time, and wait for more only where there is nothing."""
    waiting: queue.Queue[T | BaseException | None] = queue.Queue(maxsize=2 * most)
    left_alone = threading.Event()

    def put(one: T | BaseException | None) -> None:
        while not left_alone.is_set():
            try:
                return waiting.put(one, timeout=0.2)
            except queue.Full:
                continue

    def read() -> None:
        try:
            for record in records:
                put(record)
                if left_alone.is_set():
                    break
            put(None)
        except BaseException as error:  # for the reader of the queue
            put(error)
        finally:
            records.close()  # and with it the stream

    threading.Thread(target=read, daemon=True).start()
    try:
        yield from _batches(waiting, most)
    finally:
        left_alone.set()


def _batches(waiting: queue.Queue[T | BaseException | None], most: int) -> Iterator[list[T]]:
    end: BaseException | bool | None = False
    while end is False:
        batch: list[T] = []
        until = float("inf")
        while len(batch) < most and end is False:
            try:
                left = None if until == float("inf") else max(0.0, until - time.monotonic())
                one = waiting.get(timeout=left)
            except queue.Empty:
                break
            if one is None or isinstance(one, BaseException):
                end = one
            else:
                batch.append(one)
                until = min(until, time.monotonic() + SECONDS)
        if batch:
            yield batch
    if isinstance(end, BaseException):
        raise end
