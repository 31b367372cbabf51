"""What was stopped goes on to the figures of what was not. For a grid, ``tests/bench/test_runner.py`` says so."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..forked import Forked
from . import golden

WORDS = ("--data", "Digits", "--epochs", "8", "--threads", "1", "--seed", "3")

#: Trains, and sends itself the signal in a step: the twentieth, or the first one after a checkpoint.
PROGRAM = """
import os, sys
from pathlib import Path
import logit_correction
from logit_correction.cli import main
sent, when, method, *words = sys.argv[1:]
algorithm, out, calls = getattr(logit_correction, method), Path(words[-1]), []
forward = algorithm.forward
def stopped(self, *given):
    calls.append(1)
    if (out / "resume.pt").exists() if when == "checkpoint" else len(calls) == 20:
        algorithm.forward = forward
        os.kill(os.getpid(), int(sent))
    return forward(self, *given)
algorithm.forward = stopped
sys.exit(main([*words[:-2], "--method", method, *words[-2:]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "when", "sent"), [("ERM", "step", signal.SIGTERM), ("LC", "checkpoint", signal.SIGKILL)]
)
def test_a_stopped_training_goes_on_to_the_same_figures(
    method: str, when: str, sent: signal.Signals, door: Callable[..., Any], tmp_path: Path
) -> None:
    words = ["train", *WORDS, "--method", method]
    given = (str(int(sent)), when, method, "train", *WORDS, "--out", str(tmp_path / "run"))
    with Forked(PROGRAM, *given) as process:
        assert process.wait() == (130 if sent == signal.SIGTERM else -sent), process.told
    assert (tmp_path / "run" / "resume.pt").exists()
    assert not (tmp_path / "run" / "report.json").exists()
    refused = door("evaluate", tmp_path / "run")
    assert refused.status == 2 and str(tmp_path / "run") in refused.err
    assert door(*words, "--out", tmp_path / "run").status == 2  # not without --resume
    assert door("train", "--resume", "--out", tmp_path / "run").status == 0
    assert door(*words, "--out", tmp_path / "whole").status == 0
    assert golden.figures(tmp_path / "run") == golden.figures(tmp_path / "whole")
    names = [{path.name for path in (tmp_path / run).iterdir() if path.name[0] != "."} for run in ("run", "whole")]
    assert names[0] == names[1]
