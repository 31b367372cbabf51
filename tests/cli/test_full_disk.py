"""A disk that gets full: one message, exit status 1, every file as it was, and the run goes on when there is room."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

OPTIONS = ("--data", "Digits", "--network", "MLP", "--epochs", "2", "--batch_size", "128", "--threads", "1")
RUN = (*OPTIONS, "--method", "my_parts.Stopped", "--method.attributes", "Online")


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """Let the system refuse to write more than so many bytes into one file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("size", "stopped"),
    [
        pytest.param(400_000, True, marks=pytest.mark.slow),
        (870_000, True),
        pytest.param(50_000, False, marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_that_does_not_fit_leaves_the_last_one(
    size: int, stopped: bool, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "my run"
    if stopped:
        monkeypatch.setenv("STOP", "SIGINT:5")
        assert command("train", *RUN, "--out", run).status == 130
        monkeypatch.delenv("STOP")
    before = {path.name: path.read_bytes() for path in run.iterdir()} if stopped else {}
    with no_file_over(size):
        outcome = command("train", *(("--resume",) if stopped else RUN), "--out", run)
    assert outcome.status == 1
    last = outcome.err.splitlines()[-1]
    assert last.startswith(f"error: {run / 'resume.pt'} cannot be written (File too large): ")
    assert last.endswith(f"`train --resume --out '{run}'`")
    left = {path.name: path.read_bytes() for path in run.iterdir()}
    assert left == before or (not stopped and left.keys() == {"config.yaml"})
    assert command("train", "--resume", "--out", run).status == 0
    assert command("train", *RUN, "--out", tmp_path / "other").status == 0
    ends = [torch.load(one / "checkpoint.pt", weights_only=True)["algorithm"] for one in (run, tmp_path / "other")]
    for key, value in ends[0].items():
        assert not torch.is_tensor(value) or torch.equal(value, ends[1][key]), key


def test_another_command_names_what_it_cannot_write(command: Any, tmp_path: Path, finished: dict[str, Path]) -> None:
    with no_file_over(5_000):
        outcome = command("report", finished["ERM"], "--out", tmp_path / "page.html")
    assert outcome.status == 1 and outcome.out == ""
    assert outcome.err.startswith(f"error: {tmp_path / 'page.html'} cannot be written (File too large): make room")
    assert list(tmp_path.iterdir()) == []
