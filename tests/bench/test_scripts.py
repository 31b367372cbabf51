"""The scripts of ``benchmarks/`` that read grids: reproduce and gpu."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from logit_correction import RunConfig, train
from logit_correction.bench.grid import read
from logit_correction.bench.results import results

from ..conftest import benchmark_script
from .conftest import GRID

gpu_steps, gpu_results = benchmark_script("gpu_steps"), benchmark_script("gpu_results")  # which gpu imports
gpu = benchmark_script("gpu")

RESULTS = sorted((Path(__file__).parents[2] / "results").glob("*/*.yaml"))


def test_every_grid_of_the_committed_results_is_read(tmp_path: Path) -> None:
    assert RESULTS and all(list(read(str(path)).cells(tmp_path)) for path in RESULTS)


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


SMALL = ["--device", "cpu", "--small", "--rows", "300", "--epochs", "1", "--modes", "float32"]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_gpu_times_steps_once_and_tries_an_error_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = gpu.time_steps

    def call(*words: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(tmp_path), *SMALL, *words])
        gpu.main()
        return {line["name"]: line for line in lines_of(tmp_path) if line["part"] == "steps"}

    monkeypatch.setattr(gpu, "time_steps", lambda *given: own(*given) if "preset" in given[1] else 1 / 0)
    first = call("--parts", "steps")
    assert first["ERM; float32"]["error"].startswith("ZeroDivisionError")
    paper = first["LC, preset paper; float32"]
    assert paper["ms"] > 0 and paper["epoch_seconds"] > 3 * paper["ms"] / 1000 and paper["windows"] >= 2
    monkeypatch.setattr(gpu, "time_steps", own)
    second = call("--parts", "steps")
    assert second["LC, preset paper; float32"] == paper
    ratio = f"{paper['epoch_seconds'] / (2 * second['ERM; float32']['epoch_seconds']):.2f}"
    assert f"| {ratio} |" in (tmp_path / "results.md").read_text()
    with pytest.raises(SystemExit, match="give another --out"):
        call("--parts", "--seeds", "1")
