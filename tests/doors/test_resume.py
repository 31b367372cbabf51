"""What was stopped goes on to the figures of what was not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from . import golden

WORDS = ("--data", "Digits", "--epochs", "8", "--threads", "1", "--seed", "3")


def stopped(words: list[str], out: Path, sent: signal.Signals) -> int:
    """Start the program, stop it by a signal when it has begun to train, and return its exit status."""
    (out.parent / "log").unlink(missing_ok=True)
    with (out.parent / "log").open("wb") as log:
        command = [sys.executable, "-m", "logit_correction", *words, "--out", str(out)]
        process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
        with contextlib.suppress(subprocess.TimeoutExpired):
            deadline = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < deadline:
                if (out / "resume.pt").exists():
                    process.send_signal(sent)
                    break
                time.sleep(0.01)
        return process.wait(120)


@pytest.mark.parametrize(
    ("method", "sent"),
    [
        pytest.param("ERM", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("ERM", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("LC", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("LC", signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_a_stopped_training_goes_on_to_the_same_figures(
    method: str, sent: signal.Signals, door: Callable[..., Any], tmp_path: Path
) -> None:
    words = ["train", *WORDS, "--method", method]
    status = stopped(words, tmp_path / "run", sent)
    assert status == (130 if sent == signal.SIGTERM else -sent), (tmp_path / "log").read_text()
    assert not (tmp_path / "run" / "report.json").exists()
    refused = door("evaluate", tmp_path / "run")
    assert refused.status == 2 and str(tmp_path / "run") in refused.err
    assert door(*words, "--out", tmp_path / "run").status == 2  # not without --resume
    assert door("train", "--resume", "--out", tmp_path / "run").status == 0
    assert door(*words, "--out", tmp_path / "whole").status == 0
    assert golden.figures(tmp_path / "run") == golden.figures(tmp_path / "whole")
    names = [{path.name for path in (tmp_path / run).iterdir() if path.name[0] != "."} for run in ("run", "whole")]
    assert names[0] == names[1]


def test_to_resume_a_finished_run_changes_nothing(
    door: Callable[..., Any], run: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = run("digits-jtt")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    answer = door("train", "--resume", "--out", folder)
    assert answer.status in (0, 2) and "Traceback" not in answer.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.slow
def test_a_killed_benchmark_goes_on_to_the_same_table(door: Callable[..., Any], tmp_path: Path) -> None:
    import pandas as pd

    (tmp_path / "grid.yaml").write_text(
        "title: Digits\nseeds: 2\ncommon: {data: {name: Digits}, network: {name: MLP}, epochs: 3, threads: 1}\n"
        "rows: {ERM: {method: {name: ERM}}, LC: {method: {name: LC}}}\ncolumns: {all: {}}\n"
    )
    command = [sys.executable, "-m", "logit_correction", "benchmark", str(tmp_path / "grid.yaml"), "--out"]
    process = subprocess.Popen(
        [*command, str(tmp_path / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "killed").rglob("report.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    tables = []
    for name in ("killed", "whole"):
        assert door("benchmark", tmp_path / "grid.yaml", "--out", tmp_path / name).status == 0
        tables.append(pd.read_csv(tmp_path / name / "table.csv")[["row", "column", "seed", "average", "worst_group"]])
    assert tables[0].equals(tables[1])
