"""What a method's estimator says of rows that it was not trained on: of validation, of the test, of new data."""

from __future__ import annotations

import torch
from torch import Tensor

from logit_correction.data.table import DataTable
from logit_correction.evaluation.estimated import EstimatedAttributes
from logit_correction.methods.base import Algorithm
from logit_correction.runs.summary import attribute_names_of
from logit_correction.views.base import ViewInputs


def estimate_split(algorithm: Algorithm, table: DataTable, split: str) -> EstimatedAttributes | None:
    """Return the estimated attributes of all rows of a split; see ``estimate_rows``."""
    return estimate_rows(algorithm, table.label[table.split[split]], table.view_inputs(split))


@torch.no_grad()
def estimate_rows(algorithm: Algorithm, label: Tensor, rows: ViewInputs) -> EstimatedAttributes | None:
    """Return the estimated attributes of rows; reads no attribute label.

    Args:
        algorithm: In its own stage, or finished.
        label: (n,) long.
        rows: The rows in every form.

    Returns:
        None where the method estimates none, found nothing to estimate, or cannot tell of other rows than its own.
    """
    estimator = algorithm.attributes
    if estimator is None or estimator.abstained or algorithm.preparing:
        return None
    training = estimator.training
    estimator.eval()
    try:
        found = estimator.estimate_new(label, rows)
    finally:
        estimator.train(training)
    if found is None:
        return None
    sentence = (estimator.evidence or {}).get("sentence")
    source = estimator.describe().removesuffix(f": {sentence}")
    names = attribute_names_of(algorithm)
    return EstimatedAttributes(found.cpu().numpy(), names, estimator.correlation.to_table(), source)
