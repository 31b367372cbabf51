"""Results from several folders: what counts, what does not, and what contradicts itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from logit_correction import InputError, train
from logit_correction.bench import find, history, read, results

from .conftest import GRID


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid of one seed whose first row was trained in ``here`` and whose second row in ``there``, in one folder."""
    folder = tmp_path_factory.mktemp("grid")
    common = {"data": {"name": "Digits"}, "epochs": 2, "batch_size": 256, "threads": 1, "watch": ["test"]}
    (folder / "mine.yaml").write_text(yaml.safe_dump({**GRID, "seeds": 1, "common": common}, sort_keys=False))
    benchmark = read(str(folder / "mine.yaml"))
    for row, name in enumerate(("here", "there")):
        cell = list(benchmark.cells(folder / name))[row]
        train(cell.config(), cell.folder)
    return folder


@pytest.fixture
def trained(grid: Path, tmp_path: Path) -> Any:
    """A copy of the grid, its description, and its two folders."""
    own = shutil.copytree(grid, tmp_path / "grid")
    return own / "mine.yaml", read(str(own / "mine.yaml")), own / "here", own / "there"


def test_runs_of_other_folders_count(trained: Any, command: Any) -> None:
    path, benchmark, here, there = trained
    assert set(results(benchmark, here)["row"]) == {"plain"}
    assert set(results(benchmark, here, [there])["row"]) == {"plain", "corrected"}
    outcome = command(path, "--out", here, "--also", there)
    assert outcome.status == 0 and "2 runs, 2 finished before" in outcome.err
    assert not (here / "corrected").exists()
    assert "| corrected | none | " in (here / "table.md").read_text()
    watched = history(benchmark, here, [there])
    assert sorted(zip(watched["row"], watched["epoch"], strict=True)) == [
        ("corrected", 1), ("corrected", 2), ("plain", 1), ("plain", 2),
    ]  # fmt: skip
    last = results(benchmark, here, [there]).query("selection == 'last'").set_index("row")["group_balanced"]
    ends = watched[watched["epoch"] == 2].set_index("row")["test_group_balanced"]
    assert ends.to_dict() == pytest.approx(last.to_dict())


def change(folder: Path, **options: Any) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump(config | options))


def test_runs_of_other_options_do_not_count_but_those_of_another_place_do(trained: Any) -> None:
    _, benchmark, here, there = trained
    cell = list(benchmark.cells(there))[1]
    change(cell.folder, threads=4)
    assert find(benchmark, here, [there]).notes == []
    change(cell.folder, batch_size=17)
    found = find(benchmark, here, [there])
    assert found.notes == [f"not counted: {cell.folder} holds a run with batch_size = 17, not 256"]
    assert len(found.folders) == 1
    change(cell.folder, no_option=1)
    assert "no_option" in find(benchmark, here, [there]).notes[0]


def test_contradictions_are_reported_and_the_first_folder_counts(trained: Any, command: Any) -> None:
    path, benchmark, here, there = trained
    own, other = (next(iter(benchmark.cells(folder))).folder for folder in (here, there))
    shutil.copytree(own, other)
    assert find(benchmark, here, [there]).notes == []
    report = json.loads((other / "report.json").read_text())
    report["test"]["group_balanced"] = 0.5
    (other / "report.json").write_text(json.dumps(report))
    expected = f"{own} and {other} hold the same run with different figures; the first one counts"
    outcome = command(path, "--out", here, "--also", there)
    assert expected in outcome.err and f"- {expected}" in (here / "table.md").read_text()
    assert 0.5 not in results(benchmark, here, [there]).query("row == 'plain'")["group_balanced"].tolist()
    assert 0.5 in results(benchmark, there, [here]).query("row == 'plain'")["group_balanced"].tolist()


def test_folders_that_are_none(trained: Any, tmp_path: Path) -> None:
    _, benchmark, here, _ = trained
    with pytest.raises(InputError, match="is not a folder"):
        find(benchmark, here, [tmp_path / "missing"])
    with pytest.raises(InputError, match="is --out itself"):
        find(benchmark, here, [here / ".." / "here"])
