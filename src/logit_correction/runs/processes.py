"""Child processes that are stopped together."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from threading import Lock
from typing import Any


class Processes:
    """Runs commands from several threads, until it is told to stop."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock, self._running, self._stopped = Lock(), set[subprocess.Popen[bytes]](), False

    def run(self, command: Sequence[str], **options: Any) -> int:
        """Run a command to its end and return its exit status; once stopped, return 130 at once."""
        with self._lock:
            if self._stopped:
                return 130
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
            self._running.add(process)
        try:
            return process.wait()
        finally:
            with self._lock:
                self._running.discard(process)

    def stop(self) -> None:
        """Ask all running commands to end, and let none begin."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()
