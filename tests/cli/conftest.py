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
        """Return the one message of a command that was refused, after checking that it is one.

        Warnings of what was left out may stand before it.
        """
        assert self.status == 2, (self.status, self.err)
        message = "".join(line for line in self.err.splitlines(True) if not line.startswith("warning: "))
        assert message.startswith("error: "), self.err
        assert message.count("error: ") == 1 and message.count("\n") == 1, self.err
        assert "Traceback" not in self.err and self.out == ""
        return message.removeprefix("error: ").rstrip("\n")


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
