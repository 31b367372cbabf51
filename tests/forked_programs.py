"""Programs in processes that are forked from one with its imports behind it, which take longer than most of their work.

They begin in milliseconds instead of seconds, and a kill meets their work and not their imports.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

#: What a training imports.
IMPORTS = (
    *("torch", "sklearn.linear_model", "sklearn.model_selection"),
    *("pandas", "pyarrow.parquet", "joblib", "logit_correction.runs.train"),
)


#: Seconds that no program of a test takes, on a machine with other work either.
PATIENCE = 900.0


class ForkedProgram:
    """A program in a process of its own, with the interface of ``subprocess.Popen``.

    Args:
        program: The words of a command of ours, or a program in Python.
        arguments: What the program in Python finds in ``sys.argv[1:]``.
        environment: Of the process; by default that of this one.
    """

    def __init__(
        self,
        program: Sequence[str] | str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.log = Path(self._folder.name) / "log"
        self.log.touch()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(IMPORTS))
        self._process = context.Process(
            target=_run, args=(program, arguments, dict(environment or os.environ), os.getcwd(), self.log)
        )
        self._process.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def output(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace")

    def poll(self) -> int | None:
        """Return the status, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float = PATIENCE) -> int:
        """Return the status once it has ended.

        Raises:
            subprocess.TimeoutExpired: It goes on.
        """
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout, self.output)
        return status

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._process.kill()

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs still."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def __enter__(self) -> ForkedProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.join()
        self._folder.cleanup()


def start_two_processes(
    stack: ExitStack, program: Sequence[str] | str, *arguments: str, environment: Mapping[str, str] | None = None
) -> list[ForkedProgram]:
    """Start a program as two processes that know of each other, as a launcher such as torchrun starts them.

    Args:
        stack: Ends them.
        program: As for ``ForkedProgram``.
        arguments: As for ``ForkedProgram``.
        environment: As for ``ForkedProgram``; what they need to meet is added.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    environments = [{**(environment or os.environ), **meeting, "LOCAL_RANK": str(rank)} for rank in range(2)]
    return [
        stack.enter_context(ForkedProgram(program, *arguments, environment=variables)) for variables in environments
    ]


def _run(program: Any, arguments: Sequence[str], environment: Mapping[str, str], folder: str, log: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.set_start_method(None, force=True)  # the system's own again, for processes that it begins
    with log.open("a") as file:
        sys.stdout.flush()
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if isinstance(program, str):
        sys.argv = ["-c", *arguments]
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        return
    from logit_correction.cli import main

    sys.exit(main(list(program)))
