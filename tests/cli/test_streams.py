"""Output that its reader closes early, as ``... | head`` does: no traceback, and the status of a closed pipe."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from logit_correction import train
from logit_correction.cli import main

PROGRAM = (sys.executable, "-m", "logit_correction")


def run_with_closed_stream(*words: str, closed: str) -> tuple[int, str]:
    """Run a command whose ``closed`` stream has no reader; return its status and what it wrote to the other one."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    streams = {closed: writer, "stderr" if closed == "stdout" else "stdout": subprocess.PIPE}
    try:
        process = subprocess.run([*PROGRAM, *words], env=environment, text=True, check=False, **streams)  # type: ignore[call-overload]
    finally:
        os.close(writer)
    return process.returncode, process.stderr or process.stdout or ""


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help-all"], ["list", "--all"], ["list", "--debug"], ["cache"]], ids=" ".join
)
def test_closed_output_ends_without_a_traceback(words: list[str]) -> None:
    assert run_with_closed_stream(*words, closed="stdout") == (141, "")


def test_closed_error_stream_keeps_the_exit_status() -> None:
    assert run_with_closed_stream("nonsense", closed="stderr") == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_full_disk_at_the_output_gives_one_message() -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "w") as full:
        process = subprocess.run([*PROGRAM, "list"], env=environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (
        process.returncode == 1 and process.stderr.startswith("error: OSError: ") and "No space left" in process.stderr
    )
    assert process.stderr.count("\n") == 1


def test_names_that_the_output_cannot_encode_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"x": range(60), "y": ["\u65e5\u672c", "a"] * 30}).to_csv(tmp_path / "t.csv", index=False)
    train({"name": "Table", "file": tmp_path / "t.csv", "label": "y"}, tmp_path / "run", method="ERM", epochs=1)
    for encoding in ("cp1252", "ascii"):
        for words in (["evaluate", tmp_path / "run"], ["predict", tmp_path / "run", tmp_path / "t.csv"]):
            output = io.BytesIO()
            monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding))
            assert main([*map(str, words)]) == 0
            sys.stdout.flush()
            assert rb"\u65e5\u672c" in output.getvalue()
