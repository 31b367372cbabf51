"""Every method, stopped in any of its stages and resumed, ends as one that was not stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor

from logit_correction.config import TrainingConfig
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.errors import Interrupted
from logit_correction.methods import METHODS
from logit_correction.networks.small import MLP
from logit_correction.registry import resolve
from logit_correction.runs.train import training_rows
from logit_correction.training import fit as fit_module
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit

#: Short first stages and early starts, so that a few steps see all of a method.
BESIDE = {"name": "Online", "input_dropout": 0.5, "q_ramp_up_epochs": 1.0}
AHEAD = {"name": "Online", "head_start_epochs": 1}
SETTLED = {**AHEAD, "epochs": 1}
HALVES = {"name": "CrossFitted", "splits": 2, "epochs": 1, "input_dropout": 0.5}
ROUNDS = {"name": "CrossFitted", "splits": 1, "epochs": 1, "rounds": 1, "relabel_odds": 1.1}
HEADS = {"name": "CrossFitted", "view": "inputs", "head": "hidden layer", "splits": 1, "epochs": 1, "rounds": 1}
SEARCH = {"name": "Auto", "epochs": 1}
GIVEN = {"name": "Given", "column": "hint"}
OPTIONS: dict[str, dict[str, Any]] = {
    "LC": {"attributes": SEARCH},
    "Reweighting": {"attributes": SEARCH},
    "JTT": {"up_weight": 3},
    "DFA": {"swap_from_epoch": 1.0},
    "LfF": {"biased_input_dropout": 0.5},
    "StagedLC": {"attributes": HALVES},
}
SEVERAL = Correlation.from_table([[0, 1], [2], [3, 4]])
CASES = [
    *((name, OPTIONS.get(name, {})) for name in METHODS),
    ("LC", {"attributes": BESIDE, "prior": {"name": "Moving", "averaging": "dataset"}, "mixing": "GroupMixUp"}),
]
MORE = [
    ("LC", {"attributes": AHEAD, "mixing": "GroupMixUp"}),
    ("LC", {"attributes": SETTLED}),
    ("LC", {"attributes": ROUNDS}),
    ("LC", {"attributes": HEADS}),
    ("LC", {"attributes": GIVEN, "oversampling": 0.5}),
    ("LC", {"attributes": "TrueAttributes", "mixing": {"name": "GroupMixUp", "prior": "product"}}),
    ("LC", {"attributes": {"name": "Auto", "shortcut": ["inputs"]}}),
    ("LC", {"attributes": {"name": "Clusters", "attributes": AHEAD}}),
    ("LC", {"attributes": {"name": "Clusters", "attributes": SETTLED}}),
    ("LC", {"attributes": {"name": "Clusters", "attributes": HEADS}}),
    ("Reweighting", {"attributes": BESIDE}),
    ("Reweighting", {"attributes": HALVES}),
    ("Reweighting", {"attributes": "TrueAttributes"}),
    ("Reweighting", {"attributes": {"name": "Clusters", "attributes": AHEAD}}),
    ("GroupDRO", {"attributes": SETTLED}),
    ("GroupDRO", {"attributes": GIVEN}),
    ("StagedLC", {"attributes": "TrueAttributes"}),
]


def make_fit(name: str, options: dict[str, Any], table: DataTable, folder: Path, made: Any) -> Fit:
    folder.mkdir(exist_ok=True)
    cls = resolve("method", name, METHODS)
    algorithm = cls(lambda: MLP(table.info, hidden=(8,)), table.info, seed=4, **made(cls, options))
    algorithm.setup(training_rows(table, algorithm, 2, None))
    config = TrainingConfig(epochs=2, batch_size=16, learning_rate=1e-2, seed=4)
    return Fit(algorithm, table, config, Fabric(accelerator="cpu"), folder / "resume.pt", Display())


def stop_after(fit: Fit, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked:
        @property
        def asked(self) -> bool:
            return fit.progress.total_steps >= steps

        def waiting(self) -> AbstractContextManager[None]:
            return nullcontext()

    @contextmanager
    def requests() -> Iterator[Asked]:
        yield Asked()

    with monkeypatch.context() as patch:
        patch.setattr(fit_module, "stop_requests", requests)
        with pytest.raises(Interrupted):
            fit.run()
    assert fit.progress.total_steps == steps


def equal(one: Any, other: Any) -> bool:
    """Whether two parts of a state are the same, tensors inside mappings and lists bit for bit."""
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(pytest.param(*case, id=f"{case[0]} {case[1]}") for case in CASES),
        *(pytest.param(*case, id=f"{case[0]} {case[1]}", marks=pytest.mark.slow) for case in MORE),
    ],
)
def test_stopped_and_resumed(name: str, options: dict[str, Any], make_table, made, tmp_path, monkeypatch) -> None:
    table = make_table(SEVERAL if "Clusters" in str(options) else None)
    hint = np.array([f"value {int(value)}" if row % 7 else "" for row, value in enumerate(table.attribute)])
    table = replace(table, columns={"hint": hint})
    whole = make_fit(name, options, table, tmp_path / "whole", made)
    whole.run()
    stages = set()
    steps_in_all = whole.progress.total_steps
    for steps in (1, 3, 4, 5, steps_in_all - 1):  # an epoch has three steps; a second stage begins after that
        stopped = make_fit(name, options, table, tmp_path / str(steps), made)
        stop_after(stopped, steps, monkeypatch)
        stages.add(stopped.progress.stage)
        torch.manual_seed(steps)
        resumed = make_fit(name, options, table, tmp_path / str(steps), made)
        resumed.run(resume=True)
        expected, found = whole.algorithm.state_dict(), resumed.algorithm.state_dict()
        for key, value in expected.items():
            assert equal(value, found[key]), key
        plans = whole.progress.plan.sample_weight, resumed.progress.plan.sample_weight
        assert plans[0] is plans[1] is None or torch.equal(*plans)
    assert stages == set(range(whole.algorithm.num_stages))
