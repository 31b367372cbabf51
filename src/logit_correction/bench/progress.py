"""What a person sees while a grid runs."""

from __future__ import annotations

import sys
import threading
from typing import Any

from logit_correction.bench.run_queue import RunQueue, span


class Progress:
    """Lines of text on standard error; for log files."""

    def begin(self, queue: RunQueue) -> None:
        """Take the queue to look at."""

    def say(self, line: str) -> None:
        """Show a line that stays."""
        print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Show nothing more."""


class LiveProgress(Progress):
    """One live line on a terminal below the lines that stay: runs ended, time left, runs under way."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._console = Console(stderr=True)
        columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Bar(*columns, TextColumn("{task.description}", markup=False), console=self._console, transient=True)
        self._ended = threading.Event()
        self._task: Any = None

    def begin(self, queue: RunQueue) -> None:
        """Show the line and keep it up to date."""
        self._task = self._bar.add_task("", total=queue.total)
        self._bar.start()
        threading.Thread(target=self._follow, args=(queue,), daemon=True).start()

    def _follow(self, queue: RunQueue) -> None:
        while True:
            self._bar.update(self._task, completed=queue.ended, description=describe(queue))
            if self._ended.wait(0.5):
                return

    def say(self, line: str) -> None:
        """Show a line that stays, above the live one."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Remove the line."""
        self._ended.set()
        self._bar.stop()


def describe(queue: RunQueue) -> str:
    """Return the time left, what is under way, and what other processes are at."""
    running, elsewhere = queue.running(), len(queue.elsewhere())
    parts = [f"left: {span(queue.seconds_left())}"]
    if running:
        first = f"{running[0].row}, {running[0].column}, seed {running[0].seed}"
        parts.append(first + (f" and {len(running) - 1} more" if len(running) > 1 else ""))
    if elsewhere:
        parts.append(f"{elsewhere} running elsewhere")
    return "; ".join(parts)


def choose_progress() -> Progress:
    """Return a live line on a terminal, lines elsewhere."""
    return LiveProgress() if sys.stderr.isatty() else Progress()
