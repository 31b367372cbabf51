"""The rows that the model will be used on: read part by part, and asked what each candidate says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.frames import texts_of, what_rows_are
from logit_correction.data.images import visible_folders
from logit_correction.data.loading import BatchLoader
from logit_correction.data.rows import Rows, places_of
from logit_correction.data.table import NEW, DataTable, InputStore
from logit_correction.errors import InputError
from logit_correction.files import printable
from logit_correction.pages.compare import shown_path
from logit_correction.runs.assemble import Built
from logit_correction.runs.encode import EncodedStore, batches_of
from logit_correction.shortcuts.candidates import Trained
from logit_correction.types import Inputs

#: Columns of the table of new rows: the number of a label that is known, the round in which a row was asked.
LABEL, ROUND = "label_number", "round"

#: Columns of a row that a person is shown, who is to name its label.
SHOWN = 40

#: Predictions, labels and numbers.
Array: TypeAlias = NDArray[Any]

#: What is known of some new rows, and their inputs.
Part: TypeAlias = tuple[pd.DataFrame, Iterator[Inputs]]


def asked(parts: Iterable[Part], models: Sequence[Trained], names: Sequence[str]) -> pd.DataFrame:
    """Return the table of new rows that an audit keeps: what is known of each, and what each candidate says.

    Returns:
        A line for each row: its number ``row`` from 0; ``line``, ``path`` or ``name``; ``content`` of texts and tables;
        the number of its label, -1 where unknown; the round in which it was asked, 0 if it came with a label, -1 if
        nobody was asked; of each candidate ``says_``, the number of a label, and ``apart_``, how far it is from ERM.

    Raises:
        InputError: A row has a label that is not among the ``names``.
    """
    frames, said, apart = list[pd.DataFrame](), list[Tensor](), list[Tensor]()
    for frame, batches in parts:
        with torch.no_grad():
            for inputs in batches:
                logits = torch.stack([one.network(inputs) for one in models])
                said.append(logits.argmax(dim=2))
                apart.append(apart_of(logits))
        frames.append(frame)
    whole = _joined(frames, names)
    says = {f"says_{number}": one for number, one in enumerate(torch.cat(said, dim=1).numpy())}
    says |= {f"apart_{number}": one for number, one in enumerate(torch.cat(apart, dim=1).numpy())}
    return whole.assign(**says)


def predictions_in(table: pd.DataFrame, what: str = "says_") -> Array:
    """Return what the candidates say of the new rows, (C, M), or how far ``apart_`` from ERM they are."""
    return np.stack([table[name].to_numpy() for name in table if str(name).startswith(what)])


def called(row: pd.Series) -> str:
    """Return what a person calls a row: its file, its line or its number."""
    for name in ("path", "line", "row"):
        if name in row and not pd.isna(row[name]):
            return shown_path(row[name]) if name == "path" else f"{name} {row[name]}"
    return "a row"


def check(given: Any, built: Built) -> None:
    """Read new rows once: what is wrong with them is told before anything is trained. Arguments as of ``of_source``."""
    _joined([frame for frame, _ in of_source(given, built)], list(map(str, built.table.label_names)))


def _joined(frames: Sequence[pd.DataFrame], names: Sequence[str]) -> pd.DataFrame:
    """Return what is known of all rows; ``InputError`` if there are none, or a label is not among the ``names``."""
    if not frames:
        raise InputError("There are no new rows: give a folder or a table that holds some by --new-rows")
    whole = pd.concat(frames, ignore_index=True)
    whole.insert(0, "row", np.arange(len(whole)))
    label = places_of([None if pd.isna(one) else one for one in whole["label"]], names).numpy()
    unknown = whole[whole["label"].notna() & (label < 0)]
    if len(unknown):
        first, has = unknown.iloc[0], "has a label that is" if len(unknown) == 1 else "have labels that are"
        raise InputError(
            f"The new rows: {len(unknown):,} {has} not in the training data, such as {first['label']!r} "
            f"of {called(first)}: the labels are {', '.join(names)}; leave unknown ones empty"
        )
    return whole.drop(columns="label").assign(**{LABEL: label, ROUND: np.where(label >= 0, 0, -1)})


def apart_of(logits: Tensor) -> Tensor:
    """Return how far the probabilities of each candidate are from those of the first, (C, M), by logits (C, M, L).

    It is half the sum of absolute differences: 0 if they are equal, 1 if each is sure of another label.
    """
    probability = logits.softmax(dim=2)
    return (probability - probability[0]).abs().sum(dim=2) / 2


def of_split(table: DataTable) -> Iterator[Part]:
    """Yield the rows of the split ``new``."""
    rows = table.split[NEW]
    label = [None if number < 0 else str(table.label_names[number]) for number in table.label[rows].tolist()]
    files = None if table.files is None else [table.files[row] for row in rows.tolist()]
    lines = None if table.lines is None else table.lines[rows].tolist()
    yield _described(label, files, lines, table, rows), (batch.inputs for batch in BatchLoader(table, NEW).epoch())


def of_source(given: Any, built: Built) -> Iterator[Part]:
    """Yield rows from elsewhere, some at a time, prepared by what the training rows have shown.

    ``given`` is as ``DataSource.new_rows`` takes it; a folder may hold a folder for each label. ``InputError`` if a row
    cannot be read.
    """
    source, table, info = built.config.data.make(), built.table, built.table.info
    if isinstance(table.inputs, EncodedStore):
        original = table.inputs.original
        info = replace(info, input_shape=original.input_shape, tokens=original.holds_tokens)
    source.reader.prepare(table.preparation)
    names = {str(name) for name in table.label_names}
    given = Path(given) if isinstance(given, str) else given
    labelled = isinstance(given, Path) and given.is_dir() and any(one.name in names for one in visible_folders(given))
    for rows, store, forms in source.read(source.new_rows(given, labelled=labelled), info):
        yield _told(rows, built, forms), _inputs_of(store, table)


def _inputs_of(store: InputStore, table: DataTable) -> Iterator[Inputs]:
    """Yield the inputs of a network; nothing is encoded before somebody asks for them."""
    encoded = table.inputs.encode(store) if isinstance(table.inputs, EncodedStore) else store
    yield from batches_of(encoded, torch.device("cpu"))


def _told(rows: Rows, built: Built, forms: dict[str, Any]) -> pd.DataFrame:
    """Return label, name and content of rows from elsewhere."""
    column = str(built.config.data.options.get("label") or "label")
    label: Sequence[str | None] = rows.label or [None] * len(rows)
    if rows.frame is not None and column in rows.frame.columns:
        label = [one or None for one in texts_of(rows.frame, column)]
    lines = rows.numbers if what_rows_are(rows.numbers) == "line" else None
    new = replace(built.table, texts=forms.get("texts"), columns=forms.get("columns", {}))
    return _described(label, forms.get("files"), lines, new, torch.arange(len(rows)))


def _described(
    label: Sequence[str | None],
    files: Sequence[Any] | None,
    lines: Iterable[int] | None,
    table: DataTable,
    rows: Tensor,
) -> pd.DataFrame:
    """Return what a person knows of rows of a table: label, file or line, and content."""
    frame = pd.DataFrame({"label": pd.Series(list(label), dtype=object)})
    if files is not None:
        frame["path"] = [printable(os.path.abspath(file)) for file in files]
    elif lines is not None:
        frame["line"] = list(lines)
    content = table.contents(rows, most=SHOWN)
    return frame if content is None else frame.assign(content=content)
