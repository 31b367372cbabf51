"""How long a grid will still take."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from statistics import fmean

#: A row and a column.
Kind = tuple[str, str]


def expected_seconds(kind: Kind, known: Mapping[Kind, Sequence[float]]) -> float | None:
    """Return what a run is expected to take, from runs of its row and column, or else of its row, or else of any.

    >>> known = {("ERM", "1"): [10.0, 12.0], ("LC", "1"): [30.0]}
    >>> expected_seconds(("ERM", "1"), known), expected_seconds(("LC", "2"), known), expected_seconds(("DFA", "1"), {})
    (11.0, 30.0, None)
    """
    same = known.get(kind)
    row = [second for (name, _), seconds in known.items() if name == kind[0] for second in seconds]
    for found in (same, row, [second for seconds in known.values() for second in seconds]):
        if found:
            return fmean(found)
    return None


def seconds_left(
    waiting: Sequence[Kind],
    running: Sequence[tuple[Kind, float]],
    known: Mapping[Kind, Sequence[float]],
    slots: int,
    elsewhere: Sequence[tuple[Kind, float]] = (),
) -> float | None:
    """Return when the last run will end, if each slot takes the next one as soon as it is free.

    Args:
        waiting: Runs that have not begun, in their order.
        running: Runs that have, and for how many seconds.
        known: Seconds that finished runs took.
        slots: Runs at a time here.
        elsewhere: Runs that other processes train, and for how many seconds; they too will take from those waiting.

    Returns:
        Seconds; None where no run has finished yet.

    >>> known = {("ERM", "1"): [10.0], ("LC", "1"): [60.0]}
    >>> seconds_left([("ERM", "1"), ("ERM", "1")], [(("LC", "1"), 20.0)], known, slots=2)
    40.0
    """
    ends = []
    for kind, elapsed in [*running, *elsewhere]:
        seconds = expected_seconds(kind, known)
        if seconds is None:
            return None
        ends.append(max(seconds - elapsed, 0.0))
    ends += [0.0] * max(slots - len(running), 0)
    heapq.heapify(ends)
    last = max(ends, default=0.0)
    for kind in waiting:
        seconds = expected_seconds(kind, known)
        if seconds is None:
            return None
        end = heapq.heappop(ends) + seconds
        last = max(last, end)
        heapq.heappush(ends, end)
    return last


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
