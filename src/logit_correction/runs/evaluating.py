"""Evaluating a finished run again: on a split of its data, or on new labelled rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.frames import read_frame, row_names
from logit_correction.data.table import SPLITS, DataTable
from logit_correction.errors import InputError
from logit_correction.evaluation.predictions import EstimatedAttributes, Predictions, collect
from logit_correction.runs.encode import encode_table
from logit_correction.runs.folder import CONFIG, PREDICTIONS
from logit_correction.runs.labelled_rows import Names, labelled
from logit_correction.runs.new_files import labelled_images
from logit_correction.runs.new_rows import NewInputs, Part
from logit_correction.runs.same_data import check_same_data
from logit_correction.runs.write import figures_of, predictions_of
from logit_correction.training.estimates import estimate_rows, estimate_split
from logit_correction.training.loaders import evaluation_loader

if TYPE_CHECKING:
    from logit_correction.runs.trained import TrainedRun


def evaluate_split(run: TrainedRun, split: str) -> dict[str, Any]:
    """Return the figures of a run on a split of its data, which are read anew.

    Raises:
        InputError: If there is no such split, or the data cannot be read.
    """
    table, _, logits, estimate = _predicted(run, split)
    return figures_of(predictions_of(table, split, logits, estimate), table).to_dict()


def predictions_of_split(run: TrainedRun, split: str) -> Predictions:
    """Return what a run predicts of a split of its data; of the test what it kept, others are read anew.

    Raises:
        InputError: If there is no such split, or the data cannot be read.
    """
    kept = run.path / PREDICTIONS
    return Predictions.load(kept) if split == "test" else predictions_of(*_predicted(run, split))


def _predicted(run: TrainedRun, split: str) -> tuple[DataTable, str, Tensor, EstimatedAttributes | None]:
    """Return the data of a run, the split, its logits (n, L), and what is estimated of its rows.

    Raises:
        InputError: If there is no such split, or the data cannot be read or are other ones.
    """
    if split not in SPLITS:
        raise InputError(f"{split!r} is no split: give test, valid or train, or new rows with their labels")
    _check_place(run)
    table = run.source.build().check()
    check_same_data(run.report, table, run.path, "judge other rows by `evaluate --on FILE`")
    if run.config.encoder is not None:
        with run.names():
            table = encode_table(table, run.config, expected=run.report["encoder"])
    batches = evaluation_loader(table, split, run.config.training, run.device).epoch()
    algorithm = run.algorithm
    logits = collect(lambda batch: {"logits": algorithm.predict(batch.inputs)}, batches)["logits"]
    return table, split, logits, estimate_split(algorithm, table, split)


def _check_place(run: TrainedRun) -> None:
    """Return if the data may lie where the run's options say.

    Raises:
        InputError: Nothing is at a place that counts from the folder where the run was trained.
    """
    for option in ("file", "root"):
        place = run.config.data.options.get(option)
        if isinstance(place, str) and not Path(place).is_absolute() and not Path(place).expanduser().exists():
            raise InputError(
                f"{place} does not exist here: --data.{option} of {run.path / CONFIG} counts from the folder where the "
                "run was trained: go there, or judge other rows by `evaluate --on`"
            )


def evaluate_new(
    run: TrainedRun, data: Path | NewInputs, label: Names | None, attribute: Names | None
) -> dict[str, Any]:
    """Return the figures of a run on new labelled rows; see ``TrainedRun.evaluate``.

    Raises:
        InputError: If data cannot be read, or a label is none of the run's.
    """
    if label is None:
        label = run.config.data.options.get("label") or ("label" if isinstance(data, Path) else None)
    parts: Iterator[Part]
    if not isinstance(data, Path):
        rows, parts = labelled(data, label, attribute, run.report), run.parts(data)
    elif run.source.reads_tables and not data.is_dir():
        frame = read_frame(data)
        rows = labelled(frame, label, attribute, run.report, str(data), row_names(frame.index))
        parts = iter([(run.source.read_table(data, frame)[2], run.source.looks(frame, data.parent))])
    else:
        listed, files, label = labelled_images(data, label, attribute)
        names = list(map(str, files)) if listed is None else row_names(listed.index)
        rows, parts = labelled(listed, label, attribute, run.report, str(data), names), run.parts(files)
    return rows.evaluate(*_seen(run, parts, torch.from_numpy(rows.label)))


def _seen(run: TrainedRun, parts: Iterator[Part], label: Tensor) -> tuple[Any, EstimatedAttributes | None]:
    """Return what the run predicts of new rows (n, L), and what its estimator says of them."""
    predicted, estimates, start = [np.zeros((0, len(run.label_names)), np.float32)], [], 0
    for store, looks in parts:
        own = label[start : start + len(store)]
        start += len(store)
        probability, rows = run.answers(store, looks)
        predicted.append(probability)
        if len(own) == len(store):  # else there are too few labels, which is told with the number of all rows
            estimates.append(estimate_rows(run.algorithm, own, rows))
    known = [one for one in estimates if one is not None]
    if not known or len(known) < len(estimates):
        return np.concatenate(predicted), None
    attribute = np.concatenate([one.attribute for one in known])
    return np.concatenate(predicted), replace(known[0], attribute=attribute)
