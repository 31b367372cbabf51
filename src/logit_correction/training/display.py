"""Progress on the terminal while a run trains."""

from __future__ import annotations

import sys
import time
from typing import Any


class Display:
    """Shows nothing; the base of what shows progress.

    Attributes:
        whole: Length of all the work, in stages like the first one, for a forecast of long work.
    """

    WARM, ENOUGH, WORTH_TELLING = 1.0, 3.0, 20.0  # seconds: of warming up, until the pace is known, of long work
    LEAST, MOST = 0.5, 3.0  # times what the pace promises: stages are skipped, and a loaded machine slows down
    whole = 1.0

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *error: object) -> None:
        """End."""

    def say(self, what: str) -> None:
        """Show a line of text."""

    def start(self, title: str, total_steps: int, done: int) -> None:
        """Begin a stage of ``total_steps``, of which ``done`` are done."""
        self._title, self._total, self._before, self._started = title, total_steps, done, time.monotonic()
        self._warm: tuple[float, int] | None = None

    def update(self, done: int, figures: dict[str, float]) -> None:
        """Show that ``done`` steps of the stage are done; ``figures`` are the latest."""
        passed = time.monotonic() - self._started
        if self._warm is None and passed > self.WARM:
            self._warm = passed, done
        elif self._warm and self.whole and passed > self.ENOUGH:
            pace = (passed - self._warm[0]) / max(1, done - self._warm[1])
            seconds = self.whole * pace * (self._total - self._before)
            if seconds > self.WORTH_TELLING:
                least, most = _format_seconds(self.LEAST * seconds), _format_seconds(self.MOST * seconds)
                self.say(f"This takes {least} to {most} (minutes:seconds), judging by the first steps")
            self.whole = 0.0  # once


class Lines(Display):
    """A line of text every ten seconds, with an estimate of the time left; for log files."""

    _next = 0.0

    def say(self, what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    def update(self, done: int, figures: dict[str, float]) -> None:
        super().update(done, figures)
        now = time.monotonic()
        if now < self._next and done != self._total:
            return
        self._next = now + 10
        left = (now - self._started) / max(1, done - self._before) * (self._total - done)
        told = f", {_format_seconds(left)} left" if done < self._total else ""
        self.say(f"{self._title}: step {done} of {self._total}{told}{_format_figures(figures)}")


class Bar(Display):
    """A progress bar with the losses, the validation figure and the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        text = TextColumn("{task.description}"), TextColumn("{task.fields[figures]}")
        columns = text[0], BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn(compact=True), text[1]
        self._bar = Progress(*columns, console=Console(stderr=True), refresh_per_second=4)
        self._task: Any = None

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def say(self, what: str) -> None:
        self._bar.console.print(what, highlight=False, markup=False)

    def start(self, title: str, total_steps: int, done: int) -> None:
        super().start(title, total_steps, done)
        self._task = self._bar.add_task(title, total=total_steps, completed=done, figures="")

    def update(self, done: int, figures: dict[str, float]) -> None:
        super().update(done, figures)
        self._bar.update(self._task, completed=done, figures=_format_figures(figures))


def _format_seconds(seconds: float) -> str:
    """Return minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _format_figures(figures: dict[str, float]) -> str:
    """Return the losses of the networks (or the loss) and the average validation accuracy in per cent."""
    losses = sorted((name for name in figures if name.startswith("loss_")), reverse=True) or ["loss"]
    text = "".join(f"  {name.replace('_', ' ')} {figures[name]:.3f}" for name in losses if name in figures)
    return text + (f"  valid average {100 * figures['valid_average']:.1f} %" if "valid_average" in figures else "")


def choose_display(quiet: bool = False) -> Display:
    """Return a bar on a terminal, lines elsewhere, nothing if ``quiet``."""
    if quiet:
        return Display()
    return Bar() if sys.stderr.isatty() else Lines()
