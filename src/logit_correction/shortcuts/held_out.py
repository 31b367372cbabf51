"""Held-out predictions of the classifier that a search examines: of its own networks, of a run, or from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from logit_correction.attributes.base import compute_network_outputs
from logit_correction.data.cells import check_required_column_names
from logit_correction.data.row_file import RowFile
from logit_correction.errors import InputError
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import Report
from logit_correction.finding import BASELINE, EXAMINED
from logit_correction.networks import NETWORKS
from logit_correction.registry import import_component
from logit_correction.runs.folder import VALIDATION
from logit_correction.types import DataInfo, TrainingRows

#: Largest deviation from 1 of the sum of a row's probabilities in a file, which may be rounded.
SUM_TOLERANCE = 0.02


@dataclass(frozen=True)
class HeldOutPredictions:
    """Predictions of a classifier on rows that it was not trained on.

    Attributes:
        split: The split of the rows, ``train`` or ``valid``.
        rows: (m,) long, positions of the rows within their split.
        network: (m, L) class probabilities.
        fold: (m,) long from 0; probes predict the rows of a fold that they were not trained on.
        classifier: What texts call the classifier.
    """

    split: str
    rows: Tensor
    network: Tensor
    fold: Tensor
    classifier: str = BASELINE


@torch.no_grad()
def predict_held_out(run: str, info: DataInfo, rows: TrainingRows, device: torch.device) -> HeldOutPredictions:
    """Predict all validation rows by the network of a finished run on the same data.

    Where the run was trained again on all rows, the predictions of the training before are taken.

    Args:
        run: Folder of the run.
        info: Of the data.
        rows: The training rows, with the validation rows as ``held_out``.
        device: To predict on.
    """
    valid = rows.held_out
    assert valid is not None and valid.view_inputs is not None
    positions = torch.arange(len(valid.label))
    refit = Report.read(run).refit
    if refit is not None and "valid" in refit.splits:
        probabilities = torch.from_numpy(Predictions.load(Path(run) / VALIDATION).probabilities).float()
    else:
        network: nn.Module = import_component("network", "FromRun", NETWORKS)(info=info, run=run).eval().to(device)
        probabilities = compute_network_outputs(network, valid.view_inputs, next(network.parameters())).softmax(dim=1)
    return HeldOutPredictions("valid", positions, probabilities, torch.zeros_like(positions), EXAMINED)


def load_class_probabilities(
    path: str, rows: TrainingRows, labels: Sequence[str], draw_folds: Callable[[Tensor, Tensor | None], Tensor]
) -> HeldOutPredictions:
    """Read the predictions of any classifier on training rows, or on validation rows if the file has no training row.

    Args:
        path: CSV or Parquet file with a column ``row``, ``line`` or ``path``, and ``probability_LABEL`` (as ``predict``
            writes them) or ``p_LABEL`` (as an audit does) of each label.
        rows: The training rows, with the validation rows as ``held_out``.
        labels: The names of the labels.
        draw_folds: Labels of training rows, and their units -> fold of each; -1 leaves a row out.

    Raises:
        InputError: A column is missing, values are not probabilities, or no row is one of the data.
    """
    file = RowFile(path)
    prefix = "p_" if f"p_{labels[0]}" in file.frame else "probability_"
    columns = [f"{prefix}{label}" for label in labels]
    check_required_column_names(file.frame, str(file.path), columns)
    try:
        values = file.frame[columns].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{file.path}: columns probability_LABEL must hold numbers ({error})") from error
    is_invalid = ~np.isfinite(values).all(1) | (values < 0).any(1) | (np.abs(values.sum(1) - 1) > SUM_TOLERANCE)
    if is_invalid.any():
        raise InputError(
            f"{file.path}: the probabilities of {file.key} {file.names[int(is_invalid.argmax())]} do not add up to 1: "
            "give probabilities of all labels, not scores"
        )
    probabilities = torch.from_numpy(values).float()
    for split, split_rows in (("train", rows), ("valid", rows.held_out)):
        if split_rows is None:
            continue
        positions = file.find_row_positions(split_rows)  # in the file
        matched = (positions >= 0).nonzero().squeeze(1)
        if len(matched):
            unit = None if split_rows.unit is None else split_rows.unit[matched]
            fold = draw_folds(split_rows.label[matched], unit) if split == "train" else torch.zeros_like(matched)
            matched = matched[fold >= 0]
            return HeldOutPredictions(split, matched, probabilities[positions[matched]], fold[fold >= 0], EXAMINED)
    raise InputError(f"{file.path} has no training or validation row in its column {file.key}")
