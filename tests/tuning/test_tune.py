"""Tuning on tiny data: trials go on where they stopped, and are judged on the groups of one run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import logit_correction.runs.train as runner
from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, train
from logit_correction.cli import main
from logit_correction.errors import Interrupted, TrainingError
from logit_correction.evaluation import Predictions
from logit_correction.methods import METHODS
from logit_correction.registry import resolve
from logit_correction.runs.options import complete
from logit_correction.tuning import study, tune
from logit_correction.tuning.objective import Objective
from logit_correction.tuning.space import OWN, space_of, with_options

pytest.importorskip("optuna")


def config(method: str = "LC", **options: Any) -> RunConfig:
    shortcut = {"attributes": {"name": "Auto", "shortcut": ["column:form_version"]}}
    training = TrainingConfig(epochs=2, batch_size=64, threads=1, device="cpu", **options)
    data = ComponentConfig("Planted", {"set": "column", "rows": 400, "minority_ratio": 0.1})
    own = shortcut if method == "LC" else {}
    return RunConfig(data, ComponentConfig(method, own), ComponentConfig("MLP", {"hidden": [8]}), training=training)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Train in this process, and tell which folders were trained in."""
    trained: list[Path] = []

    def quick(config: RunConfig, folder: Path, resume: bool) -> Path:
        trained.append(folder)
        return train(config, folder, resume=resume, page=False)

    monkeypatch.setattr(runner, "train", quick)
    return trained


@pytest.mark.parametrize("method", list(METHODS))
def test_every_option_that_is_tuned_is_one_of_the_method(method: str) -> None:
    for end in ("low", "high"):
        drawn = {name: getattr(span, end) for name, span in space_of(method).items()}
        flat = with_options({"data": {"name": "Digits"}, "method": {"name": method}}, drawn)
        filled = complete(RunConfig.from_dict(flat))
        for name, value in drawn.items():
            part, _, option = name.partition(".")
            assert (filled.method.options[option] if option else getattr(filled.training, part)) == value
    assert set(OWN) <= set(METHODS) and resolve("method", method, METHODS)


def test_trials_are_runs_that_are_judged_on_the_groups_of_the_reference(tmp_path: Path, here: list[Path]) -> None:
    best = tune(config(), tmp_path, 3)
    runs = sorted(tmp_path.glob("trial-*"))
    assert len(here) == 4 and here[0] == tmp_path / "reference" and len(runs) == 3
    judge = Objective("valid_estimated_group_balanced", tmp_path / "reference")
    scores = {folder: judge.score(folder) for folder in [tmp_path / "reference", *runs]}
    assert scores[best] == max(scores.values())
    chosen = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert chosen == yaml.safe_load((best / "config.yaml").read_text())
    for folder in runs:
        report = json.loads((folder / "report.json").read_text())
        assert report["labels_read"]["valid"] == ["label"]
        assert Predictions.load(folder / "validation.parquet").attribute is None
    page = (tmp_path / "trials.html").read_text()
    assert "by valid estimated group balanced" in page and page.count("<small>trial-") == 3
    assert "The test figures beside are for information" in page and "<link" not in page


def test_the_same_call_trains_nothing_again_and_a_greater_number_goes_further(tmp_path: Path, here: list[Path]) -> None:
    tune(config("ERM"), tmp_path, 2)
    assert len(here) == 3
    tune(config("ERM"), tmp_path, 2)
    assert len(here) == 3
    tune(config("ERM"), tmp_path, 3, jobs=2)
    assert len(here) == 4
    with pytest.raises(InputError, match="holds a study with other options"):
        tune(config("ERM", seed=1), tmp_path, 3)


def test_a_trial_that_was_stopped_goes_on_in_its_folder(
    tmp_path: Path, here: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, stopped = runner.train, []

    def stop(config: RunConfig, folder: Path, resume: bool) -> Path:
        if folder.name == "reference":
            return quick(config, folder, resume)
        stopped.append(folder)
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(runner, "train", stop)
        with pytest.raises(KeyboardInterrupt):
            tune(config("ERM"), tmp_path, 2)
    tune(config("ERM"), tmp_path, 2)
    assert len(stopped) == 1 and stopped[0] in here and len(here) == 3


def test_a_trial_that_fails_is_told_and_counts(
    tmp_path: Path, here: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = runner.train

    def fail(config: RunConfig, folder: Path, resume: bool) -> Path:
        if folder.name == "reference":
            return quick(config, folder, resume)
        raise TrainingError("the loss became nan")

    monkeypatch.setattr(runner, "train", fail)
    said: list[str] = []
    assert tune(config("ERM"), tmp_path, 2, say=said.append) == tmp_path / "reference"
    assert sum("the loss became nan" in text for text in said) == 2
    page = (tmp_path / "trials.html").read_text()
    assert "No trial is better than the options as given" in page and page.count("the loss became nan") == 2


def test_without_groups_to_go_by_the_objective_is_refused(tmp_path: Path, here: list[Path]) -> None:
    plain = config()
    plain.data.options["set"] = "plain-table"
    plain.method.options.clear()
    del plain.data.options["minority_ratio"]
    with pytest.raises(InputError, match="goes by estimated groups, and the run with the options as given"):
        tune(plain, tmp_path, 1)


def test_optuna_that_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'logit-correction\[tune\]'"):
        tune(config("ERM"), tmp_path / "out", 1)
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path: Path, here: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "--data", "Digits", "--method", "ERM", "--epochs", "1", "--threads", "1", "--out", str(tmp_path)]
    assert main([*words, "--trials", "1", "--objective=valid_class_difference", "--jobs", "1"]) == 0
    shown = capsys.readouterr()
    assert "trial 0: " in shown.err and f"page: {tmp_path / study.PAGE}" in shown.out
    for wrong, message in (
        (words, "required: trials"),
        ([*words, "--trials", "none"], "--trials is 'none'"),
        ([*words, "--trials", "1", "--objective", "last"], "--objective last chooses nothing"),
        ([*words, "--trials", "1", "--seeds", "2"], "no option --seeds"),
    ):
        assert main(wrong) == 2 and message in capsys.readouterr().err


@pytest.mark.slow
def test_trials_run_in_processes(tmp_path: Path) -> None:
    best = tune(config("ERM"), tmp_path, 2, jobs=2)
    assert (best / "report.json").is_file() and len(list(tmp_path.glob("trial-*/report.json"))) == 2
