"""Which modules pytest does not look into for examples, those of packages that are not installed, encoders, searches.

What a test trains must not depend on the extras that are installed, so none that is not asked for is taken.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ["LOGIT_CORRECTION_ENCODERS"] = "none"
# Pytest imports readline, which sets it for child processes behind Python's back: what they print would be wrapped.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")

FOLDER = Path(__file__).parent / "src/logit_correction/integrations"

collect_ignore = []
if find_spec("lightning") is None and find_spec("pytorch_lightning") is None:
    collect_ignore += [f"{FOLDER}/lightning.py"]


def pytest_collection_finish() -> None:
    """Exempt what is imported by now from garbage collection, which would walk through all of it again and again."""
    gc.collect()
    gc.freeze()


@contextmanager
def _searching(length: Callable[..., int]) -> Iterator[None]:
    from logit_correction.shortcuts.auto import Auto

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Auto, "compute_epochs", length)
        yield


@pytest.fixture(autouse=True, scope="session")
def whole_search() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Searches train for a sixth of their epochs, since plain shortcuts show as well; in this context, for all."""
    from logit_correction.shortcuts.auto import Auto

    whole = Auto.compute_epochs

    def short(estimator: Auto) -> int:
        return max(4, whole(estimator) // 6)

    with _searching(short):
        yield partial(_searching, whole)


@pytest.fixture(autouse=True, scope="session")
def train_candidates_in_one_process() -> Iterator[None]:
    """Audits train candidates one by one: the processes of the tests keep all cores busy, and forks take time."""
    from logit_correction.shortcuts import candidates

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "count_available_cores", lambda: 1)
        yield
