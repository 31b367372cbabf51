"""The example of a search over a pipeline finds a classifier that does not lean on the planted column."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "scikit_learn_pipeline.py"


@pytest.mark.slow
def test_the_worst_group_gains_ten_points(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 80
    worst = runpy.run_path(str(EXAMPLE))["main"]([0], epochs=5)["worst group"]
    assert "seed 0: shortcut: the column `form_version`" in capsys.readouterr().out
    ours = worst.pop("LogitCorrectionClassifier")
    assert len(worst) == 2 and ours > worst.max() + 10
