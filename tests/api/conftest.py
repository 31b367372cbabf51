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
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers share, with a cache of its own."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "api"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def data_folder(shared_folder: Path) -> Path:
    """The data: ``photos``, ``later``, ``patients.csv``, ``later.csv``, ``reviews.csv``; tests do not change them."""
    with FileLock(shared_folder / "data.lock"):
        if not (shared_folder / "data").exists():
            (shared_folder / "making").mkdir(exist_ok=True)
            golden.make_data(shared_folder / "making")
            (shared_folder / "making").rename(shared_folder / "data")
    return shared_folder / "data"


@pytest.fixture(scope="session")
def get_run(
    shared_folder: Path, data_folder: Path, run_command: Callable[..., Any], whole_search: Callable[..., Any]
) -> Callable[[str], Path]:
    """Name of ``golden.RUNS`` -> its folder, trained by the first test that asks; tests do not change it."""

    def make(name: str) -> Path:
        folder = shared_folder / "runs" / name
        with FileLock(shared_folder / f"{name}.lock"), pytest.MonkeyPatch.context() as patch, whole_search():
            if not (shared_folder / f"{name}.out").exists():
                patch.setenv("LOGIT_CORRECTION_CACHE", str(shared_folder / "cache"))
                answer = run_command(*golden.build_command(name, data_folder, folder))
                assert answer.status == 0, answer.err
                (shared_folder / f"{name}.out").write_text(answer.out)
        return folder

    return make
