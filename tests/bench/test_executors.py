"""Processes that train runs, and Ray."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from logit_correction import InputError
from logit_correction.bench import ProcessExecutor, RayExecutor, executors, read
from logit_correction.bench.results import OF_THE_MACHINE
from logit_correction.bench.slurm import Attempt, SlurmExecutor
from logit_correction.bench.work import Job, Outcome


def jobs(write_grid: Any, tmp_path: Path, **changes: Any) -> list[Job]:
    cells = list(read(str(write_grid(**changes))).cells(tmp_path / "out"))
    for cell in cells:
        cell.folder.parent.mkdir(parents=True, exist_ok=True)
    return [Job(cell.config(), cell.folder) for cell in cells]


@pytest.mark.slow
def test_short_runs_take_turns_in_a_process_and_long_ones_do_not(
    write_grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"telling": {"method": {"name": "my_parts.Telling"}}}
    given = jobs(write_grid, tmp_path, rows=rows, paper={}, seeds=4)
    monkeypatch.setenv("TELL", str(tmp_path / "pids"))
    monkeypatch.setattr(executors, "_LONG_SECONDS", 1000.0)  # whatever else the machine does
    executor = ProcessExecutor(1)
    assert [executor.run(job) for job in given[:2]] == [Outcome("done")] * 2
    monkeypatch.setattr(executors, "_LONG_SECONDS", 0.0)
    assert [executor.run(job) for job in given[2:]] == [Outcome("done")] * 2
    first, second, third, fourth = (tmp_path / "pids").read_text().split()
    assert first == second == third != fourth and str(os.getpid()) not in (first, fourth)
    executor.stop()
    assert executor.run(given[0]) == Outcome("stopped")
    executor.close()


@pytest.mark.slow
def test_a_killed_run_does_not_touch_the_one_beside_it(
    write_grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"killed": {"method": {"name": "my_parts.Stopped"}}, "plain": {"method": {"name": "ERM"}}}
    killed, plain = jobs(write_grid, tmp_path, rows=rows, paper={}, seeds=1)
    monkeypatch.setenv("STOP", "SIGKILL:3")
    executor = ProcessExecutor(2)
    executor.warm(2)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(executor.run, (killed, plain))
    executor.close()
    assert first.state == "failed" and "SIGKILL" in first.message and first.message in killed.log.read_text()
    assert second == Outcome("done") and not plain.log.exists()


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"needs ray: `pip install 'logit-correction\[ray\]'`"):
        RayExecutor(1)


def test_ray_is_imported_only_when_asked_for() -> None:
    ProcessExecutor(1).close()
    assert "ray" not in sys.modules and "ray" not in vars(executors)


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


def test_without_submitit_or_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--gpus-per-run is 0\.5, but SLURM hands out whole GPUs"):
        SlurmExecutor(1, tmp_path, 0.5)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(InputError, match=r"--executor slurm needs submitit: `pip install 'logit-correction\[slurm\]'`"):
        SlurmExecutor(1, tmp_path)


needs_submitit = pytest.mark.skipif(find_spec("submitit") is None, reason="submitit is not installed")


@needs_submitit
def test_where_no_jobs_are_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"^--executor slurm: .*start the grid on a machine from which jobs"):
        SlurmExecutor(1, tmp_path)


@pytest.mark.slow
@needs_submitit
def test_jobs_of_submitit_train_a_grid_stop_and_are_told_of(write_grid: Any, tmp_path: Path) -> None:
    rows = {"plain": {"method": {"name": "ERM"}}, "killed": {"method": {"name": "my_parts.Stopped"}}}
    plain, killed = jobs(write_grid, tmp_path, rows=rows, paper={}, seeds=1)
    executor = SlurmExecutor(2, tmp_path / "logs", cluster="local")
    assert executor.run(plain) == Outcome("done") and (plain.folder / "report.json").is_file()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STOP", "SIGKILL:3")
        outcome = executor.run(killed)
    assert outcome.state == "failed" and "its process failed" in outcome.message and killed.log.is_file()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STOP", "SIGTERM:3")
        assert executor.run(killed) == Outcome("stopped")
    assert executor.run(killed) == Outcome("done")  # from where it was
    executor.stop()
    assert executor.run(plain) == Outcome("stopped")
    executor.close()


@needs_submitit
def test_a_job_that_slurm_ends_is_put_in_line_again(write_grid: Any, tmp_path: Path) -> None:
    (job,) = jobs(write_grid, tmp_path, rows={"plain": {"method": {"name": "ERM"}}}, paper={}, seeds=1)
    again = Attempt().checkpoint(job)
    assert isinstance(again.function, Attempt) and again.args == (job,)
