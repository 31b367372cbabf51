"""The script that measures on a GPU, tried on a processor: what it watches, what it times, and that it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from ..conftest import benchmark_script

script_steps, script_results = benchmark_script("gpu_steps"), benchmark_script("gpu_results")
script = benchmark_script("gpu")

SMALL = ["--device", "cpu", "--small", "--rows", "300", "--epochs", "1", "--modes", "float32"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Call the script in this process and return what it has written, by part and name."""

    def run(*words: str) -> dict[tuple[str, str], dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(tmp_path), *SMALL, *words])
        status = script.main()
        lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
        assert status == any("error" in line for line in lines)
        return {(line["part"], line["name"]): line for line in lines}

    return run


def test_steps_are_timed_once_and_an_error_is_tried_again(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = script.time_steps
    monkeypatch.setattr(script, "time_steps", lambda *given: own(*given) if "preset" in given[1] else 1 / 0)
    first = call("--parts", "steps")
    assert first["steps", "ERM; float32"]["error"].startswith("ZeroDivisionError")
    paper = first["steps", "LC, preset paper; float32"]
    assert paper["ms"] > 0 and paper["epoch_seconds"] > 3 * paper["ms"] / 1000 and paper["windows"] >= 2
    monkeypatch.setattr(script, "time_steps", own)
    second = call("--parts", "steps")
    assert second["steps", "LC, preset paper; float32"] == paper
    erm = second["steps", "ERM; float32"]
    ratio = f"{paper['epoch_seconds'] / (2 * erm['epoch_seconds']):.2f}"
    page = (tmp_path / "results.md").read_text()
    assert f"| {ratio} |" in page and "Pixels: scikit-learn's bundled handwritten digits" in page
    assert f"100 epochs of ERM: float32 {100 * erm['epoch_seconds']:.0f} s." in page


def test_other_settings_are_refused(call: Any) -> None:
    call("--parts")
    with pytest.raises(SystemExit, match="give another --out"):
        call("--parts", "--seeds", "1")


def test_every_method_is_watched_and_a_wait_is_told_by_its_line(make_table: Any) -> None:
    from logit_correction.methods import METHODS

    options = script.argparse.Namespace(
        small=True, jobs=1, steps=5, seeds=1, columns=["5"], device="cpu", training="{precision: bf16-mixed}"
    )
    grid = script.make_grid(options, epochs=2)
    assert grid["common"]["precision"] == "bf16-mixed" and list(grid["columns"]) == ["5"]
    assert set(script.sync_cases(grid["common"], grid["rows"])) > set(METHODS)
    table = script.load_table(grid, 300)
    flat = script.sync_cases(grid["common"], grid["rows"])["GroupDRO"]
    found = script.check_syncs(table, flat, "cpu")
    assert found["steps"] == 10 and found["skipped"]

    states: list[bool] = []
    with script_steps.waits(states.append) as places:
        fit = script_steps.make_fit(table, flat, script_steps.Clock())
        fit.algorithm.register_forward_hook(
            lambda *_: warnings.warn("called a synchronizing CUDA operation", stacklevel=1) if states[-1] else None
        )
        fit.run()
    assert sum(places.values()) == 6  # two epochs of five steps, the first and the last of each left out
    assert all(place.startswith("fit.py:") and "module(batch" in place for place in places)


@pytest.mark.slow
def test_the_grid_is_trained_by_the_program(tmp_path: Path) -> None:
    words = [sys.executable, str(script.__file__), "--out", str(tmp_path), *SMALL, "--parts", "grid"]
    words += ["--columns", "5", "--seeds", "1", "--steps", "10", "--jobs", "1"]
    whole = subprocess.run(words, capture_output=True, text=True, check=False)
    assert whole.returncode == 0, whole.stderr
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert lines[-1]["finished"] == 4
    page = (tmp_path / "results.md").read_text()
    assert "| LC, given attributes | train |" in page and "4 runs, 1 at a time" in page


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_no_step_waits_for_the_device(tmp_path: Path) -> None:
    words = [sys.executable, str(script.__file__), "--out", str(tmp_path), "--small", "--parts", "syncs"]
    assert subprocess.run(words, check=False).returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    checked = {line["name"]: line for line in lines if line["part"] == "syncs"}
    assert len(checked) == 10 and all(line["the check sees item()"] for line in checked.values())
    assert {name: line["waits"] for name, line in checked.items() if line["waits"]} == {}
