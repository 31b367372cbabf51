"""The new rows, unlabelled target data: read part by part, and predicted by all candidates.

New rows are those that a model will be used on. They need not fit into memory, so they are read in parts, twice: once
for their labels and descriptions, before anything is trained, and once for the candidates' predictions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.data.cells import convert_to_texts, get_row_noun
from logit_correction.data.image_folders import list_folder
from logit_correction.data.labels import find_name_positions
from logit_correction.data.loading import BatchLoader, compute_evaluation_batch_size
from logit_correction.data.rows import RowErrors, Rows, describe_row_errors
from logit_correction.data.splits import NEW
from logit_correction.data.stores import build_view_inputs
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, warn_user
from logit_correction.formatting import format_first, format_option, format_row_count
from logit_correction.functional import wilson_interval
from logit_correction.runs.assemble import PreparedRun
from logit_correction.runs.row_inputs import concatenate_inputs
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.candidates import TrainedCandidate, build_candidates, train_candidates
from logit_correction.shortcuts.conflicts import ConflictDescriber, find_explaining_views
from logit_correction.shortcuts.new_rows_table import FIELDS, LABEL, NewRows, format_new_row_name
from logit_correction.shortcuts.selection import SHIFT_LEVEL, compute_shift_p_value
from logit_correction.shortcuts.summaries import CandidateResult, Selection
from logit_correction.training.display import Display
from logit_correction.types import Array, Inputs, ViewInputs
from logit_correction.unicode_text import escape_undecodable, normalize_text

#: Columns of a table that the description of a row shows.
MAX_SHOWN_COLUMNS = 40

#: Bytes of the inputs of all new rows up to which an audit keeps them, to learn a correction from the labelled ones.
MAX_INPUT_BYTES = 2**28


# -- reading


def open_new_rows(new_rows: Any, prepared_run: PreparedRun) -> list[Rows]:
    """Return new rows, unread; a folder may hold a folder for each label, and unlabelled images next to these.

    Args:
        new_rows: What ``DataSource.new_rows`` takes: a data frame, an array, texts, the path of a folder or a table.
        prepared_run: The prepared run on the training data.

    Raises:
        InputError: There is nothing at a path.
    """
    source = prepared_run.config.data.make()
    new_rows = Path(new_rows) if isinstance(new_rows, str) else new_rows
    if not isinstance(new_rows, Path) or not new_rows.is_dir():
        return list(source.new_rows(new_rows))
    label_names = {str(name).casefold() for name in prepared_run.table.label_names}
    listing = list_folder(new_rows)
    folders = {normalize_text(folder.name).casefold() for folder in listing.folders}
    # A folder whose name differs from a label in case alone is meant as one, and refused as it is in a column.
    labelled = bool(folders & label_names)
    rows = list(source.new_rows(new_rows, labelled=labelled))
    if labelled and listing.images:
        rows += source.new_rows(listing.images)
    folders_of_images = {} if labelled else {file.parent: None for part in rows for file in part.files or ()}
    like_labels = [str(folder) for folder in folders_of_images if folder.name.casefold() in label_names]
    if like_labels:
        shown = format_first(like_labels, 3)
        note = f"labels are read from folders directly in {new_rows}, so these give none: {shown}"
        rows[0] = replace(rows[0], notes=(*rows[0].notes, note))
    return rows


def read_new_rows(
    opened_rows: Sequence[Rows] | None, prepared_run: PreparedRun
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read labels and descriptions of all new rows; those that cannot be read are left out.

    What a user should know of the rows is a warning at once, even if the reading fails later, and a note of the result.

    Args:
        opened_rows: From ``open_new_rows``; None takes the rows of the split ``new``.
        prepared_run: The prepared run on the training data.

    Returns:
        The table of ``build_new_rows_table``, and what a user should know of the rows, such as values beyond the range
        of the training data.

    Raises:
        InputError: No row can be read, or one has a label that is not in the training data.
    """
    table = prepared_run.table
    if opened_rows is None:
        rows = table.split[NEW]
        labels = [None if label < 0 else table.label_names[label] for label in table.label[rows].tolist()]
        files = None if table.files is None else [table.files[row] for row in rows.tolist()]
        lines = None if table.lines is None else table.lines[rows].tolist()
        identifiers = {name: [texts[row] for row in rows.tolist()] for name, texts in table.identifiers.items()}
        descriptions = _build_descriptions(labels, files, lines, table, rows, identifiers)
        return build_new_rows_table([descriptions], table), ()
    frames = []
    errors: list[RowErrors] = []
    notes: list[str] = []
    count = 0

    def report_note(note: str) -> None:
        warn_user(note)
        notes.append(note)

    model = prepared_run.build_model()
    for part, _, contents in model.read(opened_rows, keep_bad=True, report_note=report_note):
        columns = model.source.reader.read_identifier_columns(part)
        identifiers = {name: texts for name, texts in columns.items() if name in table.identifiers}
        frame = _build_row_descriptions(part, prepared_run, contents, identifiers)
        frame["row"] = np.arange(count, count + len(part))
        frames.append(frame[part.errors.is_good.numpy()])
        errors += [part.errors] if part.errors else []
        count += len(part)
    if errors:
        num_left_out = sum(map(len, errors))
        if num_left_out == count:
            errors[0].raise_if_any()
        report_note(f"{format_row_count(num_left_out)} left out of the new rows: {describe_row_errors(errors)}")
    return build_new_rows_table(frames, table), tuple(notes)


def iterate_inputs(
    opened_rows: Sequence[Rows] | None, prepared_run: PreparedRun, add_part: Callable[[ViewInputs], None]
) -> Iterator[Inputs]:
    """Yield batches of network inputs of the rows that ``read_new_rows`` has read, in the same order.

    Args:
        opened_rows: From ``open_new_rows``; None takes the rows of the split ``new``.
        prepared_run: The prepared run on the training data.
        add_part: Called with each part of the rows, as views look at them.
    """
    if opened_rows is None:
        add_part(prepared_run.table.view_inputs(NEW))
        yield from (batch.inputs for batch in BatchLoader(prepared_run.table, NEW).epoch())
        return
    model = prepared_run.build_model()
    parts = model.read(opened_rows, keep_bad=True, report_note=lambda note: None)  # ``read_new_rows`` has given them
    for rows, store, contents in parts:
        encoded = model.encode(store)
        good = rows.errors.is_good.nonzero().flatten()
        add_part(build_view_inputs(encoded, contents).take(good))
        for positions in good.split(compute_evaluation_batch_size(encoded)):
            yield encoded.fetch(positions)


def _build_row_descriptions(
    rows: Rows, prepared_run: PreparedRun, contents: dict[str, Any], identifiers: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    column = str(prepared_run.config.data.options.get("label") or "label")
    labels: Sequence[str | None] = rows.label or [None] * len(rows)
    if rows.frame is not None and column in rows.frame.columns:
        labels = [label or None for label in convert_to_texts(rows.frame[column])]
    lines = rows.numbers if get_row_noun(rows.numbers) == "line" else None
    part = replace(prepared_run.table, texts=contents.get("texts"), columns=contents.get("columns", {}))
    return _build_descriptions(labels, contents.get("files"), lines, part, torch.arange(len(rows)), identifiers)


def _build_descriptions(
    labels: Sequence[str | None],
    files: Sequence[Any] | None,
    lines: Iterable[int] | None,
    table: DataTable,
    rows: Tensor,
    identifiers: Mapping[str, Sequence[str]],
) -> pd.DataFrame:
    frame = pd.DataFrame({"label": pd.Series(list(labels), dtype=object)})
    if files is not None:
        frame["path"] = [escape_undecodable(os.path.abspath(file)) for file in files]
    elif lines is not None:
        frame["line"] = list(lines)
    content = table.describe_rows(rows, max_columns=MAX_SHOWN_COLUMNS)
    if content is None:
        return frame
    names = [[(name, texts[row]) for name, texts in identifiers.items()] for row in range(len(rows))]
    prefixes = ["".join(f"{name} {text}, " for name, text in pairs) for pairs in names]
    frame["content"] = [f"{prefix}{text}" for prefix, text in zip(prefixes, content, strict=True)]
    if table.columns:
        fields = table.list_row_fields(rows, max_columns=MAX_SHOWN_COLUMNS)
        frame[FIELDS] = [json.dumps([*first, *others]) for first, others in zip(names, fields, strict=True)]
    return frame


def build_new_rows_table(frames: Sequence[pd.DataFrame], table: DataTable) -> pd.DataFrame:
    """Return descriptions of new rows with the index of each known label in the column ``label_number``, else -1.

    Args:
        frames: With a column ``label`` of names or None, and others that describe the rows.
        table: The training data.

    Raises:
        InputError: The table is empty, or a label is not in the training data.
    """
    if not sum(map(len, frames)):
        option = format_option("new_rows")
        raise InputError(f"There are no new rows: give a folder or a table that holds some by {option}")
    rows = pd.concat(frames, ignore_index=True)
    numbers = rows.pop("row") if "row" in rows else np.arange(len(rows))
    rows.insert(0, "row", numbers)
    label = find_name_positions([None if pd.isna(name) else name for name in rows["label"]], table.label_names).numpy()
    unknown = rows[rows["label"].notna() & (label < 0)]
    if len(unknown):
        first = unknown.iloc[0]
        have = "has a label that is" if len(unknown) == 1 else "have labels that are"
        raise InputError(
            f"The new rows: {len(unknown):,} {have} not in the training data, such as {first['label']!r} "
            f"of {format_new_row_name(first)}: the labels are {', '.join(table.label_names)}; leave unknown ones empty"
        )
    return rows.drop(columns="label").assign(**{LABEL: label})


# -- predictions of the candidates


def predict_candidates(
    prepared_run: PreparedRun, described_rows: pd.DataFrame, inputs: Iterable[Inputs], display: Display
) -> tuple[NewRows, Selection]:
    """Train all candidates, predict the new rows with each, and test for a shift of the distribution.

    Args:
        prepared_run: The prepared run, after its search for shortcuts.
        described_rows: From ``build_new_rows_table``.
        inputs: Batches of the same rows, see ``iterate_inputs``.
        display: Shows the progress.

    Returns:
        The rows with all predictions, and the result of the test without answers.
    """
    models = train_candidates(build_candidates(prepared_run), prepared_run.table, display)
    display.show_message("predicting the new rows by all candidates")
    predictions = []
    distances = []
    logit_batches = []
    input_batches: list[Inputs] = []
    num_bytes = 0
    with torch.no_grad():
        for batch in inputs:
            logits = torch.stack([model.network(batch) for model in models])
            predictions.append(logits.argmax(dim=2))
            distances.append(compute_total_variation_to_erm(logits))
            logit_batches.append(logits.float())
            tensors = list(batch.values()) if isinstance(batch, dict) else [batch]
            num_bytes += sum(tensor.nbytes for tensor in tensors)
            input_batches = [*input_batches, batch] if num_bytes <= MAX_INPUT_BYTES else []
    label = described_rows[LABEL].to_numpy()
    rows = NewRows(
        descriptions=described_rows.drop(columns=LABEL),
        label=label,
        rounds=np.where(label >= 0, 0, -1),
        predictions=torch.cat(predictions, dim=1).numpy(),
        distances=torch.cat(distances, dim=1).numpy(),
        inclusion_probability={},
        logits=torch.cat(logit_batches, dim=1).numpy(),
        inputs=concatenate_inputs(input_batches) if num_bytes <= MAX_INPUT_BYTES else None,
    )
    return rows, _summarize_candidates(rows, models, prepared_run)


def compute_total_variation_to_erm(logits: Tensor) -> Tensor:
    """Return the total variation distance (C, M) of each candidate's class probabilities to those of ERM.

    TV(p, q) = 1/2 sum_y |p_y - q_y|: 0 if they are equal, 1 if each is certain of another label.

    Args:
        logits: (C, M, L) of C candidates, ERM first.
    """
    probability = logits.softmax(dim=2)
    return (probability - probability[0]).abs().sum(dim=2) / 2


def _summarize_candidates(rows: NewRows, models: Sequence[TrainedCandidate], prepared_run: PreparedRun) -> Selection:
    """Return the test for a shift from in-distribution rows, the validation rows first, and each candidate."""
    describer = ConflictDescriber(prepared_run.table)
    valid_label = prepared_run.table.label[prepared_run.table.split["valid"]].numpy()
    rows = rows.take(rows.sort_canonically())
    logits = torch.stack([model.in_distribution_logits for model in models])
    predictions = logits.argmax(dim=2).numpy()
    p_value = compute_shift_p_value(rows.distances, compute_total_variation_to_erm(logits).numpy())
    accuracy = (predictions[:, : len(valid_label)] == valid_label).mean(axis=1)
    return Selection(
        rows=rows.predictions.shape[1],
        labelled=int((rows.rounds == 0).sum()),
        usual_rows=predictions.shape[1],
        changed=p_value <= SHIFT_LEVEL,
        p_value=p_value,
        candidates=tuple(
            CandidateResult(
                name=model.candidate.name,
                description=model.candidate.description,
                config=model.candidate.config.to_dict(),
                views=model.candidate.views,
                seconds=round(model.seconds, 1),
                valid_accuracy=float(accuracy[number]),
                **_estimate_disagreement("differs_new", rows.predictions, number),
                **_estimate_disagreement("differs_usual", predictions, number),
                **_describe_conflicts(model, describer, prepared_run),
            )
            for number, model in enumerate(models)
        ),
    )


def _estimate_disagreement(key_prefix: str, predictions: Array, candidate_index: int) -> dict[str, Any]:
    """Return the share of rows on which a candidate contradicts ERM, with its interval."""
    count = int((predictions[candidate_index] != predictions[0]).sum())
    num_rows = predictions.shape[1]
    low, high = map(float, wilson_interval(count, num_rows))
    return {key_prefix: count / num_rows, f"{key_prefix}_low": low, f"{key_prefix}_high": high}


def _describe_conflicts(
    model: TrainedCandidate, describer: ConflictDescriber, prepared_run: PreparedRun
) -> dict[str, Any]:
    """Return which training rows a candidate takes for bias-conflicting; nothing of one that corrects nothing."""
    estimator = prepared_run.algorithm.attributes
    assert isinstance(estimator, Auto) and estimator.search is not None
    if model.conflicts is None:
        return {}
    views = model.candidate.views
    explained_by = find_explaining_views(estimator.search, model.conflicts, views)
    return {"contrasts": describer.describe(model.conflicts, views or explained_by), "explained_by": explained_by}
