"""The running group prior over two processes equals the one of the concatenated batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from logit_correction.prior import GroupPrior

ESTIMATORS = ("cell", "joint", "algorithm-1")
AVERAGINGS = ("moving", "batch", "dataset")
Rows = tuple[Tensor, Tensor, Tensor]

WORKER = """
import itertools, sys
from pathlib import Path
import torch, torch.distributed as dist
from logit_correction.prior import GroupPrior
folder, rank = Path(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
batches, estimators, averagings = torch.load(folder / f"work_{rank}.pt", weights_only=True)
tables = {}
for estimator, averaging in itertools.product(estimators, averagings):
    prior = GroupPrior(3, 4, estimator=estimator, averaging=averaging).double()
    for batch in batches:
        prior.update(*batch)
    prior.end_epoch()
    tables[f"{estimator} {averaging}"] = prior.table
torch.save(tables, folder / f"tables_{rank}.pt")
dist.destroy_process_group()
"""


def random_batch(seed: int, rows: int, labels: int, attributes: int) -> Rows:
    """Labels, posteriors and label probabilities."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(0, labels, (rows,), generator=generator)
    posterior = torch.randn(rows, attributes, generator=generator, dtype=torch.float64).softmax(dim=1)
    return label, posterior, torch.rand(rows, generator=generator, dtype=torch.float64)


@pytest.mark.slow
def test_two_processes_hold_the_prior_of_the_whole_batch(
    two_processes: Callable[[str, Path], None], tmp_path: Path
) -> None:
    batches = [random_batch(step, 12, 3, 4) for step in range(3)]
    cut = 4  # ranks of unequal size: averaging before adding up would show
    for rank, own in enumerate((slice(None, cut), slice(cut, None))):
        share = [[part[own] for part in batch] for batch in batches]
        torch.save((share, ESTIMATORS, AVERAGINGS), tmp_path / f"work_{rank}.pt")
    two_processes(WORKER, tmp_path)
    ranks = [torch.load(tmp_path / f"tables_{rank}.pt", weights_only=True) for rank in range(2)]
    for estimator, averaging in itertools.product(ESTIMATORS, AVERAGINGS):
        prior = GroupPrior(3, 4, estimator=estimator, averaging=averaging).double()
        for batch in batches:
            prior.update(*batch)
        prior.end_epoch()
        name = f"{estimator} {averaging}"
        torch.testing.assert_close(ranks[0][name], prior.table)
        assert torch.equal(ranks[0][name], ranks[1][name])
