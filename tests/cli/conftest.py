"""The command line, called as a user calls it but in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from logit_correction.cli import main

USER_CODE = Path(__file__).parents[1] / "user_code"


@dataclass
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str

    def error(self) -> str:
        """Return the one message of a command that was refused, after checking that it is one."""
        assert self.status == 2 and self.out == "", (self.status, self.err)
        assert self.err.startswith("error: ") and self.err.count("\n") == 1, self.err
        return self.err.removeprefix("error: ").rstrip("\n")


Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def user_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the module ``my_parts`` on the path, here and in child processes; keep colours out."""
    monkeypatch.syspath_prepend(str(USER_CODE))
    monkeypatch.setenv("PYTHONPATH", str(USER_CODE))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.delenv("STOP", raising=False)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """Call the command line with words; what it prints is caught, of C code and child processes as well."""

    def call(*words: object) -> Outcome:
        capfd.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:
            status = int(end.code or 0)
        return Outcome(status, *capfd.readouterr())

    return call
