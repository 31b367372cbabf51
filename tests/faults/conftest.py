"""How much is run: a short form by ``pytest -m slow``, the long one by ``FAULTS=long pytest -m slow tests/faults``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

LONG = os.environ.get("FAULTS") == "long"

settings.register_profile(
    "faults",
    max_examples=2000 if LONG else 25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=not LONG,
    print_blob=True,
    database=None,
)
settings.load_profile("faults")  # before the tests are read, which take their settings then


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder slow, and give the long form time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if LONG:
                item.add_marker(pytest.mark.timeout(3 * 3600))


@pytest.fixture
def times() -> Callable[[int, int], int]:
    """Choose between the number of the short and of the long form."""
    return lambda short, long: long if LONG else short


@pytest.fixture
def program() -> list[str]:
    """The words that start the program in a process of its own."""
    return [sys.executable, "-m", "logit_correction"]
