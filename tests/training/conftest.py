"""A training loop on small data, which can be asked to stop after any step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from logit_correction.data.table import DataTable
from logit_correction.errors import TrainingInterrupted
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.networks.small import MLP
from logit_correction.registry import import_component
from logit_correction.runs.assemble import build_training_rows
from logit_correction.training import fit as fit_module
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer

from ..conftest import build_arguments

#: Options of the loop that suit 48 training rows: three steps an epoch.
SMALL = {"epochs": 3, "batch_size": 16, "learning_rate": 1e-2, "log_every": 2, "seed": 1}


class StopAfterSteps:
    """A request to stop that is there once ``fit`` has done so many steps."""

    def __init__(self, fit: Trainer, steps: int) -> None:
        self.fit = fit
        self.steps = steps

    def __bool__(self) -> bool:
        return self.fit.progress.total_steps >= self.steps


class TrainingRunner:
    """Builds fits in one folder and runs them, whole or interrupted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch

    def fit(
        self,
        table: DataTable,
        method: str | type[Algorithm] = "ERM",
        *,
        place: str = "run",
        network: Callable[[], torch.nn.Module] | None = None,
        options: dict[str, Any] | None = None,
        display: Display | None = None,
        loggers: Sequence[Any] = (),
        checkpoint_seconds: float = 1e9,
        **config: Any,
    ) -> Trainer:
        training = TrainingConfig(**{**SMALL, **config})
        cls: Any = import_component("method", method, METHODS) if isinstance(method, str) else method
        build = network or (lambda: MLP(table.info, hidden=(8, 8)))
        # LC takes both networks side by side unless told otherwise, so that a training is one stage.
        options = options or ({"attributes": "Online"} if method == "LC" else {})
        algorithm = cls(build, table.info, seed=training.seed, **build_arguments(cls, options))
        algorithm.setup(build_training_rows(table, algorithm, training.epochs, None))
        (self.folder / place).mkdir(exist_ok=True)
        return Trainer(
            algorithm,
            table,
            training,
            torch.device("cpu"),
            display or Display(),
            self.folder / place / "resume.pt",
            loggers=list(loggers),
            checkpoint_seconds=checkpoint_seconds,
        )

    def run_until(self, fit: Trainer, steps: int, *, resume: bool = False) -> None:
        """Run until so many steps of the whole training are done; fails unless the run stops there."""

        @contextmanager
        def requests() -> Iterator[StopAfterSteps]:
            yield StopAfterSteps(fit, steps)

        with self.monkeypatch.context() as patch:
            patch.setattr(fit_module, "catch_stop_signals", requests)
            with pytest.raises(TrainingInterrupted):
                fit.run(resume=resume)
        assert fit.progress.total_steps == steps


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingRunner:
    return TrainingRunner(tmp_path, monkeypatch)


def flatten_state(value: Any, name: str = "") -> dict[str, Any]:
    """Nested dicts, lists and dataclasses as one dict of tensors and plain values."""
    if hasattr(value, "__dataclass_fields__"):
        value = {field: getattr(value, field) for field in value.__dataclass_fields__}
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        return {
            key: part for field, inner in value.items() for key, part in flatten_state(inner, f"{name}.{field}").items()
        }
    return {name: value}


def assert_equal_training_state(first: Trainer, second: Trainer) -> None:
    """Weights, prior, counters, figures and selected weights are the same, bit for bit."""
    states = []
    for fit in (first, second):
        progress = flatten_state(fit.progress)
        progress.pop(".seconds")
        states.append(flatten_state(fit.algorithm.state_dict()) | progress | flatten_state(fit.record.rows, "rows"))
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        other = states[1][key]
        same = torch.equal(value, other) if isinstance(value, Tensor) else value == other
        assert same or (value != value and other != other), f"{key} differs: {value} and {other}"


@pytest.fixture(name="assert_equal_training_state")
def _assert_ended_alike() -> Callable[[Trainer, Trainer], None]:
    return assert_equal_training_state
