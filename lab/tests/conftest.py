"""A small grid of tiny runs, and the command that runs grids in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.conftest import (  # noqa: F401
    import_file,
    make_table,
    run_command,
    run_files,
    run_two_processes,
    sites,
    tiny_bert,
    use_session_cache,
)
from tests.forked_programs import ForkedProgram

DATA = Path(os.environ.get("LOGIT_CORRECTION_DATA", "nowhere"))

#: Marks of a test that reads MNIST.
needs_mnist = [
    pytest.mark.mnist,
    pytest.mark.skipif(not (DATA / "MNIST" / "raw").is_dir(), reason="LOGIT_CORRECTION_DATA names no folder with it"),
]

#: The command; what is forked does not wait at its end for joblib's processes, as a plain process would not.
PROGRAM = """
import os, sys
from logit_correction.cli import main
status = main(["benchmark", *sys.argv[1:]])
sys.stdout.flush(), sys.stderr.flush()
os._exit(status)
"""

GRID = {
    "title": "Two methods",
    "seeds": 2,
    "rows": {
        "plain": {"method": {"name": "ERM"}},
        "corrected": {"method": {"name": "LC", "attributes": "Online"}},
    },
    "columns": {"5 %": {"data": {"minority_ratio": 0.05}}},
    "common": {"data": {"name": "Digits"}, "epochs": 2, "batch_size": 256, "device": "cpu", "threads": 1},
    "paper": {"plain": {"5 %": [91.16, 0.97]}},
}


@pytest.fixture(scope="session")
def layouts() -> ModuleType:
    """The module that writes small data sets in the published layouts."""
    return import_file(Path(__file__).with_name("layouts.py"))


@pytest.fixture
def write_grid(tmp_path: Path) -> Callable[..., Path]:
    """Write the small grid, with changes, and return its file."""

    def write(name: str = "mine.yaml", **changes: Any) -> Path:
        path = tmp_path / name
        path.write_text(yaml.safe_dump({**GRID, **changes}, sort_keys=False))
        return path

    return write


@pytest.fixture
def start() -> Iterator[Callable[..., ForkedProgram]]:
    """Start ``benchmark`` in a process of its own; what is left of it is killed in the end."""
    with ExitStack() as stack:
        yield lambda *words: stack.enter_context(ForkedProgram(PROGRAM, *map(str, words)))
