"""Just train twice, in the real loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor

from logit_correction.config import TrainingConfig
from logit_correction.data.table import DataTable
from logit_correction.errors import TrainingError
from logit_correction.methods.jtt import JTT
from logit_correction.networks.small import MLP
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit
from logit_correction.types import Batch, Step


class Watched(JTT):
    """Remembers the rows of each step."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen: dict[int, list[Tensor]] = {0: [], 1: []}

    def forward(self, batch: Batch, epoch: float) -> Step:
        self.seen[self.stage].append(batch.index)
        return super().forward(batch, epoch)


def make_fit(table: DataTable, folder: Path, **options: Any) -> Fit:
    algorithm = Watched(lambda: MLP(table.info, hidden=(8,)), table.info, seed=4, **{"up_weight": 7, **options})
    config = TrainingConfig(epochs=3, batch_size=16, learning_rate=1e-2, seed=4)
    return Fit(algorithm, table, config, Fabric(accelerator="cpu"), folder / "resume.pt", Display())


def test_the_second_stage_sees_exactly_the_up_weighted_rows(table, tmp_path) -> None:
    fit = make_fit(table, tmp_path, identification_epochs=2)
    fit.run()
    algorithm = fit.algorithm
    rows = table.split["train"]
    wrong = algorithm.identification_network(table.inputs.fetch(rows)).argmax(1) != table.label[rows]
    assert 0 < int(wrong.sum()) < 48
    drawn = [torch.bincount(torch.cat(algorithm.seen[stage]), minlength=48) for stage in (0, 1)]
    assert drawn[0].tolist() == [2] * 48
    assert drawn[1].tolist() == [3 * (7 if one else 1) for one in wrong.tolist()]
    assert torch.equal(fit.progress.plan.sample_weight, torch.where(wrong, 7, 1))


def test_without_errors_there_is_nothing_to_train_on_twice(table, tmp_path) -> None:
    fit = make_fit(table, tmp_path, identification_epochs=80)
    with pytest.raises(TrainingError, match=r"error set is empty.*lower --method\.identification_epochs"):
        fit.run()
