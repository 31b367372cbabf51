"""A child process that works through jobs, one line each, and does not outlive its parent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any


class Worker:
    """A child process that is given jobs as lines of JSON and answers each with one line of JSON.

    Its standard input is a pipe, which the system closes when this process ends, however it ends: see ``jobs``. It has
    a session of its own, so that Ctrl-C at a terminal reaches this process alone, which then asks the child to stop.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the process."""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(environment), start_new_session=True
        )

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any] | None:
        """Have one job done and return the answer; None if the process ended without one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def stop(self) -> None:
        """Ask the process to stop; a job under way is saved first."""
        self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def end(self) -> int:
        """Let the process end and return its exit status; a job under way is broken off."""
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass
        return self._process.wait()


def jobs(at_end: Callable[[], None]) -> SimpleQueue[dict[str, Any]]:
    """Return a queue of the jobs that the parent writes to standard input; when the parent ends, so does this process.

    It ends at once, as if killed: every file of a run is complete or absent at any time, and another process may want
    to go on with the run right away.

    Args:
        at_end: Called before that, to end what this process has started.
    """
    queue: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def follow() -> None:
        try:
            for line in sys.stdin.buffer:
                queue.put(json.loads(line))
        finally:
            try:
                at_end()
            finally:
                os._exit(0)

    threading.Thread(target=follow, name="jobs", daemon=True).start()
    return queue
