"""Every method, stopped in any of its stages and resumed, ends as one that was not stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor

from logit_correction.config import TrainingConfig
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.methods import METHODS
from logit_correction.networks.mlp import MLP
from logit_correction.registry import resolve
from logit_correction.training import fit as fit_module
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit
from logit_correction.training.interrupt import Interrupted

#: Short first stages and early starts, so that a few steps see all of a method.
OPTIONS: dict[str, dict[str, Any]] = {
    "LC": {"head_start_epochs": 0.5},
    "Reweighting": {"head_start_epochs": 0.5},
    "JTT": {"up_weight": 3},
    "DFA": {"swap_from_epoch": 1.0},
    "StagedLC": {"num_splits": 2, "biased_epochs": 1, "biased_input_dropout": 0.5},
}
CROSS_FITTED = {"groups": "cross-fitted", "num_splits": 1, "cross_fitting_epochs": 1}
CLUSTERED = {"correlation": "known", "head_start_epochs": 1.0, "biased_input_dropout": 0.5}
SEVERAL = Correlation.from_table([[0, 1], [2], [3, 4]])
CASES = [
    *((name, OPTIONS.get(name, {})) for name in METHODS),
    ("Reweighting", {"groups": "true"}),
    ("LC", {"groups": "true", "mixup_prior": "product"}),
    ("StagedLC", {"groups": "true"}),
    ("StagedLC", {"num_splits": 1, "biased_epochs": 1, "posterior": "soft"}),
    *((name, CROSS_FITTED) for name in ("LC", "Reweighting", "GroupDRO")),
    ("LC", CLUSTERED),
    ("LC", {**CLUSTERED, "biased_epochs": None}),
    ("Reweighting", CLUSTERED),
]


def make_fit(name: str, options: dict[str, Any], table: DataTable, folder: Path) -> Fit:
    folder.mkdir(exist_ok=True)
    cls = resolve("method", name, METHODS)
    algorithm = cls(lambda: MLP(table.info, hidden=(8,)), table.info, seed=4, **options)
    rows = table.split["train"]
    algorithm.observe_rows(table.label[rows], table.attribute[rows] if algorithm.needs_attributes else None)
    algorithm.check_epochs(2)
    config = TrainingConfig(epochs=2, batch_size=16, learning_rate=1e-2, seed=4)
    return Fit(algorithm, table, config, Fabric(accelerator="cpu"), folder / "resume.pt", Display())


def stop_after(fit: Fit, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked:
        @property
        def asked(self) -> bool:
            return fit.progress.total_steps >= steps

    @contextmanager
    def requests() -> Iterator[Asked]:
        yield Asked()

    with monkeypatch.context() as patch:
        patch.setattr(fit_module, "stop_requests", requests)
        with pytest.raises(Interrupted):
            fit.run()
    assert fit.progress.total_steps == steps


@pytest.mark.parametrize(("name", "options"), CASES, ids=[" ".join([n, *map(str, o.values())]) for n, o in CASES])
def test_stopped_and_resumed(name: str, options: dict[str, Any], make_table, tmp_path, monkeypatch) -> None:
    table = make_table(SEVERAL if options.get("correlation") == "known" else None)
    whole = make_fit(name, options, table, tmp_path / "whole")
    whole.run()
    stages = set()
    for steps in (1, 3, 4, 5):  # an epoch has three steps; the second stage of two begins after that
        stopped = make_fit(name, options, table, tmp_path / str(steps))
        stop_after(stopped, steps, monkeypatch)
        stages.add(stopped.progress.stage)
        torch.manual_seed(steps)
        resumed = make_fit(name, options, table, tmp_path / str(steps))
        resumed.run(resume=True)
        expected, found = whole.algorithm.state_dict(), resumed.algorithm.state_dict()
        for key, value in expected.items():
            same = torch.equal(value, found[key]) if isinstance(value, Tensor) else value == found[key]
            assert same, key
        plans = whole.progress.plan.row_weight, resumed.progress.plan.row_weight
        assert plans[0] is plans[1] is None or torch.equal(*plans)
    assert stages == set(range(whole.algorithm.num_stages))
