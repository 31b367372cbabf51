"""Archives next to the table of new rows: logits of the candidates, inputs of the networks, and labelled rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch

from logit_correction.errors import InputError
from logit_correction.evaluation.answers import AnswerCounts
from logit_correction.runs.average import LabelledRows, write_labelled_rows
from logit_correction.shortcuts.new_rows_table import NewRows, take_inputs
from logit_correction.shortcuts.selection import compute_answer_weights
from logit_correction.types import Inputs

#: Prefix of the arrays of inputs in the archive; what follows is the name of an input of several.
INPUT_PREFIX = "inputs:"


def write_logits_and_inputs(path: Path, rows: NewRows) -> None:
    """Write logits and inputs of new rows as a NumPy archive, which holds no code."""
    inputs = rows.inputs if isinstance(rows.inputs, dict) else {"": rows.inputs}
    arrays = {f"{INPUT_PREFIX}{name}": tensor.numpy() for name, tensor in inputs.items() if tensor is not None}
    with path.open("wb") as file:
        np.savez_compressed(file, logits=rows.logits, **arrays)  # type: ignore[arg-type]


def read_logits_and_inputs(path: Path, rows: NewRows, remedy: str) -> NewRows:
    """Return new rows with the logits and inputs that ``write_logits_and_inputs`` has written.

    Args:
        path: The archive; where it is missing, as in audits of older versions, the rows have none.
        rows: Of the table.
        remedy: What a user can do about a damaged file.

    Raises:
        InputError: The archive is damaged.
    """
    if not path.is_file():
        return rows
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        logits = arrays.pop("logits")
        if logits.shape[:2] != rows.predictions.shape or any(
            len(array) != len(rows.label) for array in arrays.values()
        ):
            raise ValueError("it has other rows than the table")
        tensors = {name.removeprefix(INPUT_PREFIX): torch.from_numpy(array) for name, array in arrays.items()}
    except (OSError, ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
        raise InputError(f"{path} is damaged ({error}): {remedy}") from error
    inputs: Inputs | None = tensors or None
    if set(tensors) == {""}:
        inputs = tensors[""]
    return replace(rows, logits=logits, inputs=inputs)


def write_answers(path: Path, rows: NewRows, counts: AnswerCounts | None) -> bool:
    """Write the labelled rows, from which a fix learns its correction; return whether there is anything to write."""
    is_known = rows.label >= 0
    if rows.inputs is None or not is_known.any():
        return False
    positions = np.flatnonzero(is_known)
    weight = compute_answer_weights(rows.predictions, is_known, rows.rounds, rows.inclusion_probability)[positions]
    inputs = take_inputs(rows.inputs, positions)
    write_labelled_rows(path, LabelledRows(inputs, rows.label[positions], weight.clip(1e-3), counts))
    return True
