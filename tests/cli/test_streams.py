"""Output that its reader closes early, as ``... | head`` does: no traceback, and the status of a closed pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = (sys.executable, "-m", "logit_correction")


def run(*words: str, closed: str) -> tuple[int, str]:
    """Run a command whose ``closed`` stream nobody reads; return its status and what it wrote to the other one."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    streams = {closed: writer, "stderr" if closed == "stdout" else "stdout": subprocess.PIPE}
    try:
        done = subprocess.run([*PROGRAM, *words], env=environment, text=True, check=False, **streams)  # type: ignore[call-overload]
    finally:
        os.close(writer)
    return done.returncode, done.stderr or done.stdout or ""


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help-all"], ["list", "--all"], ["list", "--debug"], ["cache"]], ids=" ".join
)
def test_a_closed_output_ends_without_a_traceback(words: list[str]) -> None:
    assert run(*words, closed="stdout") == (141, "")


def test_a_closed_error_stream_keeps_the_status() -> None:
    assert run("nonsense", closed="stderr") == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_output_is_one_message() -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PROGRAM, "list"], env=environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and done.stderr.startswith("error: OSError: ") and "No space left" in done.stderr
    assert done.stderr.count("\n") == 1
