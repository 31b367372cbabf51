"""An attribute estimator on small data, trained alone in the plainest possible loop."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
import torch

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.data.loading import BatchLoader
from logit_correction.data.table import DataTable
from logit_correction.methods.erm import ERM
from logit_correction.networks.small import MLP
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, NetworkFactory, TrainingRows

E = TypeVar("E", bound=AttributeEstimator)


def attach_estimator(estimator: E, table: DataTable, *, seed: int = 0, network: NetworkFactory | None = None) -> E:
    """The estimator with its networks and the training rows; attributes only if it asks for them."""
    network = network or (lambda: MLP(table.info, hidden=(16,)))
    estimator.attach(ERM(network, table.info, seed=seed).build, network, table.info, seed)
    rows = table.split["train"]
    names = None if table.row_names is None else [table.row_names[row] for row in rows.tolist()]
    attribute = table.attribute[rows] if estimator.needs_attributes else None
    held_out = TrainingRows(table.label[table.split["valid"]], view_inputs=table.view_inputs("valid"))
    inputs = table.view_inputs("train")
    estimator.setup(
        TrainingRows(
            table.label[rows], attribute, inputs, names, rows, held_out=held_out, num_table_rows=len(table.label)
        )
    )
    return estimator


def train_estimator(
    estimator: E,
    table: DataTable,
    *,
    seed: int = 0,
    epochs: int | None = None,
    network: NetworkFactory | None = None,
    attach: bool = True,
) -> E:
    """The estimator as it begins a method's own stage: its own stages are trained, if it has any."""
    if attach:
        attach_estimator(estimator, table, seed=seed, network=network)
    randomness = StepRandomness(seed)
    outputs = None
    for stage in range(estimator.num_stages):
        plan = estimator.begin_stage(stage, outputs)
        optimizer = torch.optim.Adam(estimator.parameter_groups(), lr=1e-2)
        loader = BatchLoader(table, "train", batch_size=16, shuffle=True)
        for epoch in range(epochs or plan.epochs or 3):
            for number, batch in enumerate(loader.epoch(epoch)):
                optimizer.zero_grad()
                estimator.step(batch, epoch + number / len(loader), randomness).loss.backward()
                optimizer.step()
        with torch.no_grad():
            parts = [
                estimator.eval().collect_outputs(batch) for batch in BatchLoader(table, "train", batch_size=20).epoch()
            ]
        estimator.train()
        outputs = torch.cat(parts)
    estimator.finish(outputs)
    return estimator


def build_training_batch(table: DataTable) -> Batch:
    """All training rows in one batch."""
    rows = table.split["train"]
    return Batch(table.inputs.fetch(rows), table.label[rows], torch.arange(len(rows)))


@pytest.fixture
def table(make_table: Any) -> DataTable:
    """48 training rows of three labels, nine in ten aligned."""
    biased_table: DataTable = make_table()
    return biased_table
