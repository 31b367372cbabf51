"""The running group prior: against plain Python, over two processes, its lookup, its state and what it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from logit_correction.functional import shift_log_prior
from logit_correction.losses import GroupPrior

ESTIMATORS = ("cell", "joint", "algorithm-1")
AVERAGINGS = ("moving", "batch", "dataset")
KINDS = list(itertools.product(ESTIMATORS, AVERAGINGS))
PUBLISHED = [("published", averaging) for averaging in ("moving", "moving-rows", "batch", "dataset")]
Rows = tuple[Tensor, Tensor, Tensor]


def draw_batch(seed: int, rows: int, labels: int, attributes: int) -> Rows:
    """Labels, posteriors and label probabilities; label 0 is never seen with attribute 0."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(0, labels, (rows,), generator=generator)
    logits = 2 * torch.randn(rows, attributes, generator=generator, dtype=torch.float64)
    logits[label == 0, 0] -= 50
    return label, logits.softmax(dim=1), torch.rand(rows, generator=generator, dtype=torch.float64)


class ReferencePrior:
    """The same estimates in plain Python: lists, dicts and loops over rows."""

    def __init__(self, labels: int, attributes: int, estimator: str, averaging: str, momentum: float) -> None:
        self.shape = (labels, attributes)
        self.estimator = estimator
        self.averaging = averaging
        self.momentum = momentum
        self.cells = list(itertools.product(range(labels), range(attributes)))
        self.start = 1 / (labels * attributes)
        self.table = dict.fromkeys(self.cells, self.start)
        self.visited: set[tuple[int, int]] = set()
        self.epoch: dict[tuple[int, int], list[float]] = {cell: [] for cell in self.cells}

    def values(self, batch: Rows) -> dict[tuple[int, int], list[float]]:
        """For each cell the values whose mean is its estimate."""
        cell_values: dict[tuple[int, int], list[float]] = {cell: [] for cell in self.cells}
        for y, posterior, label_probability in zip(*(part.tolist() for part in batch), strict=True):
            greatest = posterior.index(max(posterior))
            if self.estimator == "cell":
                cell_values[y, greatest].append(label_probability)
            elif self.estimator == "algorithm-1":
                cell_values[y, greatest].append(posterior[greatest])
            else:
                for cell in self.cells:
                    cell_values[cell].append(posterior[cell[1]] if cell[0] == y else 0.0)
        return cell_values

    def update(self, batch: Rows) -> None:
        if self.averaging == "batch":
            self.table = dict.fromkeys(self.cells, self.start)
        for cell, cell_values in self.values(batch).items():
            self.epoch[cell] += cell_values
            if not cell_values or self.averaging == "dataset":
                continue
            mean = sum(cell_values) / len(cell_values)
            if self.averaging == "moving" and cell in self.visited:
                mean = self.momentum * self.table[cell] + (1 - self.momentum) * mean
            self.table[cell] = mean
            self.visited.add(cell)

    def end_epoch(self) -> None:
        if self.averaging == "dataset":
            self.table |= {
                cell: sum(cell_values) / len(cell_values) for cell, cell_values in self.epoch.items() if cell_values
            }
        self.epoch = {cell: [] for cell in self.cells}

    def tensor(self) -> Tensor:
        return torch.tensor([self.table[cell] for cell in self.cells], dtype=torch.float64).view(self.shape)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from([(3, 3), (2, 4), (4, 2)]),
    precision=st.sampled_from([torch.float32, torch.float64]),
)
def test_group_prior_equals_reference_for_every_estimator_and_averaging(
    seed: int, kind: tuple[Any, Any], shape: tuple[int, int], precision: torch.dtype
) -> None:
    prior = GroupPrior(*shape, estimator=kind[0], averaging=kind[1], momentum=0.7).to(precision)
    reference = ReferencePrior(*shape, *kind, momentum=0.7)
    tolerance = {"rtol": 1e-4, "atol": 1e-6} if precision is torch.float32 else {"rtol": 1e-7, "atol": 1e-7}
    for epoch in range(2):
        for step in range(3):
            batch = draw_batch(seed + 10 * epoch + step, 5, *shape)
            prior.update(*batch)
            reference.update(batch)
            torch.testing.assert_close(prior.table.double(), reference.tensor(), **tolerance)
        prior.end_epoch()
        reference.end_epoch()
        torch.testing.assert_close(prior.table.double(), reference.tensor(), **tolerance)


WORKER = """
import itertools, sys
from pathlib import Path
import torch, torch.distributed as dist
from logit_correction.losses import GroupPrior
folder, rank = Path(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
batches, kinds = torch.load(folder / f"work_{rank}.pt", weights_only=True)
tables = {}
for estimator, averaging in kinds:
    prior = GroupPrior(3, 4, estimator=estimator, averaging=averaging).double()
    for batch in batches:
        prior.update(*batch)
    prior.end_epoch()
    tables[f"{estimator} {averaging}"] = prior.table
torch.save(tables, folder / f"tables_{rank}.pt")
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_group_prior_of_two_processes_is_that_of_the_whole_batch(
    run_two_processes: Callable[[str, Path], None], tmp_path: Path
) -> None:
    batches = [draw_batch(step, 12, 3, 4) for step in range(3)]
    for rank, rank_rows in enumerate(
        (slice(None, 4), slice(4, None))
    ):  # unequal: averaging before adding up would show
        share = [[part[rank_rows] for part in batch] for batch in batches]
        torch.save((share, KINDS + PUBLISHED), tmp_path / f"work_{rank}.pt")
    run_two_processes(WORKER, tmp_path)
    ranks = [torch.load(tmp_path / f"tables_{rank}.pt", weights_only=True) for rank in range(2)]
    for estimator, averaging in KINDS + PUBLISHED:
        prior = GroupPrior(3, 4, estimator=estimator, averaging=averaging).double()  # type: ignore[arg-type]
        for batch in batches:
            prior.update(*batch)
        prior.end_epoch()
        name = f"{estimator} {averaging}"
        torch.testing.assert_close(ranks[0][name], prior.table)
        assert torch.equal(ranks[0][name], ranks[1][name])


@pytest.mark.parametrize("averaging", ["fixed", "moving"])
def test_log_for_attribute_is_the_logarithm_of_the_prior(averaging: Any) -> None:
    def compute_expected(prior: GroupPrior, attribute: Tensor) -> Tensor:
        return shift_log_prior(prior.log(prior.for_attribute(attribute)))

    attribute = torch.tensor([1, -1, 0, 1])
    prior, other = (GroupPrior(2, 2, averaging=averaging, floor=0.0) for _ in range(2))
    assert torch.equal(prior.log_for_attribute(attribute), torch.zeros(4, 2))
    prior.set_table(torch.tensor([[0.5, 0.0], [0.25, 0.25]]))
    log_prior = prior.log_for_attribute(attribute)
    assert torch.equal(log_prior, compute_expected(prior, attribute)) and log_prior[0].tolist() == [-30.0, 0.0]
    assert torch.equal(prior.for_attribute(attribute)[1], torch.full((2,), 0.25))  # of an unknown attribute
    other.load_state_dict(prior.state_dict())
    assert torch.equal(other.log_for_attribute(attribute), log_prior)
    prior.resize(3)
    assert torch.equal(prior.log_for_attribute(attribute + 1), compute_expected(prior, attribute + 1))
    for wrong in (-2, 3):
        with pytest.raises(ValueError, match="attribute must lie in -1"):
            prior.log_for_attribute(torch.tensor([0, wrong]))


@pytest.mark.parametrize(("estimator", "averaging"), [*itertools.product(["joint"], AVERAGINGS), *PUBLISHED])
def test_group_prior_loaded_from_its_state_continues_with_the_same_values(
    estimator: Any, averaging: Any, tmp_path: Path
) -> None:
    uninterrupted = GroupPrior(3, 4, estimator=estimator, averaging=averaging)
    resumed = GroupPrior(3, 2, estimator=estimator, averaging=averaging)
    for step in range(3):
        uninterrupted.update(*draw_batch(step, 6, 3, 4))
    torch.save(uninterrupted.state_dict(), tmp_path / "state.pt")
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for prior in (uninterrupted, resumed):
        prior.update(*draw_batch(9, 6, 3, 4))
        prior.end_epoch()
    for name, value in uninterrupted.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
