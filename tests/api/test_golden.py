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
EXACT = os.environ.get("LOGIT_CORRECTION_EXACT", str(int(golden.machine() == GOLDEN["machine"]))) == "1"


def compare(name: str, folder: Path) -> None:
    found = golden.figures(folder)
    wanted = GOLDEN["figures"][name]
    assert found.keys() == wanted.keys()
    if EXACT:
        wrong = {key: (found[key], value) for key, value in wanted.items() if found[key] != value}
        assert not wrong, f"{name}: found, wanted: {wrong}"
    for key in ("test.average", "evidence.accuracy", "evidence.network_accuracy"):
        assert wanted.get(key) is None or abs(found[key] - wanted[key]) <= 0.03, (name, key, found[key], wanted[key])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in golden.RUNS]
)
def test_figures(name: str, run: Callable[[str], Path]) -> None:
    compare(name, run(name))


@pytest.mark.slow
@pytest.mark.mnist
@pytest.mark.parametrize("name", golden.SLOW_RUNS)
def test_figures_on_mnist(name: str, run: Callable[[str], Path]) -> None:
    if not golden.has_mnist():
        pytest.skip("LOGIT_CORRECTION_DATA has no MNIST")
    compare(name, run(name))
