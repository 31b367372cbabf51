"""Sheets on which people label new rows: rows are sampled onto them, and answers are read back.

A sheet is a CSV file with the number of each row, its file, line or content, and an empty column ``answer``. People
edit it in spreadsheets, so columns may move, change their case or become numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from logit_correction.data.cells import (
    check_required_columns,
    convert_to_texts,
    is_missing_cell,
    match_numeric_names,
    normalize_column_names,
)
from logit_correction.data.image_files import read_picture
from logit_correction.data.table_files import read_frame
from logit_correction.errors import InputError
from logit_correction.formatting import format_first, format_option, format_reason
from logit_correction.pages.answering import OpenSheet, RowToLabel
from logit_correction.pages.plots import encode_picture
from logit_correction.serialization import from_json_values
from logit_correction.shortcuts.new_rows_table import FIELDS, KNOWN_BY, NewRows, format_new_row_name
from logit_correction.shortcuts.sampling import compute_uniform_share
from logit_correction.shortcuts.selection import sample_rows_to_label
from logit_correction.spreadsheets import format_spreadsheet_rows, unescape_spreadsheet_texts

#: The column of a sheet that people fill in.
ANSWER = "answer"

#: Most pixels along the longer side of a picture on the page of rows to label.
PICTURE_SIDE = 640

#: Faults of a sheet that a message lists, characters of a wrong answer, and answers that contradict earlier ones.
MAX_FAULTS = 5
MAX_ANSWER_LENGTH = 60
MAX_CONTRADICTIONS = 20

#: Characters by which the content of a row is known again.
COMPARED_CHARACTERS = 1000


def sample_sheet(rows: NewRows, sample_size: int, seed: int) -> tuple[NewRows, pd.DataFrame]:
    """Return the rows, and a sheet of at most ``sample_size`` of them: first those still open, then newly sampled ones.

    Args:
        rows: With the answers of all rounds.
        sample_size: Rows of the sheet.
        seed: Of the audit; each round samples by another one.
    """
    num_new = sample_size - len(rows.open_descriptions)
    if num_new > 0:
        number = max(0, int(rows.rounds.max())) + 1
        order = rows.sort_canonically()
        ordered = rows.take(order)
        in_order, probability_in_order = sample_rows_to_label(
            ordered.predictions,
            num_new,
            seed + number,
            np.flatnonzero(ordered.rounds >= 0).tolist(),
            compute_uniform_share(num_new, int((rows.rounds >= 1).sum())) if has_deciding_rows(rows) else 0.0,
        )
        sampled = order[in_order]
        probability = np.zeros(len(order))
        probability[order] = probability_in_order
        rounds = rows.rounds.copy()
        rounds[sampled] = number
        probabilities = {**rows.inclusion_probability, number: probability}
        rows = replace(rows, rounds=rounds, inclusion_probability=probabilities)
    return rows, build_annotation_sheet(rows)


def has_deciding_rows(rows: NewRows) -> bool:
    """Return whether candidates contradict ERM on a row that was neither labelled nor put on a sheet."""
    return bool((rows.predictions != rows.predictions[0]).any(axis=0)[rows.rounds < 0].any())


def add_answers(
    rows: NewRows, sheet: Path | str | pd.DataFrame, label_names: Sequence[str], replace_answers: bool
) -> NewRows:
    """Return the rows with the answers of a sheet; empty answers stay open.

    Args:
        rows: Of the audit.
        sheet: The sheet, or its file.
        label_names: L names; answers may differ from them in case, blanks and the form of a number.
        replace_answers: Replace answers that were read before, where those of the sheet differ from them.

    Raises:
        InputError: The sheet is not of this audit, has an answer that is not a label, a row twice, or no answer; or it
            contradicts earlier answers, which are not to be replaced.
    """
    place = "The answers" if isinstance(sheet, pd.DataFrame) else str(sheet)
    frame, row_numbers, answers = _read_sheet(sheet, place)
    label_by_name = {_normalize_case_and_spaces(name): index for index, name in enumerate(label_names)}
    names = [_normalize_case_and_spaces(answer or "") for answer in answers]
    matches = match_numeric_names(names, list(label_by_name))
    position_by_row = {str(row): position for position, row in enumerate(rows.descriptions["row"].tolist())}
    known_by = [name for name in KNOWN_BY if name in frame and name in rows.descriptions]
    faults = []
    labels: dict[int, int] = {}
    for line, (row, answer) in enumerate(zip(row_numbers, answers, strict=True)):
        position = position_by_row.get(str(row), -1)
        label = label_by_name.get(matches.get(names[line], names[line]))
        if answer is None:
            continue
        if position < 0 or rows.rounds[position] < 1:
            faults.append(f"row {str(row)[:20]} was not asked")
        elif any(
            _describes_another_row(frame[name].iloc[line], rows.descriptions[name].iloc[position]) for name in known_by
        ):
            faults.append(f"row {row} is another one here: the sheet is that of another audit")
        elif label is None:
            faults.append(f"row {row}: {answer[:MAX_ANSWER_LENGTH]!r} is not a label")
        elif position in labels:
            faults.append(f"row {row} is there twice")
        else:
            labels[position] = label
    if faults:
        remedy = f"the labels are {', '.join(label_names)}; leave open what you do not know"
        raise InputError(f"{place}: {format_first(faults, MAX_FAULTS, '; ')}: {remedy}")
    if not labels:
        raise InputError(f"{place} has no answer: fill in the column {ANSWER} of some rows")
    contradictions = [
        f"row {rows.descriptions['row'].iloc[position]} was {label_names[rows.label[position]]}, now "
        f"{label_names[label]}"
        for position, label in labels.items()
        if rows.label[position] not in (label, -1)
    ]
    if contradictions and not replace_answers:
        listed = format_first(contradictions, MAX_CONTRADICTIONS, "; ")
        raise InputError(
            f"{place} contradicts answers that were read before: {listed}: give "
            f"{format_option('replace_answers', True)} to replace them, or leave these rows empty"
        )
    label_with_answers = rows.label.copy()
    label_with_answers[list(labels)] = list(labels.values())
    return replace(rows, label=label_with_answers)


def _normalize_case_and_spaces(name: str) -> str:
    return " ".join(name.casefold().split())


def _describes_another_row(cell: Any, known: Any) -> bool:
    """Return whether a cell of a sheet does not hold what is known of its row, apart from what programs change.

    They write other line breaks, cut long texts, and lose characters beyond ASCII where they take a file for one of
    another encoding; and people empty cells.

    Args:
        cell: Of the sheet.
        known: What the audit has there.
    """
    found, expected = ("".join(_remove_decimals(str(value).strip()).split()) for value in (cell, known))
    if is_missing_cell(cell) or found[:COMPARED_CHARACTERS] in ("", expected[:COMPARED_CHARACTERS]):
        return False
    if expected.isascii():
        return True
    kept, expected_kept = (re.sub(r"[^!->@-~]+", "", text)[:COMPARED_CHARACTERS] for text in (found, expected))
    return not expected_kept or kept != expected_kept


def _remove_decimals(number: str) -> str:
    """Return a whole number without the zeros behind its point, which programs add to a column with gaps."""
    return re.sub(r"\.0+$", "", number)


def has_unread_answers(rows: NewRows, sheet: Path) -> bool:
    """Return whether a sheet holds answers that are not among the rows' labels yet."""
    _, row_numbers, answers = _read_sheet(sheet, str(sheet))
    labelled = set(rows.descriptions["row"][rows.label >= 0].astype(str))
    return any(answer and row not in labelled for row, answer in zip(row_numbers, answers, strict=True))


def _read_sheet(
    sheet: Path | str | pd.DataFrame, source_name: str
) -> tuple[pd.DataFrame, list[str | None], list[str | None]]:
    """Return a sheet, the numbers of its rows and the answers; ``InputError`` without such columns."""
    if not isinstance(sheet, pd.DataFrame):
        sheet = unescape_spreadsheet_texts(read_frame(Path(sheet)))
    sheet = normalize_column_names(sheet.rename(columns=lambda name: str(name).casefold()), source_name)
    check_required_columns(sheet, source_name, ("row", ANSWER))
    row_numbers = convert_to_texts(sheet["row"])
    without_decimals = [row if row is None else _remove_decimals(row) for row in row_numbers]
    return sheet, without_decimals, convert_to_texts(sheet[ANSWER])


def encode_open_row_pictures(rows: NewRows) -> dict[str, str]:
    """Return row number -> a picture of each open row that is an image file; files that are gone are left out.

    Raises:
        InputError: A file cannot be read.
    """
    pictures: dict[str, str] = {}
    for _, row in rows.open_descriptions.iterrows():
        path = Path(row.get("path", ""))
        if not path.is_file():
            continue
        try:
            pixels = read_picture(path, None).pixels
        except Exception as error:  # Pillow raises many kinds
            reason = format_reason(error)
            remedy = "put a good one there, or take it away"
            raise InputError(f"{path} cannot be read as an image ({reason}): {remedy}") from error
        pictures[str(row["row"])] = encode_picture(pixels, PICTURE_SIDE)
    return pictures


def build_open_sheet(rows: NewRows, pictures: Mapping[str, str]) -> OpenSheet:
    """Return the open rows as the form shows them, in the order of the sheet.

    Args:
        rows: All new rows.
        pictures: Row number -> data URI, as ``encode_open_row_pictures`` returns them.

    Raises:
        ValueError: The stored fields of a row are not JSON.
    """
    heading, *lines = format_spreadsheet_rows(build_annotation_sheet(rows))
    to_label = []
    for (_, row), cells in zip(rows.open_descriptions.iterrows(), lines, strict=True):
        fields = from_json_values(list[tuple[str, str]], json.loads(row.get(FIELDS) or "[]"), FIELDS)
        to_label.append(
            RowToLabel(
                name=format_new_row_name(row),
                cells=cells,
                image=pictures.get(str(row["row"])),
                text=row.get("content"),
                fields=tuple(fields),
            )
        )
    return OpenSheet(heading, to_label)


def build_annotation_sheet(rows: NewRows) -> pd.DataFrame:
    """Return the sheet of all open rows, its column ``answer`` empty."""
    sheet = rows.open_descriptions
    return sheet[["row", *(name for name in KNOWN_BY if name in sheet)]].assign(**{ANSWER: ""})
