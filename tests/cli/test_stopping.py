"""Runs that are stopped or killed, by real signals, go on to the same end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

#: Two stages: an epoch of ten steps in which the biased network trains alone, and three more.
ONLINE = ("--method.attributes", "Online", "--method.attributes.head_start_epochs", "1")
METHOD = ("--method", "my_parts.Stopped", *ONLINE)
WORDS = ("--data", "Digits", *METHOD, "--network", "MLP", "--epochs", "3", "--batch_size", "128")
OPTIONS = (*WORDS, "--threads", "1", "--log_every", "3", "--also_select", "[valid_average]")
STEPS = 40


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, run_files: set[str]) -> Path:
    """The run that nobody stopped."""
    from logit_correction.cli import main

    run = tmp_path_factory.mktemp("undisturbed") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "user_code"))
        assert main(["train", *OPTIONS, "--out", str(run)]) == 0
    assert {path.name for path in run.iterdir()} == run_files
    return run


def assert_same(run: Path, other: Path) -> None:
    """Check that two run folders hold the same run, bit for bit."""
    assert {path.name for path in run.iterdir()} == {path.name for path in other.iterdir()}
    for name in ("config.yaml", "metrics.csv", "predictions.parquet"):
        assert (run / name).read_bytes() == (other / name).read_bytes(), name
    weights, others = (torch.load(where / "checkpoint.pt", weights_only=True) for where in (run, other))
    assert weights["algorithm"].keys() == others["algorithm"].keys()
    for name, value in weights["algorithm"].items():
        same = (
            torch.equal(value, others["algorithm"][name])
            if torch.is_tensor(value)
            else (value == others["algorithm"][name])
        )
        assert same, name
    reports = [json.loads((where / "report.json").read_text()) for where in (run, other)]
    for report in reports:
        report.pop("seconds")
    assert reports[0] == reports[1]


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["SIGINT:1", "SIGTERM:10", "SIGINT:11", f"SIGINT:{STEPS}"])
def test_stopped_at_any_step(
    stop: str, command: Any, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    monkeypatch.setenv("STOP", stop)
    outcome = command("train", *OPTIONS, "--out", run)
    assert outcome.status == 130 and outcome.out == ""
    assert not (run / "report.json").exists()
    monkeypatch.delenv("STOP")
    assert command("train", "--resume", f"--out={run}").status == 0
    assert_same(run, undisturbed)


def test_failed_while_the_results_were_written(
    command: Any, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logit_correction.runs import folder

    run = tmp_path / "run"

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_json", full)
        outcome = command("train", *OPTIONS, "--out", run)
    assert outcome.status == 1 and "No space left on device" in outcome.err
    assert not (run / "report.json").exists() and (run / "resume.pt").exists()
    assert command("train", "--resume", "--out", run).status == 0
    assert_same(run, undisturbed)


def test_resume_with_other_options_is_refused(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    monkeypatch.setenv("STOP", "SIGINT:5")
    assert command("train", *OPTIONS, "--out", run).status == 130
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for words, expected in (
        (("--epochs", "5"), "epochs = 3, not 5"),
        (("--method.attributes.q", "0.5"), "method.attributes.q = 0.7, not 0.5"),
        (("--data.minority_ratio=0.5",), "data.minority_ratio"),
        (("--method", "LC", "--data", "Digits"), "method.name = my_parts.Stopped, not LC"),
        ((*OPTIONS, "--seed", "1"), "seed = 0, not 1"),
    ):
        message = command("train", "--resume", *words, "--out", run).error()
        assert str(run) in message and expected in message and "another --out" in message
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    # The same options again are no other options.
    monkeypatch.setenv("STOP", "SIGINT:5")
    assert command("train", "--resume", *OPTIONS, "--out", run).status == 130
    assert torch.load(run / "resume.pt", weights_only=True)["progress"]["total_steps"] == 10


def test_resume_takes_runs_that_are_older_than_an_option(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    monkeypatch.setenv("STOP", "SIGINT:5")
    assert command("train", *OPTIONS, "--out", run).status == 130
    stored = yaml.safe_load((run / "config.yaml").read_text())
    for options, name in ((stored, "step_factor"), (stored["method"]["attributes"], "q"), (stored["data"], "severity")):
        del options[name]
    (run / "config.yaml").write_text(yaml.safe_dump(stored))
    monkeypatch.delenv("STOP")
    assert command("train", "--resume", *OPTIONS, "--out", run).status == 0
    stored["method"]["gone"] = 1
    (run / "config.yaml").write_text(yaml.safe_dump(stored))
    assert "gone" in command("train", "--resume", *OPTIONS, "--out", run).error()
    assert "gone" in command("train", "--resume", "--out", run).error()


def test_a_second_ctrl_c_stops_at_once(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import my_parts

    forward = my_parts.LC.forward

    def twice(self: Any, batch: Any, epoch: float) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return forward(self, batch, epoch)

    monkeypatch.setattr(my_parts.Stopped, "forward", twice)
    outcome = command("train", *OPTIONS, "--out", tmp_path / "run")
    assert outcome.status == 130 and outcome.err.endswith("interrupted\n")


def test_sigterm_before_training_ends_as_ctrl_c_does(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logit_correction.bench.digits import Digits

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Digits, "build", lambda self: os.kill(os.getpid(), signal.SIGTERM))
    outcome = command("train", *OPTIONS, "--out", tmp_path / "run")
    assert (outcome.status, outcome.err) == (130, "interrupted\n")
    assert not (tmp_path / "run").exists() and signal.getsignal(signal.SIGTERM) is before
