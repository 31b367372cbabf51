"""``benchmark``: real grids of tiny runs, killed, stopped, shared, failing and gone on with."""

from __future__ import annotations

import random
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from logit_correction.checksums import CHECKSUMS_FILE
from logit_correction.runs.folder import FolderHeld, lock_folder
from logit_correction.runs.train import train
from logit_correction_lab.comparison import read_benchmark_predictions
from logit_correction_lab.grid import Benchmark, read_grid
from logit_correction_lab.monitor import SELECTIONS
from logit_correction_lab.results import MACHINE_COLUMNS, build_history_table, build_results_table
from logit_correction_lab.tables import write_results
from tests.page_reading import RunFigures, check_figures

from .conftest import GRID

ENDLESS = {"data": {"name": "Digits"}, "epochs": 20_000, "batch_size": 64, "device": "cpu", "threads": 1}


NOTE = "Attributes read: the splits whose attributes training or selection used. Columns named paper hold its figures."


def read_table(out: Path) -> pd.DataFrame:
    return pd.read_csv(out / "table.csv").drop(columns=list(MACHINE_COLUMNS))


def train_without_interruption(grid: Benchmark, out: Path) -> pd.DataFrame:
    """The table of an undisturbed series of the same runs."""
    for cell in grid.make_cells(out):
        train(cell.build_config(), cell.folder, page=False, after_epoch=cell.build_monitor())
    build_results_table(grid, out).to_csv(out / "table.csv", index=False)
    return read_table(out)


def read_report_times(out: Path) -> dict[Path, int]:
    """When the reports were written."""
    return {path: path.stat().st_mtime_ns for path in out.rglob("report.json")}


def compute_paired_interval(first: RunFigures, second: RunFigures) -> tuple[float, float]:
    """The difference of two runs on the same test rows in points, and half of its 90 % interval, group by group."""
    rows = first.rows.assign(difference=first.rows["right"].astype(float) - second.rows["right"])
    groups = rows.groupby(["label", "attribute"])["difference"]
    size = groups.size()
    errors = groups.var(ddof=0).fillna(0) / size + 1 / size**2
    return 100 * float(groups.mean().mean()), 1.6449 * 100 * float(errors.sum()) ** 0.5 / len(size)


def check_page(out: Path) -> None:
    """Compute each figure of the page anew, by the predictions and ``metrics.csv`` of the two runs."""
    runs = {row: RunFigures(out / row / "5" / "seed-0") for row in ("plain", "corrected")}
    last = {row: 100 * run.compute_accuracy_by("label", "attribute").mean() for row, run in runs.items()}
    environment = runs["plain"].report["environment"]
    machine = f"Machine: {environment['machine']}; commit: {environment['commit'] or 'unknown'}"
    expected = [(f"{machine}; version {environment['version']}.", [])]
    gap, margin = compute_paired_interval(runs["corrected"], runs["plain"])
    better = max(last, key=last.__getitem__)
    expected.append((f"{better} has the highest" if abs(gap) > margin else "No row has a higher", [1, 1]))
    other = min(last, key=last.__getitem__)
    gap = last[other] - last[better]
    heading = "Difference from the best row of each column in points"
    expected += [(heading, [90]), (heading, [90, 1]), (heading, [90, 1, gap, gap - margin, gap + margin])]
    for row, paper in (("plain", [91.16, 0.97]), ("corrected", [])):
        by_epoch = pd.read_csv(out / row / "5" / "seed-0" / "metrics.csv").groupby("epoch").last()
        best = by_epoch["valid_average"].iloc[::-1].idxmax()  # of equal ones the latest
        best_accuracy = 100 * by_epoch["test_group_balanced"][best]
        expected += [(f"last). {NOTE}: {row} | none |", [last[row], *paper])]
        expected += [(f"valid_average). {NOTE}: {row} | none |", [best_accuracy, *paper])]
        expected += [
            (f"selection uses them. {NOTE}: {row} | test |", [100 * by_epoch["test_group_balanced"].max(), *paper])
        ]
    check_figures(out / "report.html", expected)
    drawn = re.findall(r">(\d+\.\d)<", (out / "bars.svg").read_text())
    assert drawn == [f"{mean:.1f}" for mean in last.values()]


def wait_for(sign: Any, process: Any) -> None:
    while not sign():
        assert process.poll() is None, process.output
        time.sleep(0.02)


def test_benchmark_trains_each_run_once_and_writes_its_results(
    run_command: Any, write_grid: Any, tmp_path: Path, run_files: set[str]
) -> None:
    common = {**GRID["common"], "watch": ["test"]}
    path = write_grid(seeds=1, common=common)
    out = tmp_path / "out"
    outcome = run_command("benchmark", path, "--out", out)
    assert outcome.status == 0 and "mine: 2 runs, 0 finished before" in outcome.err, outcome.err
    assert outcome.err.count("done in") == 2 and f"page: {out / 'report.html'}" in outcome.out
    assert "corrected" in outcome.out and "| corrected" not in outcome.out  # a table, not Markdown
    for report in read_report_times(out):
        assert {file.name for file in report.parent.iterdir()} - {CHECKSUMS_FILE} == run_files - {CHECKSUMS_FILE} | {
            SELECTIONS
        }
    written = {
        "report.html",
        "table.csv",
        "table.md",
        "benchmark.yaml",
        "bars.svg",
        "predictions.parquet",
        "history.csv",
    }
    assert {file.name for file in out.iterdir() if file.is_file()} == written
    assert (out / "benchmark.yaml").read_text() == path.read_text() and not list(out.rglob("*.log"))
    watched = build_history_table(read_grid(str(path)), out)
    epochs = zip(watched["row"], watched["epoch"], strict=True)
    assert sorted(epochs) == [("corrected", 1), ("corrected", 2), ("plain", 1), ("plain", 2)]
    ends = watched[watched["epoch"] == 2].set_index("row")["test_group_balanced"]
    last = read_table(out).query("selection == 'last'").set_index("row")["group_balanced"]
    assert ends.to_dict() == pytest.approx(last.to_dict())
    pd.testing.assert_frame_equal(pd.read_csv(out / "history.csv"), watched, check_dtype=False, atol=1e-4)
    check_page(out)
    before = read_report_times(out)
    content = {name: (out / name).read_bytes() for name in written}
    second_run = run_command("benchmark", path, "--out", out)
    assert second_run.status == 0 and "2 runs, 2 finished before" in second_run.err
    assert read_report_times(out) == before and {name: (out / name).read_bytes() for name in written} == content
    table = read_table(out)
    lost_folder, kept_folder = sorted(before)
    assert {"row", "column", "seed", "selection", "average", "group_balanced", "worst_group"} <= set(table)
    shutil.rmtree(lost_folder.parent)  # as if it had been killed before that run
    assert (
        run_command("benchmark", path, "--seeds", 1, "--out", out).status == 0
        and read_report_times(out)[kept_folder] == before[kept_folder]
    )
    pd.testing.assert_frame_equal(read_table(out), table)
    before = read_report_times(out)
    write_grid(seeds=1, common={**ENDLESS, "epochs": 3, "batch_size": 256})
    outcome = run_command("benchmark", path, "--out", out)
    assert outcome.status == 2 and "epochs = 2, not 3" in outcome.err and read_report_times(out) == before


@pytest.mark.slow
def test_a_grid_killed_at_random_moments_has_the_same_table(start: Any, write_grid: Any, tmp_path: Path) -> None:
    chance = random.Random(22)
    out = tmp_path / "out"
    grid = write_grid(paper={})
    for _ in range(2):
        process = start(grid, "--jobs", 2, "--out", out)
        times_after = read_report_times(out)
        # What a killed one had begun may be all that was left, so that this one ends before the check.
        while (
            process.poll() is None and len(read_report_times(out)) == len(times_after) and not list(out.rglob(".lock"))
        ):
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 1.0))
        process.kill()  # and not its children, which have to notice
        process.wait()
    times_before = read_report_times(out)
    process = start(grid, "--jobs", 2, "--out", out)
    assert process.wait() == 0, process.output
    assert all(read_report_times(out)[path] == when for path, when in times_before.items())
    pd.testing.assert_frame_equal(read_table(out), train_without_interruption(read_grid(str(grid)), tmp_path / "whole"))
    assert {path.name for path in out.rglob(".*")} == {CHECKSUMS_FILE} and not list(out.rglob("*.log"))


@pytest.mark.slow
def test_two_processes_share_a_grid_and_continue_after_one_is_killed(
    start: Any, write_grid: Any, tmp_path: Path
) -> None:
    path = write_grid()
    out = tmp_path / "out"
    processes = [start(path, "--out", out) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0], [process.output for process in processes]
    for cell in read_grid(str(path)).make_cells(out):  # no run was lost, none was run twice
        assert sum(process.output.count(f"{cell}: done in") for process in processes) == 1
    path = write_grid("endless.yaml", common=ENDLESS)
    out = tmp_path / "endless"
    process = start(path, "--jobs", 2, "--out", out)
    folders = [cell.folder for cell in read_grid(str(path)).make_cells(out)][:2]
    wait_for(lambda: all((folder / "config.yaml").is_file() for folder in folders), process)
    process.kill()
    process.wait()
    for folder in folders:
        while True:  # until the orphans have noticed; one that goes on is a test that does not end
            try:
                with lock_folder(folder):
                    break
            except FolderHeld:
                time.sleep(0.02)


@pytest.mark.slow
def test_sigterm_saves_the_run_under_way_and_starts_no_other(write_grid: Any, start: Any, tmp_path: Path) -> None:
    path = write_grid(common=ENDLESS)
    out = tmp_path / "out"
    process = start(path, "--out", out)
    folder = out / "plain" / "5" / "seed-0"
    log = folder.parent / "seed-0.log"
    wait_for(lambda: log.is_file() and "step" in log.read_text(), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    assert f"stopped; continue with: logit-correction benchmark {path} --out {out}" in process.output
    assert {file.name for file in folder.iterdir()} - {SELECTIONS} == {"config.yaml", "resume.pt"}
    assert not (out / "corrected" / "5" / "seed-0").exists() and (out / "table.md").is_file()


@pytest.mark.slow
def test_failed_and_killed_runs_are_reported_and_the_others_finish(
    run_command: Any, write_grid: Any, tmp_path: Path
) -> None:
    rows = {
        "plain": {"method": {"name": "ERM"}},
        "broken": {"method": {"name": "my_parts.Breaking", "at_step": 2}},
        "killed": {"method": {"name": "my_parts.Stopped", "attributes": "Online"}},
    }
    path = write_grid(rows=rows, seeds=1, paper={})
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STOP", "SIGKILL:3")
        outcome = run_command("benchmark", path, "--jobs", 2, "--out", out)
    assert outcome.status == 1
    broken, killed = (out / row / "5" / "seed-0.log" for row in ("broken", "killed"))
    assert f"killed, 5 %, seed 0: FAILED, see {killed}" in outcome.err
    assert "error: its process was killed" in killed.read_text()
    second_run = run_command("benchmark", path, "--out", out)
    assert second_run.status == 1 and f"broken, 5 %, seed 0: FAILED, see {broken}" in second_run.err
    assert "error: the loss became nan at step 2" in broken.read_text()
    assert "killed, 5 %, seed 0: done in" in second_run.err and not killed.exists()
    assert set(pd.read_csv(out / "table.csv")["row"]) == {"plain", "killed"}
    assert "| broken |  |  |" in (out / "table.md").read_text()


def test_an_added_row_joins_a_finished_grid(run_command: Any, write_grid: Any, tmp_path: Path) -> None:
    path = write_grid(seeds=1)
    out = tmp_path / "out"
    mine = tmp_path / "row.yaml"
    assert run_command("benchmark", path, "--out", out).status == 0
    before = read_report_times(out)
    mine.write_text("mine, wild:\n  method: {name: my_parts.Stopped, attributes: Online}\n")
    outcome = run_command("benchmark", path, "--row", mine, "--reference", "mine, wild", "--out", out)
    assert outcome.status == 0 and "3 runs, 2 finished before" in outcome.err, outcome.err
    after = read_report_times(out)
    assert before.items() <= after.items() and out / "mine-wild" / "5" / "seed-0" / "report.json" in after
    for name in ("table.csv", "table.md", "report.html", "bars.svg", "benchmark.yaml"):
        assert "mine, wild" in (out / name).read_text(), name
    assert "Difference from mine, wild" in (out / "table.md").read_text()
    assert set(read_benchmark_predictions(out)["row"]) == {"plain", "corrected", "mine, wild"}
    content = {name: (out / name).read_bytes() for name in ("table.csv", "table.md", "benchmark.yaml")}
    second_run = run_command("benchmark", out / "benchmark.yaml", "--out", out)  # the folder says all that it takes
    assert second_run.status == 0 and "3 runs, 3 finished before" in second_run.err and read_report_times(out) == after
    assert {name: (out / name).read_bytes() for name in content} == content
    mine.write_text("mine, wild: {method: {name: my_parts.Stopped}, epochs: 3}")
    outcome = run_command("benchmark", path, "--row", mine, "--out", out)
    assert outcome.status == 2 and "hold" in outcome.err and read_report_times(out) == after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plain: {method: LC}", "has a row 'plain' already"),
        ("Plain!: {method: LC}", "share the folder 'plain'"),
        ("mine: {method: LCC}", "row 'mine', column '5 %'"),
        ("rows: {mine: {method: LC}}\ncells: {mine: {6 %: {epochs: 1}}}", "column of cells '6 %'"),
        ("rows: {mine: {method: LC}}\ncells: {plain: {5 %: {epochs: 1}}}", "row of cells 'plain'"),
        ("rows: {mine: {method: LC}}\nseeds: 3", "key 'seeds' is unknown"),
        ("- mine", "must hold rows of a grid"),
        ("mine: LC", "'mine' is 'LC': give options"),
    ],
)
def test_a_wrong_added_row_is_reported_before_the_first_run(
    text: str, message: str, run_command: Any, write_grid: Any, tmp_path: Path
) -> None:
    (tmp_path / "row.yaml").write_text(text)
    outcome = run_command("benchmark", write_grid(), "--row", tmp_path / "row.yaml", "--out", tmp_path / "out")
    assert outcome.status == 2 and message in outcome.err and not (tmp_path / "out").exists(), outcome.err


def test_the_best_epoch_on_test_has_its_own_table_and_changes_no_other(tmp_path: Path, write_grid: Any) -> None:
    common = {**GRID["common"], "watch": ["test"]}
    grid = read_grid(str(write_grid(seeds=1, common=common, metric="worst_group", column_metrics={"5 %": "average"})))
    out = tmp_path / "out"
    plain, corrected = grid.make_cells(out)
    train(plain.build_config(), plain.folder, page=False, after_epoch=plain.build_monitor())
    metrics = pd.read_csv(plain.folder / "metrics.csv")
    by_epoch = metrics.dropna(subset=["test_average"]).set_index("epoch")
    table = build_results_table(grid, out).set_index("selection")
    best = table.loc["best_test"]
    assert list(table.index) == ["last", "valid_average", "best_test"]
    assert best["average"] == by_epoch["test_average"].max() and best["attributes_read"] == ""
    assert best["selected_epoch"] == by_epoch["test_average"].iloc[::-1].idxmax()
    assert best["worst_group"] == by_epoch["test_worst_group"][best["selected_epoch"]]
    assert best["count"] == table["count"]["last"] and pd.isna(best["ece"])
    write_results(grid, out)
    first, *_, last = (out / "table.md").read_text().split("Worst-group test accuracy")[1:]
    table_cell = f"| {100 * best['average']:.1f} |"
    assert (
        "do not estimate the accuracy" in last and table_cell in last and "**" not in last and "estimate" not in first
    )
    assert f">{100 * table['average']['last']:.1f}<" in (out / "bars.svg").read_text()
    unwatched = read_grid(str(write_grid("unwatched.yaml", seeds=1)))
    train(corrected.build_config(), corrected.folder, page=False)
    assert "best_test" not in set(build_results_table(unwatched, out).query("row == 'corrected'")["selection"])


def test_a_wrong_option_is_reported_before_the_first_run(run_command: Any, write_grid: Any, tmp_path: Path) -> None:
    rows = {"good": {"method": "ERM"}, "bad": {"method": {"name": "LC", "Strength": 1}}}
    outcome = run_command("benchmark", write_grid(rows=rows, paper={}), "--out", tmp_path / "out")
    assert outcome.status == 2 and outcome.err.startswith("error: row 'bad', column '5 %': ")
    assert not (tmp_path / "out").exists()


# Data that are not at hand.


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no network."""

    def offline(*_: Any, **__: Any) -> None:
        raise RuntimeError("no network")

    monkeypatch.setenv("LOGIT_CORRECTION_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("torchvision.datasets.CIFAR10.download", offline)
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["table2", pytest.param("table1-ccifar10", marks=pytest.mark.slow)])
def test_a_shipped_table_without_data_shows_the_figures_of_the_paper(
    name: str, no_data: Path, run_command: Any, tmp_path: Path
) -> None:
    outcome = run_command("benchmark", name, "--out", tmp_path / "out")
    *lines, error = outcome.err.splitlines()
    assert outcome.status == 2
    assert error == f"error: {name}: no run can be trained, since all data are missing; see above"
    left_out = [line for line in lines if "left out" in line]
    assert len(left_out) == {"table2": 4, "table1-ccifar10": 1}[name] and all(
        str(no_data) in entry for entry in left_out
    )
    text = (tmp_path / "out" / "table.md").read_text()
    assert "No run is finished." in text and "No run is finished." in outcome.out
    for cells in read_grid(name).paper.values():
        assert all(f"{entry[0] if isinstance(entry, list) else entry:.2f}" in text for entry in cells.values())
