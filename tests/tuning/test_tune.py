"""Tuning on tiny data: trials go on where they stopped, and are judged on the groups of one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, tuning
from logit_correction.errors import Interrupted, TrainingError
from logit_correction.evaluation import Predictions
from logit_correction.runs.train import train as real_train
from logit_correction.tuning import tune

pytest.importorskip("optuna")


def config(method: str = "ERM", **options: Any) -> RunConfig:
    shortcut = {"attributes": {"name": "Auto", "shortcut": ["column:form_version"]}}
    training = TrainingConfig(epochs=1, batch_size=64, threads=1, device="cpu", **options)
    data = ComponentConfig("Planted", {"set": "column", "rows": 400, "minority_ratio": 0.1})
    own = shortcut if method == "LC" else {}
    return RunConfig(data, ComponentConfig(method, own), ComponentConfig("MLP", {"hidden": [8]}), training=training)


def watched(monkeypatch: pytest.MonkeyPatch, before: Callable[[Path], None]) -> list[str]:
    """Return a list that gets the name of each folder that is trained in."""
    names: list[str] = []

    def train(config: RunConfig, folder: Path, **options: Any) -> Path:
        if not (folder / "report.json").is_file():
            names.append(folder.name)
            before(folder)
        return real_train(config, folder, page=False, **options)

    monkeypatch.setattr(tuning, "train", train)
    return names


@pytest.mark.slow
def test_trials_are_runs_that_are_judged_on_the_groups_of_the_reference(tmp_path: Path) -> None:
    best = tune(config("LC"), tmp_path, 2)
    table = pd.read_csv(tmp_path / "trials.csv")
    runs = [folder.name for folder in tmp_path.glob("trial-*")]
    assert sorted(table["run"]) == ["reference", *sorted(runs)] and len(runs) == 2
    assert table["run"].iloc[0] == best.name and table["score"].is_monotonic_decreasing
    assert yaml.safe_load((tmp_path / "best.yaml").read_text()) == yaml.safe_load((best / "config.yaml").read_text())
    for name in runs:
        folder = tmp_path / name
        assert json.loads((folder / "report.json").read_text())["labels_read"]["valid"] == ["label"]
        assert Predictions.load(folder / "validation.parquet").attribute is None
        drawn = table.set_index("run").loc[name]
        written = yaml.safe_load((folder / "config.yaml").read_text())
        assert written["learning_rate"] == drawn["learning_rate"]
        assert written["method"]["strength"] == drawn["method.strength"]


@pytest.mark.slow
def test_the_same_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(folder: Path) -> None:
        if folder.name != "reference":
            raise Interrupted

    def fail(folder: Path) -> None:
        raise TrainingError("the loss became nan")

    stopped = watched(monkeypatch, stop)
    with pytest.raises(Interrupted):
        tune(config(), tmp_path, 1)
    trained = watched(monkeypatch, lambda folder: None)
    tune(config(), tmp_path, 1)
    assert trained == stopped[1:]  # the same options
    with pytest.raises(InputError, match="holds a run with seed = 0, not 1"):
        tune(config(seed=1), tmp_path, 1)
    said: list[str] = []
    watched(monkeypatch, fail)
    tune(config(), tmp_path, 2, say=said.append)
    assert "the loss became nan" in said[-1]
    table = pd.read_csv(tmp_path / "trials.csv")
    assert len(table) == 3 and table["failed"].iloc[-1] == "the loss became nan"


def test_an_objective_that_scores_nothing_is_refused(tmp_path: Path) -> None:
    for rule, message in (
        ("last", "--objective last chooses nothing"),
        ("valid_estimated_group_balanced", "ERM estimates none"),
    ):
        with pytest.raises(InputError, match=message):
            tune(config(), tmp_path / "out", 1, objective=rule)
    plain = ComponentConfig("Planted", {"set": "plain-table", "rows": 400})
    with pytest.raises(InputError, match=r"has no score of .*: name a shortcut by --shortcut VIEW"):
        tune(replace(config("LC"), data=plain, method=ComponentConfig("LC")), tmp_path / "plain", 1)
