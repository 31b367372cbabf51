"""The time left: runs that differ in cost, several at a time, and those of other processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from logit_correction.bench import Cell, run_queue
from logit_correction.bench.run_queue import RunQueue, span
from logit_correction.bench.work import Outcome
from logit_correction.runs.folder import acquire


def cell(row: str, column: str = "1", seed: int = 0, folder: Path = Path("nowhere")) -> Cell:
    return Cell(row, column, seed, {}, folder / row / column / str(seed))


KNOWN = [(cell("ERM"), 10.0), (cell("LC"), 90.0), (cell("LC"), 110.0)]


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(run_queue, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("rows", "slots", "expected"),
    [
        (["ERM", "LC", "ERM", "LC"], 1, 220.0),
        (["ERM", "LC", "ERM", "LC"], 2, 110.0),
        (["ERM", "ERM", "LC"], 3, 100.0),  # more slots do not make a single run faster
        ([], 2, 0.0),
    ],
)
def test_slots_share_what_is_left(rows: list[str], slots: int, expected: float) -> None:
    cells = [cell(row, seed=seed) for seed, row in enumerate(rows)]
    assert RunQueue(cells, KNOWN, slots).seconds_left() == pytest.approx(expected)


def test_what_is_done_of_a_run_no_longer_counts(clock: Clock) -> None:
    given = RunQueue([cell("LC"), cell("ERM")], KNOWN, 1)
    taken = given.take(print)
    assert taken is not None
    clock.now = 30.0
    assert given.seconds_left() == pytest.approx(80.0)
    clock.now = 500.0  # longer than expected
    assert given.seconds_left() == pytest.approx(10.0)
    assert given.end(taken, Outcome("failed")) == 500.0
    assert given.failed == [taken] and given.seconds_left() == pytest.approx(10.0)  # what failed tells nothing


def test_other_processes_share_the_work(tmp_path: Path, clock: Clock) -> None:
    cells = [cell("LC", seed=seed, folder=tmp_path) for seed in range(4)]
    cells[0].folder.mkdir(parents=True)
    given = RunQueue(cells, KNOWN, 1)
    assert given.seconds_left() == pytest.approx(400.0)
    with acquire(cells[0].folder):
        assert given.take(print) is cells[1]
        assert given.seconds_left() == pytest.approx(200.0)


def test_nothing_is_known_before_a_run_has_finished(clock: Clock) -> None:
    given = RunQueue([cell("ERM"), cell("LC")], [], 1)
    taken = given.take(print)
    assert taken is not None and given.seconds_left() is None
    clock.now = 40.0
    given.end(taken, Outcome("done"))
    assert given.seconds_left() == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("of", "expected"),
    [(cell("ERM", "1"), 15.0), (cell("LC", "1"), 99.0), (cell("DFA", "1"), 43.0)],
)
def test_the_nearest_kin_tells(of: Cell, expected: float) -> None:
    known = [(cell("ERM"), 10.0), (cell("ERM"), 20.0), (cell("LC", "2"), 99.0)]
    assert RunQueue([of], known, 1).seconds_left() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "not known yet"),
        (0, "under a minute"),
        (60, "1 min"),
        (3540, "59 min"),
        (3590, "1 h 0 min"),
        (7260, "2 h 1 min"),
    ],
)
def test_times_for_people(seconds: float | None, shown: str) -> None:
    assert span(seconds) == shown
