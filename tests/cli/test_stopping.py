"""Runs that are stopped by real signals or a full disk: one message, every file as it was, and the run can go on."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

#: Two stages: an epoch of ten steps in which the biased network trains alone, and three more.
METHOD = ("--method", "my_parts.Stopped", "--method.attributes", "Online", "--method.attributes.head_start_epochs", "1")
WORDS = ("--data", "Digits", *METHOD, "--network", "MLP", "--epochs", "3", "--batch_size", "128", "--threads", "1")


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """Let the system refuse to write more than so many bytes into one file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def stopped(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was stopped in its fifth step."""
    run = tmp_path / "my run"
    with monkeypatch.context() as patch:
        patch.setenv("STOP", "SIGINT:5")
        outcome = command("train", *WORDS, "--out", run)
    assert outcome.status == 130 and outcome.out == "" and "Traceback" not in outcome.err
    assert outcome.err.endswith(f"stopped; go on with: logit-correction train --resume --out '{run}'\n")
    assert torch.load(run / "resume.pt", weights_only=True)["progress"]["total_steps"] == 5
    return run


def test_a_checkpoint_that_does_not_fit_leaves_the_last_one(stopped: Path, command: Any, tmp_path: Path) -> None:
    with no_file_over(870_000):
        outcome = command("train", "--resume", "--out", stopped)
    assert outcome.status == 1
    last = outcome.err.splitlines()[-1]
    assert last.startswith(f"error: {stopped / 'resume.pt'} cannot be written (File too large): ")
    assert last.endswith(f"`train --resume --out '{stopped}'`")
    assert {path.name for path in stopped.iterdir()} >= {"config.yaml", "resume.pt"}
    assert command("train", "--resume", "--out", stopped).status == 0
    assert command("train", *WORDS, "--out", tmp_path / "other").status == 0
    ends = [torch.load(one / "checkpoint.pt", weights_only=True)["algorithm"] for one in (stopped, tmp_path / "other")]
    for key, value in ends[0].items():
        assert not torch.is_tensor(value) or torch.equal(value, ends[1][key]), key


def test_another_command_names_what_it_cannot_write(command: Any, tmp_path: Path, finished: dict[str, Path]) -> None:
    with no_file_over(5_000):
        outcome = command("report", finished["ERM"], "--out", tmp_path / "page.html")
    assert outcome.status == 1 and outcome.out == ""
    assert outcome.err.startswith(f"error: {tmp_path / 'page.html'} cannot be written (File too large): make room")
    assert list(tmp_path.iterdir()) == []


def test_resume_with_other_options_is_refused(stopped: Path, command: Any) -> None:
    before = {path.name: path.read_bytes() for path in stopped.iterdir()}
    for words, expected in (
        (("--epochs", "5"), "epochs = 3, not 5"),
        (("--method.attributes.q", "0.5"), "method.attributes.q = 0.7, not 0.5"),
        (("--method", "LC", "--data", "Digits"), "method.name = my_parts.Stopped, not LC"),
        ((*WORDS, "--seed", "1"), "seed = 0, not 1"),
    ):
        message = command("train", "--resume", *words, "--out", stopped).error()
        assert str(stopped) in message and expected in message
    assert {path.name: path.read_bytes() for path in stopped.iterdir()} == before


def test_resume_takes_runs_that_are_older_than_an_option(stopped: Path, command: Any) -> None:
    stored = yaml.safe_load((stopped / "config.yaml").read_text())
    for options, name in ((stored, "step_factor"), (stored["method"]["attributes"], "q"), (stored["data"], "severity")):
        del options[name]
    (stopped / "config.yaml").write_text(yaml.safe_dump(stored))
    assert command("train", "--resume", *WORDS, "--out", stopped).status == 0
    stored["method"]["gone"] = 1
    (stopped / "config.yaml").write_text(yaml.safe_dump(stored))
    assert "gone" in command("train", "--resume", *WORDS, "--out", stopped).error()


def test_a_second_ctrl_c_stops_at_once(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import my_parts

    forward = my_parts.LC.forward

    def twice(self: Any, batch: Any, epoch: float) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return forward(self, batch, epoch)

    monkeypatch.setattr(my_parts.Stopped, "forward", twice)
    outcome = command("train", *WORDS, "--out", tmp_path / "run")
    assert outcome.status == 130 and outcome.err.endswith("interrupted\n")


def test_sigterm_before_training_ends_as_ctrl_c_does(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logit_correction.bench.digits import Digits

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Digits, "build", lambda self: os.kill(os.getpid(), signal.SIGTERM))
    outcome = command("train", *WORDS, "--out", tmp_path / "run")
    assert (outcome.status, outcome.err) == (130, "interrupted\n")
    assert not (tmp_path / "run").exists() and signal.getsignal(signal.SIGTERM) is before
