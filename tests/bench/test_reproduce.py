"""The script that trains a committed result again: what it calls equal, and what it says of the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from logit_correction import RunConfig, train
from logit_correction.bench import read, results

from ..conftest import benchmark_script
from .conftest import GRID

script = benchmark_script("reproduce")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as those in ``results``: a grid of one run, and its table of another seed, as `--seeds` gives it."""
    folder, runs = tmp_path_factory.mktemp("committed"), tmp_path_factory.mktemp("runs")
    rows = {"plain": {"method": {"name": "ERM"}}}
    (folder / "benchmark.yaml").write_text(yaml.safe_dump({**GRID, "rows": rows, "seeds": 1, "paper": {}}))
    grid = read(str(folder / "benchmark.yaml"), seeds=2)
    cell = list(grid.cells(runs))[1]
    cell.folder.parent.mkdir(parents=True)
    train(RunConfig.from_dict(cell.options), cell.folder, page=False)
    results(grid, runs).to_csv(folder / "table.csv", index=False)
    return folder


@pytest.fixture
def committed(measured: Path, tmp_path: Path) -> Path:
    """A copy of it, to change."""
    return Path(shutil.copytree(measured, tmp_path / "committed"))


def test_the_same_figures_are_equal_and_others_are_named(committed: Path) -> None:
    assert script.reproduce(committed).startswith("plain, 5 %, seed 1: equal (")
    table = pd.read_csv(committed / "table.csv")
    table.assign(average=table["average"] + 0.25, commit="0" * 12).to_csv(committed / "table.csv", index=False)
    said = script.reproduce(committed)
    assert "differs by average 0.25 (" in said and "commit 000000000000, which is not known here" in said


def test_what_is_not_trained_is_told(committed: Path) -> None:
    assert "not trained: it took" in script.reproduce(committed, most_seconds=0)
    assert script.reproduce(committed, script.Wanted(row="else")) == "not trained: the table has no such run"
    table = pd.read_csv(committed / "table.csv")
    table.assign(row="gone").to_csv(committed / "table.csv", index=False)
    assert script.reproduce(committed).endswith("not trained: the grid beside the table has no such run")
    (committed / "benchmark.yaml").unlink()
    assert script.reproduce(committed) == "not trained: there is no grid beside the table"
