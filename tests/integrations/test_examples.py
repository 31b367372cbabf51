"""The examples of other people's training code run, and say how well they do by group."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "pytorch_loop": "torch",
    "stream": "torch",
    "accelerate_loop": "accelerate",
    "lightning_callback": "lightning",
    "transformers_trainer": "accelerate",
    "timm_model": "timm",
    "group_metrics": "fairlearn",
    "tracking": "tensorboard",
    "export_onnx": "onnxruntime",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(EXAMPLES[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    with torch.random.fork_rng(devices=[]):
        figures = importlib.import_module(name).main(epochs=1, seed=0)
    assert set(figures) == {"group_balanced", "worst_group"}
    assert 0 <= figures["worst_group"] <= figures["group_balanced"] <= 1
    assert re.search("alone predicts?", capsys.readouterr().out)  # the finding on a shortcut


@pytest.mark.slow
def test_joblib_example_trains_a_grid_and_predicts(tmp_path: Path) -> None:
    pytest.importorskip("logit_correction_lab")
    script = [sys.executable, ROOT / "examples" / "joblib_grid.py", "--out", tmp_path / "grid"]
    process = subprocess.run(script, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "400 rows answered" in process.stdout
    assert {"report.html", "table.csv", "table.md"} <= {path.name for path in (tmp_path / "grid").iterdir()}


def test_docs_name_every_example() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert [path.name for path in (ROOT / "examples").glob("*.py") if path.name not in pages] == []
