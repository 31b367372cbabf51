"""Runs that are stopped or killed, by real signals, go on to the same end."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
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
def test_ctrl_c_in_a_process_of_its_own(python: list[str], command: Any, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "my run"
    environment = {**os.environ, "STOP": "SIGINT:17"}
    words = [*python, "train", *OPTIONS, "--out", str(run)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130, done.stderr
    assert done.stderr.endswith(f"stopped; go on with: logit-correction train --resume --out '{run}'\n")
    assert "Traceback" not in done.stderr and "error" not in done.stderr
    assert {path.name for path in run.iterdir()} == {"config.yaml", "resume.pt"}
    stored = torch.load(run / "resume.pt", weights_only=True)
    assert stored["progress"]["total_steps"] == 17
    outcome = command("train", "--resume", "--out", run)
    assert outcome.status == 0 and f"page: {run}/report.html" in outcome.out
    assert_same(run, undisturbed)


@pytest.mark.slow
def test_kill_in_the_middle_of_an_epoch(command: Any, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from logit_correction import RunConfig\nfrom logit_correction.runs.train import train\n"
        "train(RunConfig.read(Path(sys.argv[1])), sys.argv[2], checkpoint_seconds=0)\n"
    )
    words = [sys.executable, "-c", program, str(undisturbed / "config.yaml"), str(run)]
    done = subprocess.run(words, env={**os.environ, "STOP": "SIGKILL:29"}, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    (run / ".resume-0123456789ab.pt").write_bytes(b"half of a checkpoint")  # killed while it was written
    assert torch.load(run / "resume.pt", weights_only=True)["progress"]["total_steps"] == 27
    assert command("train", "--resume", "--out", run).status == 0
    assert_same(run, undisturbed)


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


@pytest.mark.slow
def test_stopped_again_and_again(
    command: Any, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    for stop, words in (("SIGINT:7", OPTIONS), ("SIGTERM:15", ("--resume",)), ("SIGINT:3", ("--resume",))):
        monkeypatch.setenv("STOP", stop)
        assert command("train", *words, "--out", run).status == 130
    monkeypatch.delenv("STOP")
    assert command("train", "--resume", "--out", run).status == 0
    assert_same(run, undisturbed)


@pytest.mark.slow
def test_a_clock_that_is_set_back(
    command: Any, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, days, now = tmp_path / "run", itertools.count(), time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86_400 * next(days))
    monkeypatch.setenv("STOP", "SIGINT:17")
    assert command("train", *OPTIONS, "--out", run).status == 130
    os.utime(run / "resume.pt", (2e9, 2e9))  # written in the future, as the clock has it now
    monkeypatch.delenv("STOP")
    assert command("train", "--resume", "--out", run).status == 0
    assert_same(run, undisturbed)
    assert min(json.loads((run / "report.json").read_text())["seconds"].values()) >= 0


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


def test_resume_finishes_what_lacks_only_its_page(command: Any, undisturbed: Path, tmp_path: Path) -> None:
    import shutil

    run = shutil.copytree(undisturbed, tmp_path / "run")
    (run / "report.html").unlink()
    (run / "resume.pt").write_bytes(b"killed before this was removed")
    outcome = command("train", "--resume", "--out", run)
    assert outcome.status == 0 and "step" not in outcome.err
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


def test_damaged_checkpoint_is_refused(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    monkeypatch.setenv("STOP", "SIGINT:5")
    assert command("train", *OPTIONS, "--out", run).status == 130
    (run / "resume.pt").write_bytes((run / "resume.pt").read_bytes()[:1000])
    monkeypatch.delenv("STOP")
    outcome = command("train", "--resume", "--out", run)
    assert outcome.status == 2
    assert outcome.err.splitlines()[-1].startswith(f"error: {run / 'resume.pt'} is damaged")


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


def test_a_second_signal_while_the_checkpoint_is_written(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, run = torch.save, tmp_path / "run"

    def disturbed(content: Any, file: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        save(content, file)

    monkeypatch.setenv("STOP", "SIGTERM:7")
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", disturbed)
        outcome = command("train", *OPTIONS, "--out", run)
    assert outcome.status == 130 and outcome.err.endswith(f"train --resume --out {run}\n")
    assert torch.load(run / "resume.pt", weights_only=True)["progress"]["total_steps"] == 7


def test_sigterm_before_training_ends_as_ctrl_c_does(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logit_correction.bench.digits import Digits

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Digits, "build", lambda self: os.kill(os.getpid(), signal.SIGTERM))
    outcome = command("train", *OPTIONS, "--out", tmp_path / "run")
    assert (outcome.status, outcome.err) == (130, "interrupted\n")
    assert not (tmp_path / "run").exists() and signal.getsignal(signal.SIGTERM) is before


def test_a_loss_that_breaks_later_keeps_the_last_good_checkpoint(command: Any, tmp_path: Path) -> None:
    from logit_correction import ComponentConfig, RunConfig, TrainingConfig
    from logit_correction.errors import TrainingError
    from logit_correction.runs.train import train

    method = ComponentConfig("my_parts.Breaking", {"at_step": 25})
    training = TrainingConfig(epochs=4, batch_size=128, threads=1, log_every=4)
    run = tmp_path / "run"
    with pytest.raises(TrainingError, match="nan at step 25"):
        train(RunConfig(ComponentConfig("Digits"), method, training=training), run, checkpoint_seconds=0)
    stored = torch.load(run / "resume.pt", weights_only=True)
    assert stored["progress"]["total_steps"] == 24
    assert all(value.isfinite().all() for value in stored["algorithm"].values() if torch.is_tensor(value))
    assert not (run / "report.json").exists()
