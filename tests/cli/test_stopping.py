"""Runs that are stopped by real signals or a full disk: one message, every file as it was, and the run can go on."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from logit_correction.cli import main

from ..conftest import find_differing_tensors, load_trained_tensors

#: Two stages: an epoch of ten steps in which the biased network trains alone, and one more.
METHOD = ("--method", "my_parts.Stopped", "--method.attributes", "Online", "--method.attributes.head_start_epochs", "1")
WORDS = ("--data", "Digits", *METHOD, "--network", "MLP", "--epochs", "1", "--batch_size", "128", "--threads", "1")


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Let the system refuse to write more than so many bytes into one file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    was_set = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # Python would not notice that the files of its cache are cut short
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = was_set


@pytest.fixture(scope="module")
def interrupted_run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped in its fifth step."""
    run = tmp_path_factory.mktemp("stopped") / "my run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STOP", "SIGINT:5")
        assert main(["train", *WORDS, "--out", str(run)]) == 130
    assert torch.load(run / "resume.pt", weights_only=True)["progress"]["total_steps"] == 5
    return run


@pytest.fixture
def interrupted_run(interrupted_run_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(interrupted_run_once, tmp_path / "my run"))


def test_run_whose_checkpoint_does_not_fit_on_disk_resumes_to_the_same_weights(
    interrupted_run: Path, run_command: Any
) -> None:
    with limit_file_size(870_000):
        outcome = run_command("train", "--resume", "--out", interrupted_run)
    assert outcome.status == 1
    last = outcome.err.splitlines()[-1]
    assert last.startswith(f"error: {interrupted_run / 'resume.pt'} cannot be written (File too large): ")
    assert last.endswith(f"continue with: logit-correction train --resume --out '{interrupted_run}'")
    assert {path.name for path in interrupted_run.iterdir()} >= {"config.yaml", "resume.pt"}
    refused = run_command("evaluate", interrupted_run)
    assert refused.status == 2 and str(interrupted_run) in refused.err
    assert run_command("train", *WORDS, "--out", interrupted_run).status == 2  # not without --resume
    assert run_command("train", "--resume", "--out", interrupted_run).status == 0
    assert run_command("train", *WORDS, "--out", interrupted_run.parent / "whole").status == 0
    assert (
        find_differing_tensors(
            load_trained_tensors(interrupted_run), load_trained_tensors(interrupted_run.parent / "whole")
        )
        == []
    )


def test_report_command_names_the_page_that_it_cannot_write(
    run_command: Any, tmp_path: Path, interrupted_run_once: Path
) -> None:
    run = interrupted_run_once.parent / "whole"
    assert run_command("train", "--data", "Digits", "--method", "ERM", "--epochs", "1", "--out", run).status == 0
    with limit_file_size(5_000):
        outcome = run_command("report", run, "--out", tmp_path / "page.html")
    assert outcome.status == 1 and outcome.out == ""
    assert outcome.err.startswith(f"error: {tmp_path / 'page.html'} cannot be written (File too large): make room")
    assert list(tmp_path.iterdir()) == []


def test_resume_with_other_options_is_refused_by_name(interrupted_run: Path, run_command: Any) -> None:
    before = {path.name: path.read_bytes() for path in interrupted_run.iterdir()}
    for words, expected in (
        (("--epochs", "5"), "epochs = 1, not 5"),
        (("--method.attributes.q", "0.5"), "method.attributes.q = 0.7, not 0.5"),
        (("--method", "LC", "--data", "Digits"), "method.name = my_parts.Stopped, not LC"),
        ((*WORDS, "--seed", "1"), "seed = 0, not 1"),
    ):
        result = run_command("train", "--resume", *words, "--out", interrupted_run)
        assert result.status == 2 and str(interrupted_run) in result.err and expected in result.err
    assert {path.name: path.read_bytes() for path in interrupted_run.iterdir()} == before


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_prints_how_to_resume_and_a_second_one_stops_at_once(
    times: int, run_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import my_parts

    forward = my_parts.LC.forward

    def interrupt_and_forward(self: Any, *arguments: Any) -> Any:
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
        return forward(self, *arguments)

    monkeypatch.setattr(my_parts.Stopped, "forward", interrupt_and_forward)
    outcome = run_command("train", *WORDS, "--out", tmp_path / "run")
    assert outcome.status == 130 and outcome.out == "" and "Traceback" not in outcome.err
    *_, last = outcome.err.splitlines()
    words = " ".join(map(str, ("train", *WORDS, "--out", tmp_path / "run", "--resume")))
    assert last == (f"stopped; continue with: logit-correction {words}" if times == 1 else "interrupted")
