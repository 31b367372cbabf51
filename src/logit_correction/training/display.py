"""Progress on the terminal while a run trains."""

from __future__ import annotations

import sys
import time
from typing import Any

from logit_correction.formatting import wrap_prose


class Display:
    """Shows nothing; the base of what shows progress."""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *error: object) -> None:
        """End."""

    def show_message(self, message: str) -> None:
        """Show a line of text."""

    def start(self, title: str, total_steps: int, done: int) -> None:
        """Begin a stage of ``total_steps``, of which ``done`` are done."""

    def update(self, done: int, figures: dict[str, float]) -> None:
        """Show that ``done`` steps of the stage are done; ``figures`` are the latest."""


class LineDisplay(Display):
    """A line of text every ten seconds, with an estimate of the time left; for log files."""

    _next = 0.0

    def show_message(self, message: str) -> None:
        print(wrap_prose(message, sys.stderr), file=sys.stderr, flush=True)

    def start(self, title: str, total_steps: int, done: int) -> None:
        self._title, self._total, self._before, self._started = title, total_steps, done, time.monotonic()

    def update(self, done: int, figures: dict[str, float]) -> None:
        now = time.monotonic()
        if now < self._next and done != self._total:
            return
        self._next = now + 10
        left = (now - self._started) / max(1, done - self._before) * (self._total - done)
        told = f", {int(left) // 60}:{int(left) % 60:02} left" if done < self._total else ""
        self.show_message(f"{self._title}: step {done} of {self._total}{told}{_format_figures(figures)}")


class BarDisplay(Display):
    """A progress bar with the losses, the validation figure and the time left, in 80 columns."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        text = TextColumn("{task.description}"), TextColumn("{task.fields[figures]}")
        columns = text[0], BarColumn(bar_width=8), MofNCompleteColumn(), TimeRemainingColumn(compact=True), text[1]
        self._bar = Progress(*columns, console=Console(stderr=True), refresh_per_second=4)
        self._task: Any = None

    def __enter__(self) -> BarDisplay:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def show_message(self, message: str) -> None:
        self._bar.console.print(wrap_prose(message, sys.stderr), highlight=False, markup=False, soft_wrap=True)

    def start(self, title: str, total_steps: int, done: int) -> None:
        self._task = self._bar.add_task(title, total=total_steps, completed=done, figures="")

    def update(self, done: int, figures: dict[str, float]) -> None:
        self._bar.update(self._task, completed=done, figures=_format_figures(figures))


def _format_figures(figures: dict[str, float]) -> str:
    """Return the losses of the networks (or the loss) and the average accuracy on validation rows in per cent."""
    losses = sorted((name for name in figures if name.startswith("loss_")), reverse=True) or ["loss"]
    text = "".join(f"  {name.replace('_', ' ')} {figures[name]:.3f}" for name in losses if name in figures)
    return text + (f"  valid {100 * figures['valid_average']:.1f} %" if "valid_average" in figures else "")


def choose_display(quiet: bool = False) -> Display:
    """Return a bar on a terminal, lines elsewhere, nothing if ``quiet``."""
    if quiet:
        return Display()
    return BarDisplay() if sys.stderr.isatty() else LineDisplay()
