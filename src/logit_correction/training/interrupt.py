"""Stopping at a clean place when the user or the system asks for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """Training was asked to stop and has saved where it was."""


class StopRequest:
    """Whether somebody has asked to stop; a second request stops at once, or when a checkpoint is written."""

    def __init__(self) -> None:
        self.asked, self._waits = False, False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a second request wait for the end of the block; a third does not."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def ask(self, signum: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if self.asked and not self._waits:
            raise KeyboardInterrupt
        self._waits = self._waits and not self.asked
        self.asked = True


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Turn Ctrl-C and SIGTERM into a request for the length of the block (in the main thread)."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.signal(kind, request.ask) for kind in kinds}
    try:
        yield request
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
