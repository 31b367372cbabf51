"""The same seeds give the same numbers: to the last digit where ``golden.json`` was computed, closely elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from . import golden

GOLDEN = json.loads(golden.FILE.read_text())
#: Runs that no other test looks at, and that take long.
LONG = ("audit-photos", "planted-lc", "digits-reweighting")
EXACT = os.environ.get("LOGIT_CORRECTION_EXACT", str(int(golden.describe_machine() == GOLDEN["machine"]))) == "1"


def compare_with_golden(name: str, folder: Path) -> None:
    actual = golden.collect_figures(folder)
    expected = GOLDEN["figures"][name]
    assert actual.keys() == expected.keys()
    if EXACT:
        wrong = {key: (actual[key], value) for key, value in expected.items() if actual[key] != value}
        assert not wrong, f"{name}: found, wanted: {wrong}"
    for key in ("test.average", "evidence.accuracy", "evidence.network_accuracy"):
        assert expected.get(key) is None or abs(actual[key] - expected[key]) <= 0.03, (
            name,
            key,
            actual[key],
            expected[key],
        )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in golden.RUNS]
)
def test_run_has_the_golden_figures(name: str, get_run: Callable[[str], Path]) -> None:
    compare_with_golden(name, get_run(name))


@pytest.mark.slow
@pytest.mark.mnist
@pytest.mark.parametrize("name", golden.SLOW_RUNS)
def test_mnist_run_has_the_golden_figures(name: str, get_run: Callable[[str], Path]) -> None:
    if not golden.has_mnist():
        pytest.skip("LOGIT_CORRECTION_DATA has no MNIST")
    compare_with_golden(name, get_run(name))
