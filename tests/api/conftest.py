"""A folder of small data, and runs that are trained once for all workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from . import golden


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers share, with a cache of its own."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "api"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def here(shared: Path) -> Path:
    """The data: ``photos``, ``later``, ``patients.csv``, ``later.csv``, ``reviews.csv``; nobody changes them."""
    with FileLock(shared / "data.lock"):
        if not (shared / "data").exists():
            (shared / "making").mkdir(exist_ok=True)
            golden.make_data(shared / "making")
            (shared / "making").rename(shared / "data")
    return shared / "data"


@pytest.fixture(scope="session")
def run(
    shared: Path, here: Path, run_command: Callable[..., Any], whole_search: Callable[..., Any]
) -> Callable[[str], Path]:
    """Name of ``golden.RUNS`` -> its folder, made by the first who asks; nobody changes it."""

    def make(name: str) -> Path:
        folder = shared / "runs" / name
        with FileLock(shared / f"{name}.lock"), pytest.MonkeyPatch.context() as patch, whole_search():
            if not (shared / f"{name}.out").exists():
                patch.setenv("LOGIT_CORRECTION_CACHE", str(shared / "cache"))
                answer = run_command(*golden.command(name, here, folder))
                assert answer.status == 0, answer.err
                (shared / f"{name}.out").write_text(answer.out)
        return folder

    return make
