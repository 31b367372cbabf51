"""Stopping a command, and the runs that it has under way in other processes."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM stop what goes on as Ctrl-C does (in the main thread)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stopped(*words: str) -> int:
    """Say by which words the program goes on with what was stopped, and return the exit status."""
    print(f"stopped; the same command goes on: {shlex.join(['logit-correction', *words])}", file=sys.stderr)
    return 130
