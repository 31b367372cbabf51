"""``benchmark``: real grids of tiny runs, stopped, failing and gone on with."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from logit_correction import InputError, train
from logit_correction.bench import read, results, run
from logit_correction.bench.results import OF_THE_MACHINE
from logit_correction.bench.work import Job, Outcome


class Told:
    """An executor that trains nothing and ends every run as it was told to."""

    def __init__(self, state: str = "failed", slots: int = 1) -> None:
        self.slots, self.state, self.stopped, self.closed = slots, state, False, False
        self.jobs: list[Job] = []

    def warm(self, number: int) -> None:
        pass

    def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        return Outcome(self.state, "as told")  # type: ignore[arg-type]

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


def mtimes(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.rglob("report.json")}


@pytest.mark.slow
def test_killed_and_called_again_a_grid_has_the_same_table(
    command: Any, write_grid: Any, start: Any, tmp_path: Path, run_files: set[str]
) -> None:
    path, out = write_grid(), tmp_path / "out"
    killed = start(path, "--jobs", "2", "--out", out)
    deadline = time.monotonic() + 120
    while not mtimes(out) and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    killed.kill()  # and not its children, which have to notice
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
    for report in after:
        assert {file.name for file in report.parent.iterdir()} == run_files
    written = {"table.csv", "table.md", "table.tex", "benchmark.yaml", "bars.svg", "bars.png"}
    assert {file.name for file in out.iterdir() if file.is_file()} == written
    assert (out / "benchmark.yaml").read_text() == path.read_text()

    # An undisturbed series of the same runs, in this process.
    benchmark = read(str(path))
    for cell in benchmark.cells(tmp_path / "direct"):
        train(cell.config(), cell.folder, page=False)
    expected = results(benchmark, tmp_path / "direct").drop(columns=list(OF_THE_MACHINE))
    table = pd.read_csv(out / "table.csv", keep_default_na=True).drop(columns=list(OF_THE_MACHINE))
    expected["attributes_read"] = expected["attributes_read"].replace("", None)
    looked = ["verdict", "view"]
    assert expected[looked].isna().all(axis=None)  # neither method looks for a shortcut
    expected[looked] = float("nan")
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    assert set(zip(table["row"], table["seed"], table["selection"], strict=True)) == {
        (row, seed, rule) for row in benchmark.rows for seed in (0, 1) for rule in ("last", "valid_average")
    }

    # Once more: nothing is run, the table and the figure are the same.
    texts = [(out / name).read_bytes() for name in sorted(written)]
    again = command(path, "--out", out)
    assert again.status == 0 and "4 runs, 4 finished before" in again.err
    assert mtimes(out) == after and [(out / name).read_bytes() for name in sorted(written)] == texts

    # One seed more takes the runs that are there; other options do not.
    assert len(list(read(str(path), 3).cells(out))) == 6
    write_grid(common=benchmark.common | {"epochs": 3})
    outcome = command(path, "--out", out)
    assert outcome.status == 2 and outcome.err.count("error: ") == 1
    assert "epochs = 2, not 3" in outcome.err and str(out) in outcome.err
    assert mtimes(out) == after


@pytest.mark.slow
def test_a_failed_run_is_reported_and_the_others_count(command: Any, write_grid: Any, tmp_path: Path) -> None:
    rows = {
        "broken": {"method": {"name": "my_parts.Breaking", "at_step": 2}},
        "killed": {"method": {"name": "my_parts.Stopped", "attributes": "Online"}},
        "plain": {"method": {"name": "ERM"}},
    }
    path, out = write_grid(rows=rows, seeds=1, paper={}), tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STOP", "SIGKILL:3")
        outcome = command(path, "--out", out)
    assert outcome.status == 1
    log = out / "broken" / "5" / "seed-0.log"
    assert f"broken, 5 %, seed 0: FAILED, see {log}" in outcome.err
    assert "error: the loss became nan at step 2" in log.read_text()
    killed = out / "killed" / "5" / "seed-0.log"
    assert f"killed, 5 %, seed 0: FAILED, see {killed}" in outcome.err
    assert "its process failed: " in killed.read_text() and "SIGKILL" in killed.read_text()
    assert "plain, 5 %, seed 0: done in" in outcome.err
    table = pd.read_csv(out / "table.csv")
    assert set(table["row"]) == {"plain"}
    assert "| broken |  |  |" in (out / "table.md").read_text()
    # The run whose process was killed goes on with the same command, and its log goes.
    again = command(path, "--out", out)
    assert again.status == 1 and "killed, 5 %, seed 0: done in" in again.err
    assert not killed.exists() and "3 runs, 1 finished before" in again.err


def test_a_grid_without_a_finished_run_says_so(
    tmp_path: Path, command: Any, write_grid: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = Told()
    monkeypatch.setattr("logit_correction.bench.ProcessExecutor", lambda jobs: executor)
    outcome = command(write_grid(), "--out", tmp_path / "out")
    assert outcome.status == 1 and "No run is finished." in outcome.out
    assert outcome.err.count("FAILED: as told") == 4 == len(executor.jobs)
    assert (tmp_path / "out" / "table.csv").exists() and executor.closed


def test_wrong_options_are_found_before_the_first_run(command: Any, write_grid: Any, tmp_path: Path) -> None:
    rows = {"good": {"method": "ERM"}, "bad": {"method": {"name": "LC", "Strength": 1}}}
    outcome = command(write_grid(rows=rows, paper={}), "--out", tmp_path / "out")
    assert outcome.status == 2 and outcome.out == ""
    assert outcome.err.startswith(
        "error: row 'bad', column '5 %': there is no option --method.Strength (did you mean --method.strength?)"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--jobs", "0"), "--jobs is 0, but must be at least 1"),
        (("--seeds", "-1"), "--seeds is -1"),
        (("--gpus-per-run", "-1", "--executor", "ray"), "--gpus-per-run is -1.0"),
        (("--gpus-per-run", "1"), "--gpus-per-run is for --executor ray"),
        (("--executor", "cloud"), "must be one of"),
        (("--also", "missing"), "--also missing is not a folder"),
    ],
)
def test_wrong_arguments(words: tuple[str, ...], expected: str, command: Any, write_grid: Any, tmp_path: Path) -> None:
    outcome = command(write_grid(), "--out", tmp_path / "out", *words)
    assert outcome.status == 2 and outcome.err.startswith("error: ") and expected in outcome.err
    assert "Traceback" not in outcome.err


def test_a_folder_that_cannot_be_written(command: Any, write_grid: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "x", Path("/proc/x")):
        outcome = command(write_grid(), "--out", out)
        assert outcome.status == 2
        assert outcome.err.startswith(f"error: --out {out} cannot be written"), outcome.err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
def test_sigterm_lets_the_run_under_way_save_and_begins_no_other(write_grid: Any, start: Any, tmp_path: Path) -> None:
    from logit_correction.training import checkpoint

    common = {"data": {"name": "Digits"}, "epochs": 2000, "batch_size": 64, "device": "cpu", "threads": 1}
    path, out = write_grid(common=common), tmp_path / "out"
    process = start(path, "--out", out)
    folder = out / "plain" / "5" / "seed-0"
    log = folder.parent / "seed-0.log"
    while not (log.is_file() and "step" in log.read_text()):  # on a busy machine it may take minutes
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    assert {file.name for file in folder.iterdir()} == {"config.yaml", "resume.pt"}
    assert checkpoint.load(folder / "resume.pt")[0].total_steps > 0
    assert not (out / "corrected" / "5" / "seed-0").exists()


def test_an_interrupt_stops_the_executor(write_grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Told()

    class Slow(Told):
        def run(self, job: Job) -> Outcome:
            executor.jobs.append(job)
            os.kill(os.getpid(), signal.SIGINT)
            while not executor.stopped:
                time.sleep(0.01)
            return Outcome("stopped")

    monkeypatch.setattr(executor, "run", Slow().run)
    with pytest.raises(KeyboardInterrupt):
        run(read(str(write_grid())), tmp_path / "out", executor)
    assert executor.stopped and executor.closed and len(executor.jobs) == 1


def test_ctrl_c_and_sigterm_say_that_the_same_command_goes_on(
    command: Any, write_grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import logit_correction.bench

    def stopped(*_: Any) -> list[Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        raise AssertionError("the signal was not heard")

    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(logit_correction.bench, "run", stopped)
    path = write_grid("my grid.yaml")
    outcome = command(path, "--out", tmp_path / "out")
    assert outcome.status == 130
    again = f"logit-correction benchmark '{path}' --out {tmp_path / 'out'}"
    assert outcome.err == f"stopped; the same command goes on: {again}\n"
    assert signal.getsignal(signal.SIGTERM) == handler


def test_results_leave_out_what_is_not_finished(tmp_path: Path, write_grid: Any) -> None:
    benchmark = read(str(write_grid()))
    assert results(benchmark, tmp_path / "out").empty
    cell = next(benchmark.cells(tmp_path / "out"))
    cell.folder.mkdir(parents=True)
    (cell.folder / "config.yaml").write_text(cell.config().to_yaml())
    assert results(benchmark, tmp_path / "out").empty


def test_an_unfinished_run_of_other_options_is_refused(tmp_path: Path, write_grid: Any) -> None:
    benchmark = read(str(write_grid()))
    cell = next(benchmark.cells(tmp_path / "out"))
    cell.folder.mkdir(parents=True)
    (cell.folder / "config.yaml").write_text(cell.config().to_yaml().replace("epochs: 2", "epochs: 7", 1))
    executor = Told()
    with pytest.raises(InputError, match="epochs = 7, not 2"):
        run(benchmark, tmp_path / "out", executor)
    assert executor.jobs == [] and executor.closed
