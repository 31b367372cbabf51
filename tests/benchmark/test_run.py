"""``benchmark``: real grids of tiny runs, stopped, failing and gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from logit_correction import InputError, train
from logit_correction.benchmark import read, results, run
from logit_correction.cli import main

USER_CODE = Path(__file__).parents[1] / "user_code"

GRID = {
    "title": "Two methods",
    "seeds": 2,
    "rows": {"plain": {"method": {"name": "ERM"}}, "corrected": {"method": {"name": "LC", "head_start_epochs": 1}}},
    "columns": {"5 %": {"data": {"minority_ratio": 0.05}}},
    "common": {"data": {"name": "Digits"}, "epochs": 2, "batch_size": 256, "device": "cpu", "threads": 1},
    "paper": {"LC": {"5 %": 91.16}},
}

#: Columns of table.csv that tell of the machine and not of the result.
OF_THE_MACHINE = ["train_seconds", "version", "commit", "machine"]


@dataclass
class Outcome:
    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def user_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(USER_CODE))
    monkeypatch.setenv("PYTHONPATH", str(USER_CODE))


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*words: object) -> Outcome:
        capfd.readouterr()
        status = main(["benchmark", *map(str, words)])
        return Outcome(status, *capfd.readouterr())

    return call


def write(path: Path, **changes: Any) -> Path:
    path.write_text(yaml.safe_dump(GRID | changes, sort_keys=False))
    return path


def mtimes(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.rglob("report.json")}


@pytest.mark.slow
def test_killed_and_called_again_a_grid_has_the_same_table(command: Any, tmp_path: Path) -> None:
    path, out = write(tmp_path / "mine.yaml"), tmp_path / "out"
    words = [sys.executable, "-m", "logit_correction", "benchmark", str(path), "--jobs", "2", "--out", str(out)]
    killed = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not mtimes(out) and killed.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)  # its children too
        killed.wait()
    before = mtimes(out)
    assert before and not (out / "table.csv").exists()
    (next(iter(before)).parent / "report.html").unlink(missing_ok=True)  # as if killed a moment earlier

    outcome = command(path, "--jobs", "2", "--out", out)
    assert outcome.status == 0, outcome.err
    assert "mine: 4 runs, " in outcome.err and "FAILED" not in outcome.err
    assert outcome.out == (out / "table.md").read_text() + "\n"
    after = mtimes(out)
    assert len(after) == 4 and all(after[report] == when for report, when in before.items())
    files = {"config.yaml", "metrics.csv", "report.json", "report.html", "predictions.parquet", "checkpoint.pt"}
    for report in after:
        assert {file.name for file in report.parent.iterdir()} == files

    # An undisturbed series of the same runs, in this process.
    benchmark = read(str(path))
    for cell in benchmark.cells(tmp_path / "direct"):
        train(cell.config(), cell.folder, page=False)
    expected = results(benchmark, tmp_path / "direct").drop(columns=OF_THE_MACHINE)
    table = pd.read_csv(out / "table.csv").drop(columns=OF_THE_MACHINE)
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    assert set(zip(table["row"], table["seed"], table["selection"], strict=True)) == {
        (row, seed, rule) for row in GRID["rows"] for seed in (0, 1) for rule in ("last", "valid_average")
    }

    # Once more: nothing is run, the table is the same.
    text = (out / "table.md").read_text()
    again = command(path, "--out", out)
    assert again.status == 0 and "4 runs, 4 finished before" in again.err
    assert mtimes(out) == after and (out / "table.md").read_text() == text

    # One seed more takes the runs that are there; other options do not.
    assert len(list(read(str(path), 3).cells(out))) == 6
    write(path, common=GRID["common"] | {"epochs": 3})
    outcome = command(path, "--out", out)
    assert outcome.status == 2 and outcome.err.count("error: ") == 1
    assert "epochs = 2, not 3" in outcome.err and str(out) in outcome.err
    assert mtimes(out) == after


@pytest.mark.slow
def test_a_failed_run_is_reported_and_the_others_count(command: Any, tmp_path: Path) -> None:
    rows = {
        "broken": {"method": {"name": "my_parts.Breaking", "at_step": 2}},
        "plain": {"method": {"name": "ERM"}},
    }
    path, out = write(tmp_path / "mine.yaml", rows=rows, seeds=1, paper={}), tmp_path / "out"
    plain = list(read(str(path)).cells(out))[1]
    train(plain.config(), plain.folder)
    outcome = command(path, "--out", out)
    assert outcome.status == 1
    log = out / "broken" / "5" / "seed-0.log"
    assert f"broken, 5 %, seed 0: FAILED, see {log}" in outcome.err
    assert "error: the loss became nan at step 2" in log.read_text()
    table = pd.read_csv(out / "table.csv")
    assert set(table["row"]) == {"plain"}
    assert "| broken |  |" in (out / "table.md").read_text()


def test_a_grid_without_a_finished_run_says_so(tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["logit_correction.benchmark.run"]
    monkeypatch.setattr(module, "_run_cell", lambda cell, config, processes: 1)
    outcome = command(write(tmp_path / "mine.yaml"), "--out", tmp_path / "out")
    assert outcome.status == 1 and "No run is finished." in outcome.out
    assert (tmp_path / "out" / "table.csv").exists()


def test_wrong_options_are_found_before_the_first_run(command: Any, tmp_path: Path) -> None:
    rows = {"good": {"method": "ERM"}, "bad": {"method": {"name": "LC", "Q": 1}}}
    outcome = command(write(tmp_path / "mine.yaml", rows=rows), "--out", tmp_path / "out")
    assert outcome.status == 2 and outcome.out == ""
    assert outcome.err.startswith("error: row 'bad', column '5 %': LC has no option 'Q' (did you mean q?)")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written(command: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "x", Path("/proc/x")):
        outcome = command(write(tmp_path / "mine.yaml"), "--out", out)
        assert outcome.status == 2
        assert outcome.err.startswith(f"error: --out {out} cannot be written"), outcome.err
    assert (tmp_path / "file").read_text() == "mine"


def test_stopping_ends_the_runs_and_starts_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["logit_correction.benchmark.run"]
    ended: list[int] = []

    def one(cell: Any, config: Any, processes: Any) -> int:
        if (cell.row, cell.seed) == ("plain", 0):
            while len(started) < 1:
                time.sleep(0.01)
            return 0
        started.append(cell.row)
        ended.append(processes.run([sys.executable, "-c", "import time; time.sleep(60)"]))
        return ended[-1]

    started: list[str] = []
    monkeypatch.setattr(module, "_run_cell", one)

    def interrupt(line: str) -> None:
        if line.startswith("[1/"):
            raise KeyboardInterrupt

    benchmark = read(str(write(tmp_path / "mine.yaml")))
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(benchmark, tmp_path / "out", 2, interrupt)
    assert time.monotonic() - begun < 30
    assert len(started) <= 2 and all(status in (-signal.SIGTERM, 130) for status in ended)


def test_ctrl_c_and_sigterm_say_that_the_same_command_goes_on(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import logit_correction.benchmark

    def stopped(*_: Any) -> list[Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        raise AssertionError("the signal was not heard")

    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(logit_correction.benchmark, "run", stopped)
    path = write(tmp_path / "my grid.yaml")
    outcome = command(path, "--out", tmp_path / "out")
    assert outcome.status == 130
    again = f"logit-correction benchmark '{path}' --out {tmp_path / 'out'}"
    assert outcome.err == f"stopped; the same command goes on: {again}\n"
    assert signal.getsignal(signal.SIGTERM) == handler


def test_results_leave_out_what_is_not_finished(tmp_path: Path) -> None:
    benchmark = read(str(write(tmp_path / "mine.yaml")))
    assert results(benchmark, tmp_path / "out").empty
    cell = next(benchmark.cells(tmp_path / "out"))
    cell.folder.mkdir(parents=True)
    (cell.folder / "config.yaml").write_text(cell.config().to_yaml())
    assert results(benchmark, tmp_path / "out").empty


def test_an_unfinished_run_of_other_options_is_refused(tmp_path: Path) -> None:
    benchmark = read(str(write(tmp_path / "mine.yaml")))
    cell = next(benchmark.cells(tmp_path / "out"))
    cell.folder.mkdir(parents=True)
    (cell.folder / "config.yaml").write_text(cell.config().to_yaml().replace("epochs: 2", "epochs: 7", 1))
    with pytest.raises(InputError, match="epochs = 7, not 2"):
        run(benchmark, tmp_path / "out", 1, lambda line: None)
