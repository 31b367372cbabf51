"""Processes that train runs, and Ray."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from logit_correction import InputError
from logit_correction.benchmark import ProcessExecutor, RayExecutor, executors, read
from logit_correction.benchmark.results import OF_THE_MACHINE
from logit_correction.benchmark.run import _job
from logit_correction.benchmark.work import Job, Outcome
from logit_correction.benchmark.worker import Worker

ECHO = """
import json, os, sys, time
from logit_correction.benchmark.worker import jobs
queue = jobs(lambda: open(sys.argv[1], "w").close())
while True:
    job = queue.get()
    if job.get("end"):
        os._exit(job["end"])
    time.sleep(job.get("seconds", 0))
    print(json.dumps({"pid": os.getpid(), **job}), flush=True)
"""


def worker(path: Path) -> Worker:
    return Worker([sys.executable, "-c", ECHO, str(path)], os.environ)


def test_a_worker_answers_job_after_job_and_ends_with_its_pipe(tmp_path: Path) -> None:
    process = worker(tmp_path / "ended")
    first, second = process.ask({"job": "ä"}), process.ask({"job": 2})
    assert first is not None and second is not None
    assert (first["job"], second["job"]) == ("ä", 2) and first["pid"] == second["pid"] != os.getpid()
    assert process.end() == 0 and (tmp_path / "ended").exists()


def test_a_worker_that_ends_without_an_answer(tmp_path: Path) -> None:
    process = worker(tmp_path / "ended")
    assert process.ask({"end": 7}) is None
    assert process.ask({"job": 1}) is None
    assert process.end() == 7
    process = worker(tmp_path / "ended")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(process.ask, {"seconds": 60})
        time.sleep(0.05)
        process.kill()
        assert asked.result(timeout=30) is None
    assert process.end() == -9


@pytest.mark.slow
def test_short_runs_take_turns_in_a_process_and_long_ones_do_not(
    write_grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Worker] = []

    class Counted(Worker):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            started.append(self)

    monkeypatch.setattr(executors, "Worker", Counted)
    cells = list(read(str(write_grid())).cells(tmp_path / "out"))
    jobs = [_job(cell, cell.config()) for cell in cells]
    executor = ProcessExecutor(1)
    assert [executor.run(job) for job in jobs[:2]] == [Outcome("done")] * 2
    assert len(started) == 1
    monkeypatch.setattr(executors, "_LONG_SECONDS", 0.0)
    assert [executor.run(job) for job in jobs[2:]] == [Outcome("done")] * 2
    assert len(started) == 2
    executor.stop()
    assert executor.run(jobs[0]) == Outcome("stopped")
    executor.close()


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"needs Ray: `pip install 'logit-correction\[ray\]'`"):
        RayExecutor(1)


def test_ray_is_imported_only_when_asked_for() -> None:
    ProcessExecutor(1).close()
    assert Job("", "", "") == Job("", "", "", False)
    assert "ray" not in vars(executors)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_ray_trains_a_grid_and_gives_the_same_table(command: Any, write_grid: Any, tmp_path: Path) -> None:
    path = write_grid(seeds=1)
    outcome = command(path, "--out", tmp_path / "ray", "--executor", "ray", "--jobs", "2")
    assert outcome.status == 0, outcome.err
    assert outcome.err.count("done in") == 2
    assert command(path, "--out", tmp_path / "processes").status == 0
    tables = [pd.read_csv(tmp_path / name / "table.csv") for name in ("ray", "processes")]
    pd.testing.assert_frame_equal(*(table.drop(columns=list(OF_THE_MACHINE)) for table in tables))
    assert not list((tmp_path / "ray").rglob("*.log"))
    outcome = command(path, "--out", tmp_path / "more", "--executor", "ray", "--gpus-per-run", "1000")
    assert outcome.status == 2 and "has no room for a run, which takes 1 CPU and 1000 GPUs" in outcome.err
