"""The figures of the page on the method: what they show is so, and the script writes the files that the page names."""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("method_figures", ROOT / "benchmarks" / "method_figures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cross_entropy_moves_the_border_by_half_the_log_odds_and_logit_correction_does_not(example: ModuleType) -> None:
    found = example.thresholds()
    assert found["cross-entropy"] == pytest.approx((0.5 * math.log(9), -0.5 * math.log(9)), abs=1e-4)
    assert found["logit correction"] == pytest.approx((0.0, 0.0), abs=1e-4)


def test_the_page_shows_what_the_script_writes(example: ModuleType, tmp_path: Path) -> None:
    example.main(tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == set(re.findall(r"images/(method-[\w-]+\.svg)", (ROOT / "docs" / "method.md").read_text()))
    assert all((ROOT / "docs" / "images" / name).is_file() for name in written)
