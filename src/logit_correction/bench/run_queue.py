"""Which runs of a grid are open, under way here or elsewhere, and ended, and how long the rest will take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from statistics import fmean

from logit_correction.bench.grid import Cell
from logit_correction.bench.work import Outcome, is_complete

#: Seconds between two looks at the runs of other processes, when nothing else is left.
POLL_SECONDS = 1.0


class RunQueue:
    """Gives each of several threads the next run that no other process is at.

    Args:
        cells: The runs that are not finished, in their order.
        known: Finished runs, and the seconds that they took.
        slots: Runs at a time here.
    """

    def __init__(self, cells: Sequence[Cell], known: Sequence[tuple[Cell, float]], slots: int) -> None:
        self._lock, self._stopped, self._told = threading.Lock(), threading.Event(), False
        self._open, self._known, self._slots = list(cells), list(known), slots
        self._running: dict[int, tuple[Cell, float]] = {}
        self._elsewhere: dict[int, tuple[Cell, float, str]] = {}
        self.total, self.ended = len(cells), 0
        self.failed: list[Cell] = []

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
        from logit_correction.runs.folder import owner_of

        for cell in list(self._open):
            holder, now = owner_of(cell.folder), time.monotonic()
            _, since, _ = self._elsewhere.pop(id(cell), (cell, now, ""))
            if holder is not None:
                self._elsewhere[id(cell)] = (cell, since, holder)
                continue
            self._open.remove(cell)
            if not is_complete(cell.folder):
                self._running[id(cell)] = (cell, now)
                return cell
            self.ended += 1
            if since < now:
                self._known.append((cell, now - since))
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
                    self._known.append((cell, seconds))
            return seconds

    def _waited_for(self) -> str:
        found = self.elsewhere()
        runs = "1 run is" if len(found) == 1 else f"{len(found)} runs are"
        holders = ", ".join(sorted({holder for _, holder in found}))
        return f"{runs} running elsewhere ({holders}) and waited for; Ctrl-C leaves them to run"

    def stop(self) -> None:
        """Give out no more runs."""
        self._stopped.set()

    def running(self) -> list[Cell]:
        """Return the runs under way here."""
        with self._lock:
            return [cell for cell, _ in self._running.values()]

    def elsewhere(self) -> list[tuple[Cell, str]]:
        """Return the runs that other processes are at, and who, as far as was looked."""
        with self._lock:
            return [(cell, holder) for cell, _, holder in self._elsewhere.values()]

    def seconds_left(self) -> float | None:
        """Return about when the last run ends: all share the work evenly, and none is faster than its longest run."""
        with self._lock:
            if not self._known:
                return None
            now, others = time.monotonic(), [(cell, since) for cell, since, _ in self._elsewhere.values()]
            under_way = [*self._running.values(), *others]
            rest = [max(self._expected(cell) - (now - since), 0.0) for cell, since in under_way]
            rest += [self._expected(cell) for cell in self._open if id(cell) not in self._elsewhere]
            return max(sum(rest) / (self._slots + len(others)), max(rest, default=0.0))

    def _expected(self, cell: Cell) -> float:
        """Return the mean of finished runs of the same row and column, or else of the row, or else of all."""
        row = [(other, seconds) for other, seconds in self._known if other.row == cell.row]
        same = [(other, seconds) for other, seconds in row if other.column == cell.column]
        return fmean(seconds for _, seconds in same or row or self._known)


def span(seconds: float | None) -> str:
    """Return a time for people.

    >>> span(20), span(240), span(7500), span(None)
    ('under a minute', '4 min', '2 h 5 min', 'not known yet')
    """
    if seconds is None:
        return "not known yet"
    if seconds < 50:
        return "under a minute"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
