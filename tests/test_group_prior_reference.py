"""Every estimator and averaging of the group prior against plain Python."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from logit_correction.prior import GroupPrior

ESTIMATORS = ("cell", "joint", "algorithm-1")
AVERAGINGS = ("moving", "batch", "dataset")
Rows = tuple[Tensor, Tensor, Tensor]


def random_batch(seed: int, rows: int, labels: int, attributes: int) -> Rows:
    """Labels, posteriors and label probabilities; label 0 is never seen with attribute 0."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(0, labels, (rows,), generator=generator)
    logits = 2 * torch.randn(rows, attributes, generator=generator, dtype=torch.float64)
    logits[label == 0, 0] -= 50
    return label, logits.softmax(dim=1), torch.rand(rows, generator=generator, dtype=torch.float64)


class Reference:
    """The same estimates in plain Python: lists, dicts and loops over rows."""

    def __init__(self, labels: int, attributes: int, estimator: str, averaging: str, momentum: float) -> None:
        self.shape, self.estimator = (labels, attributes), estimator
        self.averaging, self.momentum = averaging, momentum
        self.cells = list(itertools.product(range(labels), range(attributes)))
        self.start = 1 / (labels * attributes)
        self.table = dict.fromkeys(self.cells, self.start)
        self.visited: set[tuple[int, int]] = set()
        self.epoch: dict[tuple[int, int], list[float]] = {cell: [] for cell in self.cells}

    def values(self, batch: Rows) -> dict[tuple[int, int], list[float]]:
        """For each cell the values whose mean is its estimate."""
        values: dict[tuple[int, int], list[float]] = {cell: [] for cell in self.cells}
        for y, posterior, own in zip(*(part.tolist() for part in batch), strict=True):
            greatest = posterior.index(max(posterior))
            if self.estimator == "cell":
                values[y, greatest].append(own)
            elif self.estimator == "algorithm-1":
                values[y, greatest].append(posterior[greatest])
            else:
                for cell in self.cells:
                    values[cell].append(posterior[cell[1]] if cell[0] == y else 0.0)
        return values

    def update(self, batch: Rows) -> None:
        if self.averaging == "batch":
            self.table = dict.fromkeys(self.cells, self.start)
        for cell, values in self.values(batch).items():
            self.epoch[cell] += values
            if not values or self.averaging == "dataset":
                continue
            mean = sum(values) / len(values)
            if self.averaging == "moving" and cell in self.visited:
                mean = self.momentum * self.table[cell] + (1 - self.momentum) * mean
            self.table[cell] = mean
            self.visited.add(cell)

    def end_epoch(self) -> None:
        if self.averaging == "dataset":
            self.table |= {cell: sum(values) / len(values) for cell, values in self.epoch.items() if values}
        self.epoch = {cell: [] for cell in self.cells}

    def tensor(self) -> Tensor:
        return torch.tensor([self.table[cell] for cell in self.cells], dtype=torch.float64).view(self.shape)


@pytest.mark.parametrize("averaging", AVERAGINGS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_every_estimator_and_averaging_equals_plain_python(
    estimator: str, averaging: str, shape: tuple[int, int]
) -> None:
    prior = GroupPrior(*shape, estimator=estimator, averaging=averaging, momentum=0.7).double()
    reference = Reference(*shape, estimator, averaging, momentum=0.7)
    for epoch in range(2):
        for step in range(4):
            batch = random_batch(10 * epoch + step, rows=5, labels=shape[0], attributes=shape[1])
            prior.update(*batch)
            reference.update(batch)
            torch.testing.assert_close(prior.table, reference.tensor())
        prior.end_epoch()
        reference.end_epoch()
        torch.testing.assert_close(prior.table, reference.tensor())
    if estimator != "joint":
        assert prior.table[0, 0].item() == pytest.approx(1 / (shape[0] * shape[1]))  # never visited
    else:
        assert prior.table.sum().item() == pytest.approx(1.0)


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    estimator=st.sampled_from(ESTIMATORS),
    averaging=st.sampled_from(AVERAGINGS),
)
def test_random_runs_equal_plain_python_in_single_precision(seed: int, estimator: str, averaging: str) -> None:
    prior = GroupPrior(3, 4, estimator=estimator, averaging=averaging, momentum=0.9)
    reference = Reference(3, 4, estimator, averaging, momentum=0.9)
    for step in range(3):
        batch = random_batch(seed + step, rows=8, labels=3, attributes=4)
        prior.update(*batch)
        reference.update(batch)
    prior.end_epoch()
    reference.end_epoch()
    assert prior.table.dtype == torch.float32
    torch.testing.assert_close(prior.table.double(), reference.tensor(), rtol=1e-4, atol=1e-6)
