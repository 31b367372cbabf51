"""The examples of other people's training code run, and say how well they do by group."""

from __future__ import annotations

import ast
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
    "group_metrics": "torchmetrics",
    "tracking": "tensorboard",
    "export_onnx": "onnxruntime",
    "serve_rows": "torch",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(EXAMPLES[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    with torch.random.fork_rng(devices=[]):
        figures = importlib.import_module(name).main(epochs=1, seed=0)
    assert set(figures) == {"group_balanced", "worst_group"}
    assert 0 <= figures["worst_group"] <= figures["group_balanced"] <= 1
    assert "alone is right in" in capsys.readouterr().out  # what was found of a shortcut


@pytest.mark.slow
def test_an_example_is_a_program(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "pytorch_loop.py"), "--epochs", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True)
    figures = ast.literal_eval(done.stdout.splitlines()[-1])
    assert 0 < figures["group_balanced"] < 1


def test_the_page_names_every_example() -> None:
    named = set(re.findall(r"`(\w+)\.py`", (ROOT / "docs" / "integrations.md").read_text()))
    assert named == set(EXAMPLES)


def test_the_site_shows_every_example() -> None:
    pages = "".join((ROOT / "docs" / page).read_text() for page in ("integrations.md", "scikit-learn.md"))
    assert set(re.findall(r'--8<-- "examples/(\w+)\.py"', pages)) == {*EXAMPLES, "scikit_learn_pipeline"}


def test_an_example_is_no_longer_than_a_page() -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in (ROOT / "examples").glob("*.py")}
    assert set(EXAMPLES) <= {name.removesuffix(".py") for name in lines}
    assert max(lines.values()) <= 80, lines
