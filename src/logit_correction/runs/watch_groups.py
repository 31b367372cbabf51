"""Whether the groups among new rows move against training: no label is needed, the network's prediction stands in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.evaluation.estimated import EstimatedAttributes
from logit_correction.evaluation.shift import GroupShift
from logit_correction.methods.base import Algorithm
from logit_correction.training.estimates import estimate_rows
from logit_correction.views.base import ViewInputs

if TYPE_CHECKING:
    from logit_correction.runs.trained import TrainedRun

_WANTED = "train LC, whose estimator looks for a shortcut"


def counts_of(prediction: Tensor, estimate: EstimatedAttributes, num_labels: int) -> NDArray[np.int64]:
    """Return how many rows there are of each predicted label and estimated attribute, (L, K + 1), unknown last."""
    width = len(estimate.names) + 1
    look = np.where(estimate.attribute < 0, width - 1, estimate.attribute)
    cells = np.bincount(prediction.numpy() * width + look, minlength=num_labels * width)
    return cells.reshape(num_labels, width).astype(np.int64)


def describe_reference(algorithm: Algorithm, prediction: Tensor, rows: ViewInputs) -> dict[str, Any] | None:
    """Return the validation rows by predicted label and estimated attribute, to which new rows are compared later.

    Args:
        algorithm: Finished.
        prediction: (n,) long, the predicted labels; they stand in the place of the labels, as they will of new rows.
        rows: The validation rows.

    Returns:
        What ``report.json`` holds; None where nothing can be told of rows that were not trained on.
    """
    estimate = estimate_rows(algorithm, prediction, rows)
    if estimate is None:
        return None
    counts = counts_of(prediction, estimate, algorithm.info.num_labels)
    return {"split": "valid", "counts": counts.tolist(), **estimate.metadata()}


class GroupWatch:
    """Counts new rows by predicted label and estimated attribute, a few at a time."""

    def __init__(self, run: TrainedRun) -> None:
        """Read the reference.

        Args:
            run: A finished run.

        Raises:
            InputError: If its estimator cannot look at new rows.
        """
        self.run, estimator = run, run.algorithm.attributes
        reference = run.report.get("predicted_groups")
        if estimator is None:
            raise InputError(f"--watch-groups: {run} estimates no groups ({run.report['method']}): {_WANTED}")
        if estimator.abstained:
            raise InputError(f"--watch-groups: {run} found no shortcut, so there are no groups to watch")
        if reference is None:
            raise InputError(
                f"--watch-groups: {run} keeps nothing to compare new rows with, for its estimator knows its training "
                f"rows alone: {_WANTED}"
            )
        self._reference: dict[str, Any] = reference
        counts = np.asarray(reference["counts"], dtype=np.int64)
        looks = len(reference["names"])
        known = all(value < looks for values in reference["table"] for value in values)
        if counts.shape != (len(run.label_names), looks + 1) or len(reference["table"]) != len(counts) or not known:
            raise InputError(f"{run}: predicted_groups of report.json does not fit its labels: train again")
        self.reference, self.new = counts, np.zeros_like(counts)

    def add(self, probability: NDArray[np.float32], rows: ViewInputs) -> None:
        """Count rows.

        Args:
            probability: (n, L), what was predicted.
            rows: The rows as views may look at them.

        Raises:
            InputError: If the estimator cannot look at such rows.
        """
        prediction = torch.from_numpy(probability).argmax(dim=1)
        estimate = estimate_rows(self.run.algorithm, prediction, rows)
        if estimate is None:
            raise InputError(
                f"--watch-groups: the estimator of {self.run} ({self._reference['source']}) cannot look at rows that "
                "come in this form: give them as those of training were"
            )
        self.new += counts_of(prediction, estimate, len(self.run.label_names))

    def result(self) -> GroupShift:
        """Return the rows so far beside the reference."""
        names, table = self._reference["names"], self._reference["table"]
        labels = [str(name) for name in self.run.label_names]
        return GroupShift(self.reference, self.new, labels, names, table)
