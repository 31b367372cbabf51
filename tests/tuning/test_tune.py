"""Tuning on tiny data: trials go on where they stopped, and are judged on the groups of one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, tuning
from logit_correction.errors import Interrupted, TrainingError
from logit_correction.evaluation import Predictions
from logit_correction.methods import METHODS
from logit_correction.runs.options import complete
from logit_correction.runs.train import train as real_train
from logit_correction.tuning import OWN, score_of, space_of, tune, with_options

pytest.importorskip("optuna")


def config(method: str = "ERM", **options: Any) -> RunConfig:
    shortcut = {"attributes": {"name": "Auto", "shortcut": ["column:form_version"]}}
    training = TrainingConfig(epochs=1, batch_size=64, threads=1, device="cpu", **options)
    data = ComponentConfig("Planted", {"set": "column", "rows": 400, "minority_ratio": 0.1})
    own = shortcut if method == "LC" else {}
    return RunConfig(data, ComponentConfig(method, own), ComponentConfig("MLP", {"hidden": [8]}), training=training)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders that were trained in."""
    return watched(monkeypatch, lambda folder: None)


def watched(monkeypatch: pytest.MonkeyPatch, before: Callable[[Path], None]) -> list[str]:
    names: list[str] = []

    def train(config: RunConfig, folder: Path, **options: Any) -> Path:
        if not (folder / "report.json").is_file():
            names.append(folder.name)
            before(folder)
        return real_train(config, folder, page=False, **options)

    monkeypatch.setattr(tuning, "train", train)
    return names


@pytest.mark.parametrize("method", list(METHODS))
def test_every_option_that_is_tuned_is_one_of_the_method(method: str) -> None:
    for end in (0, 1):
        drawn = {name: span[end] for name, span in space_of(method).items()}
        flat = with_options({"data": {"name": "Digits"}, "method": {"name": method}}, drawn)
        filled = complete(RunConfig.from_dict(flat))
        for name, value in drawn.items():
            part, _, option = name.partition(".")
            assert (filled.method.options[option] if option else getattr(filled.training, part)) == value
    assert set(OWN) <= set(METHODS)


@pytest.mark.slow
def test_trials_are_runs_that_are_judged_on_the_groups_of_the_reference(tmp_path: Path, trained: list[str]) -> None:
    best = tune(config("LC"), tmp_path, 2)
    runs = sorted(tmp_path.glob("trial-*"))
    assert trained[0] == "reference" and sorted(trained[1:]) == [folder.name for folder in runs] and len(runs) == 2
    scores = {one: score_of(one, "valid_estimated_group_balanced", tmp_path) for one in [tmp_path / "reference", *runs]}
    assert scores[best] == max(scores.values())
    assert yaml.safe_load((tmp_path / "best.yaml").read_text()) == yaml.safe_load((best / "config.yaml").read_text())
    for folder in runs:
        assert json.loads((folder / "report.json").read_text())["labels_read"]["valid"] == ["label"]
        assert Predictions.load(folder / "validation.parquet").attribute is None
    page = (tmp_path / "trials.html").read_text()
    assert page.count("<small>trial-") == 2 and "The test figures beside are for information" in page


def test_the_same_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tmp_path / "whole"
    with monkeypatch.context() as patch:
        trained = watched(patch, lambda folder: None)
        tune(config(), whole, 2)
        tune(config(), whole, 2)
        assert len(trained) == 3
        tune(config(), whole, 3)
        assert len(trained) == 4
        with pytest.raises(InputError, match="holds a study with other options"):
            tune(config(seed=1), whole, 3)

    def stop(folder: Path) -> None:
        if folder.name != "reference":
            raise Interrupted

    def fail(folder: Path) -> None:
        if folder.name != "reference":
            raise TrainingError("the loss became nan")

    with monkeypatch.context() as patch:
        watched(patch, stop)
        for _ in range(2):
            with pytest.raises(Interrupted):
                tune(config(), tmp_path / "stopped", 1)
    with monkeypatch.context() as patch:
        trained = watched(patch, lambda folder: None)
        tune(config(), tmp_path / "stopped", 1)
        assert trained == [sorted(whole.glob("trial-*"), key=lambda one: one.stat().st_mtime)[0].name]
        said: list[str] = []
        watched(patch, fail)
        assert tune(config(), tmp_path / "failed", 2, say=said.append) == tmp_path / "failed" / "reference"
    assert sum("the loss became nan" in text for text in said) == 2
    assert (tmp_path / "failed" / "trials.html").read_text().count("the loss became nan") == 2


def test_an_objective_that_scores_nothing_is_refused(tmp_path: Path) -> None:
    for rule, message in (
        ("last", "--objective last chooses nothing"),
        ("valid_estimated_group_balanced", "ERM estimates none"),
    ):
        with pytest.raises(InputError, match=message):
            tune(config(), tmp_path / "out", 1, objective=rule)
    plain = ComponentConfig("Planted", {"set": "plain-table", "rows": 400})
    with pytest.raises(InputError, match="goes by estimated groups, and the run with the options as given"):
        tune(replace(config("LC"), data=plain, method=ComponentConfig("LC")), tmp_path / "plain", 1)


@pytest.mark.slow
def test_trials_run_in_processes(tmp_path: Path) -> None:
    best = tune(config(), tmp_path, 2, jobs=2)
    assert (best / "report.json").is_file() and len(list(tmp_path.glob("trial-*/report.json"))) == 2
