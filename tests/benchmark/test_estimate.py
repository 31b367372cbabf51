"""The time left: cells that differ in cost, several at a time, and those of other processes."""

from __future__ import annotations

import pytest

from logit_correction.benchmark.estimate import expected_seconds, seconds_left, span

ERM, LC = ("ERM", "1"), ("LC", "1")
KNOWN = {ERM: [10.0], LC: [100.0]}


@pytest.mark.parametrize(
    ("waiting", "running", "slots", "expected"),
    [
        ([ERM, LC, ERM, LC], [], 1, 220.0),
        ([ERM, LC, ERM, LC], [], 2, 120.0),  # the second LC begins after both ERM
        ([ERM, ERM, LC], [], 3, 100.0),  # more slots do not make a single run faster
        ([ERM], [(LC, 30.0)], 2, 70.0),
        ([ERM], [(LC, 30.0)], 1, 80.0),
        ([ERM], [(LC, 500.0)], 1, 10.0),  # longer under way than expected
        ([], [], 2, 0.0),
    ],
)
def test_slots_take_one_run_after_the_other(
    waiting: list[tuple[str, str]], running: list[tuple[tuple[str, str], float]], slots: int, expected: float
) -> None:
    assert seconds_left(waiting, running, KNOWN, slots) == pytest.approx(expected)


def test_other_processes_take_from_those_waiting_too() -> None:
    assert seconds_left([LC, LC], [(LC, 0.0)], KNOWN, 1, [(LC, 0.0)]) == pytest.approx(200.0)
    assert seconds_left([LC, LC], [(LC, 0.0)], KNOWN, 1) == pytest.approx(300.0)


def test_nothing_is_known_before_a_run_has_finished() -> None:
    assert seconds_left([ERM], [(LC, 3.0)], {}, 1) is None and span(None) == "not known yet"


def test_the_nearest_kin_tells() -> None:
    known = {("ERM", "1"): [10.0, 20.0], ("LC", "2"): [99.0]}
    assert expected_seconds(("ERM", "1"), known) == 15.0
    assert expected_seconds(("LC", "1"), known) == 99.0
    assert expected_seconds(("DFA", "1"), known) == pytest.approx(43.0)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "under a minute"), (60, "1 min"), (3540, "59 min"), (3590, "1 h 0 min"), (7260, "2 h 1 min")],
)
def test_times_for_people(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
