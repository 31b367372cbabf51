"""Files of a run folder cut short or with changed bits: a command does its work, or names the file; never more."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from logit_correction.cli import main

WORDS = ("--data", "Digits", "--method", "LC", "--method.attributes", "Online", "--network", "MLP", "--threads", "1")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main(["train", *WORDS, "--epochs", "1", "--batch_size", "128", "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("name", ["checkpoint.pt", "config.yaml", "report.json", "metrics.csv", "predictions.parquet"])
def test_damaged_files(
    name: str, run: Path, tmp_path: Path, times: Callable[[int, int], int], capfd: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(name)
    whole = (run / name).read_bytes()
    copy = shutil.copytree(run, tmp_path / "run")
    for _ in range(times(4, 400)):
        damaged = bytearray(whole)
        if draw.random() < 0.3:
            del damaged[draw.randrange(len(damaged)) :]
        else:
            for _ in range(draw.choice([1, 1, 300])):
                damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        (copy / name).write_bytes(damaged)
        before = {path.name: path.read_bytes() for path in copy.iterdir() if path.name != "report.html"}
        command = ["report", str(copy)] if name == "metrics.csv" else ["evaluate", str(copy)]
        status = main(command)
        shown = capfd.readouterr()
        assert status in (0, 2), shown.err
        if status == 2:
            assert shown.err.startswith("error: ") and shown.err.count("\n") == 1 and "Traceback" not in shown.err
        assert {path.name: path.read_bytes() for path in copy.iterdir() if path.name != "report.html"} == before
