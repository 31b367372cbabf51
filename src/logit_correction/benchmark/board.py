"""Which runs of a grid are open, under way here or elsewhere, and ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from logit_correction.benchmark.estimate import Kind, seconds_left
from logit_correction.benchmark.grid import Cell
from logit_correction.benchmark.work import Outcome

#: Seconds between two looks at the runs of other processes, when nothing else is left.
POLL_SECONDS = 1.0


def is_complete(cell: Cell) -> bool:
    """Return whether nothing is left to do; one killed between its report and its page wants no more than the page."""
    from logit_correction.runs.folder import PAGE, is_finished

    return is_finished(cell.folder) and (cell.folder / PAGE).is_file()


class Board:
    """Gives each of several threads the next run that no other process is at.

    Args:
        cells: The runs that are not finished, in their order.
        known: Seconds that finished runs took, by row and column.
        slots: Runs at a time here.
    """

    def __init__(self, cells: Sequence[Cell], known: dict[Kind, list[float]], slots: int) -> None:
        """Begin with all open."""
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._open, self._known, self._slots = list(cells), known, slots
        self._running: dict[int, tuple[Cell, float]] = {}
        self._elsewhere: dict[int, tuple[Cell, float, str]] = {}
        self.total, self.ended, self.ended_elsewhere = len(cells), 0, 0
        self.failed: list[Cell] = []
        self._told = False

    def take(self, waits: Callable[[str], None]) -> Cell | None:
        """Return the next run to train; wait while all that is left is trained elsewhere; None at the end.

        Args:
            waits: Told once what is waited for.
        """
        while not self._stopped.is_set():
            with self._lock:
                found = self._next()
                if found is not None or not self._open:
                    return found
                told, self._told = self._told, True
            if not told:
                waits(self._waited_for())
            self._stopped.wait(POLL_SECONDS)
        return None

    def _next(self) -> Cell | None:
        from logit_correction.runs.lock import holder_of

        for cell in list(self._open):
            holder = holder_of(cell.folder)
            if holder is not None:
                before = self._elsewhere.get(id(cell))
                since = before[1] if before else time.monotonic()
                self._elsewhere[id(cell)] = (cell, since, holder)
                continue
            was_elsewhere = self._elsewhere.pop(id(cell), None)
            if is_complete(cell):
                self._open.remove(cell)
                self.ended, self.ended_elsewhere = self.ended + 1, self.ended_elsewhere + 1
                if was_elsewhere is not None:
                    self._known.setdefault((cell.row, cell.column), []).append(time.monotonic() - was_elsewhere[1])
                continue
            self._open.remove(cell)
            self._running[id(cell)] = (cell, time.monotonic())
            return cell
        return None

    def end(self, cell: Cell, outcome: Outcome) -> float:
        """Take down how a run ended and return its seconds; one that another process was at is open again."""
        with self._lock:
            seconds = time.monotonic() - self._running.pop(id(cell))[1]
            if outcome.state == "held":
                self._open.append(cell)
            elif outcome.state != "stopped":
                self.ended += 1
                if outcome.state == "failed":
                    self.failed.append(cell)
                else:
                    self._known.setdefault((cell.row, cell.column), []).append(seconds)
            return seconds

    def _waited_for(self) -> str:
        found = self.elsewhere()
        processes = sorted({holder for _, holder in found})
        runs = "1 run is" if len(found) == 1 else f"{len(found)} runs are"
        return f"{runs} running elsewhere ({', '.join(processes)}) and waited for; Ctrl-C leaves them to run"

    def stop(self) -> None:
        """Give out no more runs."""
        self._stopped.set()

    def running(self) -> list[Cell]:
        """Return the runs under way here."""
        with self._lock:
            return [cell for cell, _ in self._running.values()]

    def elsewhere(self) -> list[tuple[Cell, str]]:
        """Return the runs that other processes are at, as far as was looked."""
        with self._lock:
            return [(cell, holder) for cell, _, holder in self._elsewhere.values()]

    def seconds_left(self) -> float | None:
        """Return the seconds until the last run ends; None where nothing tells yet."""
        now = time.monotonic()
        with self._lock:
            waiting = [(cell.row, cell.column) for cell in self._open if id(cell) not in self._elsewhere]
            running = [((cell.row, cell.column), now - since) for cell, since in self._running.values()]
            others = [((cell.row, cell.column), now - since) for cell, since, _ in self._elsewhere.values()]
            return seconds_left(waiting, running, self._known, self._slots, others)
