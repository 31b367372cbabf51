"""A run that was interrupted anywhere and resumed ends as one that was not, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.data.stores import ArrayStore
from logit_correction.errors import InputError
from logit_correction.methods.base import Algorithm
from logit_correction.training.fit import Trainer
from logit_correction.training.record import read_checkpoint
from logit_correction.types import Batch, DataInfo, NetworkFactory, Stage, Step

LC_OPTIONS: list[dict[str, Any]] = [
    {},
    {
        "attributes": "Online",
        "prior": {"name": "Moving", "averaging": "dataset"},
        "mixing": {"name": "GroupMixUp", "rows": "minority-rows"},
    },
    {"attributes": {"name": "Online", "epochs": 1.4}, "prior": {"name": "Moving", "averaging": "batch"}},
    {
        "attributes": {"name": "Online", "head_start_epochs": 1, "input_dropout": 0.5},
        "prior": {"name": "Moving", "estimator": "cell"},
    },
    {"attributes": {"name": "Online", "head_start_epochs": 1, "epochs": 1}},
]
LOOP_OPTIONS: list[dict[str, Any]] = [
    {},
    {"optimizer": "sgd", "schedule": "step", "step_every": 4, "gradient_clip": 0.5, "precision": "bf16-mixed"},
    {"batch_size": 20, "log_every": 50, "selection": "valid_worst_group"},
    {"method": "LastLayer", "epochs": 1, "precision": "bf16-mixed"},
]


class TwoStages(Algorithm):
    """Trains, looks at what it gets wrong, and trains a fresh network on the rows weighted by that."""

    num_stages = 2

    def __init__(self, network: NetworkFactory, info: DataInfo, *, kind: str = "integers", seed: int = 0) -> None:
        super().__init__(network, info, seed=seed)
        self.kind = kind
        self.second = self.build(network, "second network")
        self.register_buffer("past", torch.zeros(info.num_rows, info.num_labels))
        self.given: list[Any] = []

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        self.given.append((stage, outputs, {k: v.clone() for k, v in self.network.state_dict().items()}))
        if stage == 0:
            return Stage(epochs=2)
        assert outputs is not None
        self.past.copy_(outputs)
        self.network.load_state_dict(self.second.state_dict())
        sure = outputs.amax(1)
        self.weight = 1 + 2 * (sure < sure.median()) if self.kind == "integers" else 2 - sure.sigmoid()
        return Stage(sample_weight=self.weight, learning_rate=3e-3)

    def forward(self, batch: Batch, epoch: float) -> Step:
        noise = torch.rand(batch.inputs.shape, generator=self.randomness.next(batch.inputs.device))
        logits = self.network(batch.inputs + 0.1 * noise) + self.past[batch.index]
        return Step(cross_entropy(logits, batch.label))

    def collect_outputs(self, batch: Batch) -> Tensor:
        return 2 * self.predict(batch.inputs)

    def parameter_groups(self) -> list[dict[str, object]]:
        return [{"params": list(self.network.parameters()), "name": "network"}]


@pytest.fixture
def resume_at_steps(make_table, trainer, assert_equal_training_state) -> Callable[..., Iterator[tuple[int, Trainer]]]:
    """Interrupts a training after some steps, or after each one, and yields it as it ended when it was resumed."""

    def run(
        method: Any, options: dict[str, Any], steps: Sequence[int] = (), **config: Any
    ) -> Iterator[tuple[int, Trainer]]:
        def fit() -> Trainer:
            return trainer.fit(make_table(), method, options=options, **config)

        uninterrupted = fit()
        uninterrupted.run()
        for step in steps or range(1, uninterrupted.progress.total_steps + 1):
            trainer.run_until(fit(), step)
            torch.manual_seed(step)
            resumed = fit()
            resumed.run(resume=True)
            assert_equal_training_state(uninterrupted, resumed)
            yield step, resumed

    return run


@pytest.mark.slow
@pytest.mark.parametrize("options", LC_OPTIONS, ids=lambda options: str(options) or "default")
def test_lc_interrupted_at_any_step_ends_the_same(options: dict[str, Any], resume_at_steps) -> None:
    steps = [step for step, _ in resume_at_steps("LC", options)]
    assert len(steps) in (9, 12)  # three more in a head start


@pytest.mark.parametrize("config", LOOP_OPTIONS, ids=lambda config: " ".join(map(str, config)) or "default")
def test_interrupted_training_ends_the_same_with_any_option_of_the_loop(
    config: dict[str, Any], resume_at_steps
) -> None:
    config = {"method": "LC", **config}
    assert len(list(resume_at_steps(config.pop("method"), {}, (2, 5, 9), **config))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["integers", "floats"])
def test_stages_interrupted_at_any_step_end_the_same(kind: str, resume_at_steps) -> None:
    for step, fit in resume_at_steps(TwoStages, {"kind": kind}):
        # A stage that had begun is gone on with, not begun anew.
        assert [stage for stage, *_ in fit.algorithm.given] == ([1] if step <= 6 else [])
    assert step == (24 if kind == "integers" else 15)  # two epochs of three steps, and three more


def test_resume_with_other_data_is_refused(make_table, trainer) -> None:
    table = make_table()
    trainer.run_until(trainer.fit(table), 2)
    other = replace(table, label=(table.label + 1) % len(table.label_names))
    fewer = replace(table, split={**table.split, "test": table.split["test"][1:]})
    blind = replace(table, inputs=ArrayStore(table.inputs.values.flip(1)))  # columns in another order
    for changed in (other, fewer, blind):
        fit = trainer.fit(changed)
        with pytest.raises(InputError, match=r"the data are not those that the run in .*run was started with"):
            fit.run(resume=True)
        assert fit.progress.total_steps == 0


class PowerCut(BaseException):
    """The process ends without a word."""


class PowerCutLogger:
    """A logger during whose n-th call the power fails."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def log_metrics(self, figures: dict[str, float], step: int) -> None:
        self.calls -= 1
        if self.calls == 0:
            raise PowerCut


@pytest.mark.parametrize("calls", [3, 6])
def test_killed_run_resumes_from_its_last_checkpoint(
    calls: int, make_table, trainer, assert_equal_training_state
) -> None:
    table = make_table()
    uninterrupted = trainer.fit(table, "LC", place="whole")
    uninterrupted.run()
    died = trainer.fit(table, "LC", loggers=(PowerCutLogger(calls),), checkpoint_seconds=0)
    with pytest.raises(PowerCut):
        died.run()
    assert 0 < read_checkpoint(died.checkpoint_path)["progress"]["total_steps"] < 9
    resumed = trainer.fit(table, "LC")
    resumed.run(resume=True)
    assert_equal_training_state(uninterrupted, resumed)
