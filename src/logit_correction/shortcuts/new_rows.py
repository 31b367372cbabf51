"""The rows that the model will be used on: read part by part, and asked what each candidate says of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.config import RunConfig
from logit_correction.data.frames import texts_of, what_rows_are
from logit_correction.data.images import visible_folders
from logit_correction.data.loading import BatchLoader
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import Rows, places_of
from logit_correction.data.stores import InputStore
from logit_correction.data.table import NEW, DataTable
from logit_correction.errors import InputError
from logit_correction.files import printable
from logit_correction.pages.compare import shown_path
from logit_correction.runs.encode import EncodedStore, Encoder, batches_of
from logit_correction.shortcuts.candidates import Trained
from logit_correction.types import DataInfo, Inputs

#: Columns of a row that a person is shown, who is to name its label.
SHOWN = 40

#: What is known of some new rows, and their inputs.
Part: TypeAlias = tuple[pd.DataFrame, Iterator[Inputs]]

#: What is wrong where nothing is there.
NONE = "There are no new rows: give a folder or a table that holds some by --new-rows"


@dataclass(frozen=True)
class NewRows:
    """New rows, M of them, after all candidates were asked.

    Attributes:
        frame: A line for each: ``row``, its number from 0; ``line``, ``path`` or ``name``; ``content`` of texts and
            tables; ``label``, None where nobody knows it.
        predictions: (C, M) numbers of labels.
        apart: (C, M) how far each candidate is from ERM; see ``apart_of``.
        label: (M,) numbers of labels, -1 where unknown.
    """

    frame: pd.DataFrame
    predictions: NDArray[np.int64]
    apart: NDArray[np.float32]
    label: NDArray[np.int64]


def asked(parts: Iterable[Part], models: Sequence[Trained], names: Sequence[str]) -> NewRows:
    """Return new rows, which come part by part, with what each candidate says of them.

    Args:
        parts: What is known of some rows, ``label`` at least, and their inputs.
        models: The candidates.
        names: Those of the labels.

    Raises:
        InputError: A row has a label that is not in the training data.
    """
    frames, said, apart = list[pd.DataFrame](), list[Tensor](), list[Tensor]()
    for frame, batches in parts:
        with torch.no_grad():
            for inputs in batches:
                logits = torch.stack([one.network(inputs) for one in models])
                said.append(logits.argmax(dim=2))
                apart.append(apart_of(logits))
        frames.append(frame)
    if not frames:
        raise InputError(NONE)
    whole = pd.concat(frames, ignore_index=True)
    whole.insert(0, "row", np.arange(len(whole)))
    label = _labels_of(whole, names)
    return NewRows(whole, torch.cat(said, dim=1).numpy(), torch.cat(apart, dim=1).numpy(), label)


def check(given: Any, config: RunConfig, table: DataTable) -> None:
    """Read new rows once: what is wrong with them is told before anything is trained. Arguments as of ``of_source``."""
    names = list(map(str, table.label_names))
    told = [_told(rows, config, table, forms) for rows, _, forms in _read(given, config, table)]
    if not told:
        raise InputError(NONE)
    whole = pd.concat(told, ignore_index=True)
    _labels_of(whole.assign(row=np.arange(len(whole))), names)


def _labels_of(frame: pd.DataFrame, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers of labels (M,), -1 of rows without; ``InputError`` if one is not among the ``names``."""
    label = places_of([None if pd.isna(one) else one for one in frame["label"]], names).numpy()
    unknown = frame[frame["label"].notna() & (label < 0)]
    if len(unknown):
        first, has = unknown.iloc[0], "has a label that is" if len(unknown) == 1 else "have labels that are"
        raise InputError(
            f"The new rows: {len(unknown):,} {has} not in the training data, such as {first['label']!r} "
            f"of {called(first)}: the labels are {', '.join(names)}; leave unknown ones empty"
        )
    return np.asarray(label)


def apart_of(logits: Tensor) -> Tensor:
    """Return how far the probabilities of each candidate are from those of the first, (C, M), by logits (C, M, L).

    It is half the sum of absolute differences: 0 if they are equal, 1 if each is sure of another label.
    """
    probability = logits.softmax(dim=2)
    return (probability - probability[0]).abs().sum(dim=2) / 2


def called(row: pd.Series) -> str:
    """Return what a person calls a row: its file, its line or its number."""
    for name in ("path", "line", "row"):
        if name in row and not pd.isna(row[name]):
            return shown_path(row[name]) if name == "path" else f"{name} {row[name]}"
    return "a row"


def of_split(table: DataTable) -> Iterator[Part]:
    """Yield the rows of the split ``new``."""
    rows = table.split[NEW]
    label = [None if number < 0 else str(table.label_names[number]) for number in table.label[rows].tolist()]
    frame = pd.DataFrame({"label": pd.Series(label, dtype=object)})
    if table.files is not None:
        frame["path"] = [os.path.abspath(table.files[row]) for row in rows.tolist()]
    elif table.lines is not None:
        frame["line"] = table.lines[rows].numpy()
    if (held := table.contents(rows, most=SHOWN)) is not None:
        frame["content"] = held
    yield frame, (batch.inputs for batch in BatchLoader(table, NEW).epoch())


def of_source(given: Any, config: RunConfig, table: DataTable) -> Iterator[Part]:
    """Yield rows from elsewhere, some at a time, prepared by what the training rows have shown.

    ``given`` is as ``DataSource.new_rows`` takes it; a folder may hold a folder for each label. ``config`` and
    ``table`` are those of the training. ``InputError`` if a row cannot be read.
    """
    encoder, device = None, torch.device("cpu")
    if config.encoder is not None and isinstance(table.inputs, EncodedStore):
        encoder = Encoder(config.encoder, _info_of(table))
    for rows, store, forms in _read(given, config, table):
        encoded: InputStore = store if encoder is None else encoder.of_store(store, device)
        yield _told(rows, config, table, forms), batches_of(encoded, device)


def _read(given: Any, config: RunConfig, table: DataTable) -> Iterator[tuple[Rows, InputStore, dict[str, Any]]]:
    """Yield rows from elsewhere, some at a time, and their inputs before an encoder."""
    source: DataSource = config.data.make()
    source.reader.prepare(table.preparation)
    names = {str(name) for name in table.label_names}
    given = Path(given) if isinstance(given, str) else given
    labelled = isinstance(given, Path) and given.is_dir() and any(one.name in names for one in visible_folders(given))
    yield from source.read(source.new_rows(given, labelled=labelled), _info_of(table))


def _info_of(table: DataTable) -> DataInfo:
    """Return what inputs are before an encoder."""
    if not isinstance(table.inputs, EncodedStore):
        return table.info
    store = table.inputs.original
    return replace(table.info, input_shape=store.input_shape, tokens=store.holds_tokens)


def _told(rows: Rows, config: RunConfig, table: DataTable, forms: dict[str, Any]) -> pd.DataFrame:
    """Return label, name and content of rows."""
    column = str(config.data.options.get("label") or "label")
    label: Sequence[str | None] = rows.label or [None] * len(rows)
    if rows.frame is not None and column in rows.frame.columns:
        label = [one or None for one in texts_of(rows.frame, column)]
    frame = pd.DataFrame({"label": pd.Series(list(label), dtype=object)})
    if "files" in forms:
        frame["path"] = [printable(os.path.abspath(path)) for path in forms["files"]]
    elif what_rows_are(rows.numbers) == "line":
        frame["line"] = list(rows.numbers)
    held = replace(table, texts=forms.get("texts"), columns=forms.get("columns", {})).contents(
        torch.arange(len(rows)), most=SHOWN
    )
    return frame if held is None else frame.assign(content=held)
