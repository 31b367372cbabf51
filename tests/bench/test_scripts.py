"""The scripts of ``benchmarks/`` that read grids: reproduce, selection_regret, verdicts and gpu."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from logit_correction import ComponentConfig, RunConfig, TrainingConfig, train
from logit_correction.bench.grid import read
from logit_correction.bench.results import find, results
from logit_correction.pages.compare import RunFolder

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
    results(find(grid, runs)).to_csv(folder / "table.csv", index=False)
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


def test_verdicts_looks_only_at_what_is_not_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, out, columns = benchmark_script("verdicts"), tmp_path / "verdicts.csv", {"column": {"data": {}}}
    columns["column, control"] = {"data": {"control": True}}
    common = {"data": {"name": "Planted", "set": "column", "rows": 600}, "device": "cpu", "threads": 1, "epochs": 4}
    grid = {"title": "One table", "seeds": 1, "common": common, "rows": {"LC": {"method": "LC"}}, "columns": columns}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid))
    words = ["verdicts.py", str(tmp_path / "grid.yaml"), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [*words, "--columns", "control"])
    script.main()
    (control,) = pd.read_csv(out).to_dict("records")
    assert control["column"] == "column, control" and control["verdict"] != "shortcut"
    pd.read_csv(out).assign(sentence="was here").to_csv(out, index=False)
    monkeypatch.setattr(sys, "argv", words)
    script.main()
    found = pd.read_csv(out).set_index("column")
    assert found.loc["column, control", "sentence"] == "was here"
    assert found.loc["column", "view"] == "column:form_version" and found.loc["column", "verdict"] == "shortcut"


def test_regret_is_the_distance_to_the_best_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, grid = benchmark_script("selection_regret"), tmp_path / "grid"
    data = ComponentConfig("Planted", {"set": "column", "rows": 600, "minority_ratio": 0.1})
    shortcut = {"attributes": {"name": "Auto", "shortcut": ["column:form_version"]}}
    for name, method, rate in (("a", "ERM", 2e-3), ("b", "ERM", 1e-4), ("c", "LC", 2e-3)):
        own = ["last", "valid_worst_class", "valid_worst_group", "valid_class_difference"]
        own += ["valid_estimated_worst_group"] if method == "LC" else []
        training = TrainingConfig(
            epochs=4, batch_size=64, threads=1, device="cpu", learning_rate=rate, also_select=own, watch=["test"]
        )
        options, network = shortcut if method == "LC" else {}, ComponentConfig("MLP", {"hidden": [16]})
        train(RunConfig(data, ComponentConfig(method, options), network, training=training), grid / name, page=False)
    found = script.regrets(script.find_runs([grid]), "worst_group")
    epochs = found[found["choice"] == "epoch"]
    metrics = {name: pd.read_csv(grid / name / "metrics.csv") for name in "abc"}
    watched = {name: one.dropna(subset=["test_worst_group"]) for name, one in metrics.items()}
    for rule in ("valid_worst_class", "valid_worst_group"):
        expected = [  # the latest of equal epochs
            run["test_worst_group"].max() - run.loc[run[rule][::-1].idxmax(), "test_worst_group"]
            for run in watched.values()
        ]
        assert sorted(epochs[epochs["rule"] == rule]["regret"]) == pytest.approx(sorted(expected))
    assert set(epochs["candidates"]) == {4} and (epochs["regret"] >= 0).all()
    assert len(epochs[epochs["rule"] == "valid_estimated_worst_group"]) == 1  # ERM estimates nothing
    runs = found[found["choice"] == "run"].set_index("rule")  # all are judged by the estimate of one
    figures = {name: RunFolder.read(grid / name).test["worst_group"] for name in "abc"}
    assert max(figures, key=lambda name: figures[name]) == "c"
    assert runs.loc["valid_worst_group", "regret"] == runs.loc["valid_estimated_worst_group", "regret"] == 0
    average = {name: one["valid_average"].dropna().iloc[-1] for name, one in metrics.items()}
    taken = max(average, key=lambda name: average[name])
    assert taken != "c"  # plain accuracy prefers what leans on the shortcut
    assert runs.loc["valid_average", "regret"] == pytest.approx(figures["c"] - figures[taken])
    out = tmp_path / "regret.md"
    monkeypatch.setattr("sys.argv", ["selection_regret.py", str(grid), "--metric", "worst_group", "--out", str(out)])
    script.main()
    text = out.read_text()
    assert "| chosen by | Planted | all |" in text and "| `valid_view_agreement` |" in text
    assert list(pd.read_csv(tmp_path / "regret.csv").columns) == list(script.COLUMNS)


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


@pytest.mark.slow
def test_gpu_trains_its_grid_by_the_program(tmp_path: Path) -> None:
    words = [sys.executable, str(gpu.__file__), "--out", str(tmp_path), *SMALL, "--parts", "grid"]
    words += ["--columns", "5", "--seeds", "1", "--steps", "10", "--jobs", "1"]
    whole = subprocess.run(words, capture_output=True, text=True, check=False)
    assert whole.returncode == 0, whole.stderr
    assert lines_of(tmp_path)[-1]["finished"] == 4
    assert "| LC, given attributes | train |" in (tmp_path / "results.md").read_text()
