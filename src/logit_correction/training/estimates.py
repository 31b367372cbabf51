"""What a method's estimator says of rows that it was not trained on: of validation, of the test, of new data."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from logit_correction.data.table import DataTable
from logit_correction.evaluation.predictions import EstimatedAttributes, evaluating
from logit_correction.methods.base import Algorithm
from logit_correction.types import Inputs
from logit_correction.views.base import ViewInputs


def estimate_split(algorithm: Algorithm, table: DataTable, split: str) -> EstimatedAttributes | None:
    """Return the estimated attributes of all rows of a split; see ``estimate_rows``."""
    return estimate_rows(algorithm, table.label[table.split[split]], table.view_inputs(split))


@torch.no_grad()
def estimate_rows(algorithm: Algorithm, label: Tensor, rows: ViewInputs) -> EstimatedAttributes | None:
    """Return the estimated attributes of rows (n,) of these labels; reads no attribute label."""
    estimator = algorithm.attributes
    if estimator is None or estimator.abstained or algorithm.in_pretraining:
        return None
    dtype = next((weight.dtype for weight in algorithm.parameters() if weight.is_floating_point()), None)

    def fetch(part: Tensor) -> Inputs:
        """Return rows in the precision of the network's weights, which a user's own may have chosen."""
        inputs = rows.inputs(part)
        return inputs.to(dtype) if isinstance(inputs, Tensor) and inputs.is_floating_point() else inputs

    with evaluating(estimator):
        found = estimator.estimate_new(label, replace(rows, inputs=fetch))
    if found is None:
        return None
    names = attribute_names_of(algorithm)
    return EstimatedAttributes(found.cpu().numpy(), names, estimator.correlation.to_table(), estimator.describe())


def attribute_names_of(algorithm: Algorithm) -> list[str]:
    """Return what to call a method's attribute values.

    They are those of the data where the method reads them, or it is known what goes together. Otherwise value j is
    whatever goes with label j, and nobody knows which of the data's values that is.
    """
    estimator, info = algorithm.attributes, algorithm.info
    if estimator is not None and estimator.attribute_names is not None:
        return estimator.attribute_names
    if info.correlation is not None and estimator and estimator.num_attributes == len(info.attribute_names):
        return list(info.attribute_names)
    return [f"that of {name}" for name in info.label_names]
