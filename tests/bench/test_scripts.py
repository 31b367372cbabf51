"""The script of ``benchmarks/`` that trains a run of a committed table again."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

from logit_correction import RunConfig, train
from logit_correction.bench.grid import read
from logit_correction.bench.tables import results

from ..conftest import benchmark_script
from .conftest import GRID

RESULTS = sorted(path for path in (Path(__file__).parents[2] / "results").glob("*/*.yaml") if path.name != "model.yaml")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_row_of_the_committed_results_can_be_trained_again(path: Path, tmp_path: Path) -> None:
    cells = {cell.row: cell for cell in read(str(path)).cells(tmp_path)}
    assert cells and all(cell.config().method.name for cell in cells.values())


@pytest.mark.slow
def test_reproduce_tells_what_is_equal_what_differs_and_what_is_not_trained(tmp_path: Path) -> None:
    script, folder, runs = benchmark_script("reproduce"), tmp_path / "committed", tmp_path / "runs"
    folder.mkdir()
    rows = {"plain": {"method": {"name": "ERM"}}}
    (folder / "benchmark.yaml").write_text(yaml.safe_dump({**GRID, "rows": rows, "seeds": 1, "paper": {}}))
    grid = read(str(folder / "benchmark.yaml"), seeds=2)
    cell = list(grid.cells(runs))[1]
    train(RunConfig.from_dict(cell.options), cell.folder, page=False)
    results(grid, runs).to_csv(folder / "table.csv", index=False)
    assert script.reproduce(folder).startswith("plain, 5 %, seed 1: equal (")
    table = pd.read_csv(folder / "table.csv")
    table.assign(average=table["average"] + 0.25, commit="0" * 12).to_csv(folder / "table.csv", index=False)
    said = script.reproduce(folder)
    assert "differs by average 0.25 (" in said and "commit 000000000000, which is not known here" in said
    assert "not trained: it took" in script.reproduce(folder, most_seconds=0)
    assert script.reproduce(folder, script.Wanted(row="else")) == "not trained: the table has no such run"
    table.assign(row="gone").to_csv(folder / "table.csv", index=False)
    assert script.reproduce(folder).endswith("not trained: the grid beside the table has no such run")
    (folder / "benchmark.yaml").unlink()
    assert script.reproduce(folder) == "not trained: there is no grid beside the table"
