"""A method on small data, ready to be stepped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from logit_correction.data.loading import BatchLoader
from logit_correction.data.table import DataTable
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.networks.small import MLP
from logit_correction.registry import import_component
from logit_correction.runs.assemble import build_training_rows
from logit_correction.types import Batch

from ..conftest import build_arguments

Build = Callable[..., Algorithm]


def build(name: str, table: DataTable, seed: int = 0, *, stage: int = 0, **options: Any) -> Algorithm:
    """The method ``name`` with a small network, at the begin of a stage; stages before it are not trained."""
    cls = import_component("method", name, METHODS)
    options = {"network": lambda: MLP(table.info, hidden=(16, 16)), **build_arguments(cls, options)}
    algorithm: Algorithm = cls(info=table.info, seed=seed, **options)
    algorithm.setup(build_training_rows(table, algorithm, 0, None))
    algorithm.begin_stage(0, None)
    for number in range(1, stage + 1):
        algorithm.begin_stage(number, collect_stage_outputs(algorithm, table))
    return algorithm


@torch.no_grad()
def collect_stage_outputs(algorithm: Algorithm, table: DataTable) -> torch.Tensor:
    """What the loop hands to the next stage."""
    algorithm.eval()
    parts = [algorithm.collect_outputs(batch) for batch in BatchLoader(table, "train", batch_size=20).epoch()]
    algorithm.train()
    return torch.cat(parts)


def iterate_batches(algorithm: Algorithm, table: DataTable, epoch: int = 0) -> Iterator[Batch]:
    """One epoch of batches of 16 rows."""
    loader = BatchLoader(table, "train", batch_size=16, shuffle=True)
    return loader.epoch(epoch)


def take_steps(
    algorithm: Algorithm, table: DataTable, epochs: int = 1, optimizer: torch.optim.Optimizer | None = None
) -> list[float]:
    """Train in the plainest possible loop and return the losses."""
    optimizer = optimizer or torch.optim.Adam(algorithm.parameter_groups(), lr=1e-2)
    losses = []
    for epoch in range(epochs):
        for number, batch in enumerate(iterate_batches(algorithm, table, epoch)):
            step = algorithm(batch, epoch + number / 3)  # 48 rows make three steps an epoch
            optimizer.zero_grad()
            step.loss.backward()
            optimizer.step()
            losses.append(float(step.loss.detach()))
        algorithm.end_epoch()
    return losses


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


@pytest.fixture(name="build")
def _build() -> Build:
    return build


@pytest.fixture(name="batches")
def _batches() -> Callable[..., Iterator[Batch]]:
    return iterate_batches


@pytest.fixture(name="take_steps")
def _take_steps() -> Callable[..., list[float]]:
    return take_steps
