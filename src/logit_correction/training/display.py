"""Progress on the terminal while a run trains: a bar, lines for log files, or nothing."""

from __future__ import annotations

import sys
import time
from typing import Any

from logit_correction.formatting import wrap_prose


class Display:
    """Shows nothing; the base of the displays that show progress."""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the display."""

    def show_message(self, message: str) -> None:
        """Show a line of text."""

    def start(self, title: str, total_steps: int, steps_done: int) -> None:
        """Begin to show a stage.

        Args:
            title: Names the stage.
            total_steps: Its steps.
            steps_done: Those that were done before, in a resumed training.
        """

    def update(self, steps_done: int, metrics: dict[str, float]) -> None:
        """Show the progress of the stage.

        Args:
            steps_done: Steps of the stage that are done.
            metrics: The latest metrics, by name.
        """


class LineDisplay(Display):
    """Prints a line of text every ten seconds, with an estimate of the time left; for log files."""

    SECONDS_BETWEEN_LINES = 10

    _next_time = 0.0

    def show_message(self, message: str) -> None:
        print(wrap_prose(message, sys.stderr), file=sys.stderr, flush=True)

    def start(self, title: str, total_steps: int, steps_done: int) -> None:
        self._title = title
        self._total_steps = total_steps
        self._steps_before = steps_done
        self._started_at = time.monotonic()

    def update(self, steps_done: int, metrics: dict[str, float]) -> None:
        now = time.monotonic()
        remaining = self._total_steps - steps_done
        if now < self._next_time and remaining:
            return
        self._next_time = now + self.SECONDS_BETWEEN_LINES
        text = f"{self._title}: step {steps_done} of {self._total_steps}"
        if remaining > 0:
            seconds = int((now - self._started_at) / max(1, steps_done - self._steps_before) * remaining)
            text += f", {seconds // 60}:{seconds % 60:02} left"
        self.show_message(text + _format_metrics(metrics))


class BarDisplay(Display):
    """Shows a progress bar with the losses, the validation accuracy and the time left, in 80 columns."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=8),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[metrics]}"),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._task: Any = None

    def __enter__(self) -> BarDisplay:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def show_message(self, message: str) -> None:
        self._bar.console.print(wrap_prose(message, sys.stderr), highlight=False, markup=False, soft_wrap=True)

    def start(self, title: str, total_steps: int, steps_done: int) -> None:
        self._task = self._bar.add_task(title, total=total_steps, completed=steps_done, metrics="")

    def update(self, steps_done: int, metrics: dict[str, float]) -> None:
        self._bar.update(self._task, completed=steps_done, metrics=_format_metrics(metrics))


def _format_metrics(metrics: dict[str, float]) -> str:
    """Return the losses of the networks (or the loss) and the average accuracy on validation rows in per cent."""
    losses = sorted((name for name in metrics if name.startswith("loss_")), reverse=True) or ["loss"]
    text = "".join(f"  {name.replace('_', ' ')} {metrics[name]:.3f}" for name in losses if name in metrics)
    if "valid_average" in metrics:
        text += f"  valid {100 * metrics['valid_average']:.1f} %"
    return text


def choose_display(shows_progress: bool = True) -> Display:
    """Return a bar on a terminal and lines elsewhere, or a display that shows nothing."""
    if not shows_progress:
        return Display()
    return BarDisplay() if sys.stderr.isatty() else LineDisplay()
