"""Several processes at one grid: they share the work, and none of them waits for the dead."""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from logit_correction import train
from logit_correction.bench import read, results
from logit_correction.bench.results import OF_THE_MACHINE
from logit_correction.bench.run_queue import RunQueue
from logit_correction.bench.work import Job, Outcome, perform
from logit_correction.runs.folder import acquire, owner_of

KILLS = 2


def table_of(out: Path) -> pd.DataFrame:
    return pd.read_csv(out / "table.csv").drop(columns=list(OF_THE_MACHINE))


def contents(out: Path) -> set[tuple[str, int]]:
    """All files with their sizes: what changes where somebody works."""
    found = set()
    for path in out.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found.add((str(path), path.stat().st_size))
    return found


@pytest.mark.slow
@pytest.mark.timeout(1200)  # every start pays for its imports, on a busy machine dearly
def test_killed_again_and_again_at_random_moments_smoke_has_the_same_table(start: Any, tmp_path: Path) -> None:
    benchmark, whole = read("smoke"), tmp_path / "whole"
    for cell in benchmark.cells(whole):  # an undisturbed series, in this process
        train(cell.config(), cell.folder, page=False)
    results(benchmark, whole).to_csv(whole / "table.csv", index=False)
    chance, kills, unfinished, number = random.Random(20), 0, 0, 0
    while True:
        out = tmp_path / f"killed-{number}"
        process = start("smoke", "--out", out)
        before, moment = contents(out), None
        while process.poll() is None:
            # The moment counts from the first sign of work, not from the imports that come before it.
            if moment is None and contents(out) != before:
                moment = time.monotonic() + chance.uniform(0.0, 1.5)
            if moment is not None and kills < KILLS and time.monotonic() >= moment:
                process.kill()
            time.sleep(0.01)
        if process.wait() == 0:
            pd.testing.assert_frame_equal(table_of(out), table_of(whole))
            assert not list(out.rglob(".*")) and not list(out.rglob("*.log"))
            if kills == KILLS:
                break
            number += 1  # it was done before it could be killed: another folder
        else:
            kills += 1
            unfinished += len(list(out.rglob("report.json"))) < 6
    assert unfinished


@pytest.mark.slow
def test_two_processes_share_a_grid(start: Any, write_grid: Any, tmp_path: Path) -> None:
    path, out = write_grid(), tmp_path / "out"
    both = [start(path, "--out", out) for _ in range(2)]
    statuses = [process.wait(timeout=180) for process in both]
    told = [process.told for process in both]
    assert statuses == [0, 0], told
    for cell in read(str(path)).cells(out):
        place = f"{cell.row}, {cell.column}, seed {cell.seed}: done in"
        assert sum(text.count(place) for text in told) == 1, told  # no run was lost, none was run twice
    assert len(pd.read_csv(out / "table.csv")) == 8  # four runs, each with two selection rules


@pytest.mark.slow
def test_the_children_of_a_killed_process_end_and_free_their_folders(
    start: Any, write_grid: Any, tmp_path: Path
) -> None:
    common = {"data": {"name": "Digits"}, "epochs": 2000, "batch_size": 64, "device": "cpu", "threads": 1}
    path, out = write_grid(common=common), tmp_path / "out"
    process = start(path, "--jobs", "2", "--out", out)
    cells = [cell.folder for cell in read(str(path)).cells(out)][:2]
    deadline = time.monotonic() + 60
    while not all((folder / "config.yaml").is_file() for folder in cells) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert all(owner_of(folder) for folder in cells)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while any(owner_of(folder) for folder in cells):
        assert time.monotonic() < deadline, "an orphan goes on"
        time.sleep(0.05)


def test_a_run_that_has_just_been_ended_elsewhere_is_not_told_of_again(write_grid: Any, tmp_path: Path) -> None:
    cell = next(read(str(write_grid())).cells(tmp_path / "out"))
    train(cell.config(), cell.folder)
    before = contents(cell.folder)
    assert perform(Job(cell.config(), cell.folder)).state == "held" and contents(cell.folder) == before


def board(write_grid: Any, out: Path) -> tuple[RunQueue, list[Any]]:
    cells = list(read(str(write_grid())).cells(out))
    return RunQueue(cells, [], 1), cells


def test_a_run_of_another_process_is_passed_over_and_waited_for(
    write_grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logit_correction.bench.run_queue.POLL_SECONDS", 0.01)
    given, cells = board(write_grid, tmp_path / "out")
    for cell in cells:
        cell.folder.mkdir(parents=True)
    told: list[str] = []
    with acquire(cells[0].folder):
        for cell in cells[1:]:
            taken = given.take(told.append)
            assert taken is cell
            given.end(cell, Outcome("done"))
        assert [cell for cell, _ in given.elsewhere()] == [cells[0]]
        assert (given.ended, given.total) == (3, 4) and told == []

        def tell(line: str) -> None:
            told.append(line)
            given.stop()

        assert given.take(tell) is None
        assert told[0].startswith("1 run is running elsewhere (process ") and "waited for" in told[0]
    # Its holder has died: the run is taken over.
    again, _ = board(write_grid, tmp_path / "out")
    assert (taken := again.take(told.append)) is not None and taken.folder == cells[0].folder


def test_a_run_that_another_process_finished_counts_as_ended(write_grid: Any, tmp_path: Path) -> None:
    given, cells = board(write_grid, tmp_path / "out")
    train(cells[0].config(), cells[0].folder)
    assert given.take(print) is cells[1]
    assert (given.ended, given.running()) == (1, [cells[1]])
    given.end(cells[1], Outcome("held"))  # somebody was faster by a moment
    assert [given.take(print) for _ in range(3)] == [cells[2], cells[3], cells[1]]
    assert given.take(print) is None
