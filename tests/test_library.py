"""The library stands without the search that is built upon it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import logit_correction

from .forked import Forked

SOURCE = Path(logit_correction.__file__).parent

#: Floors of rooms from the roof down, whose imports import-linter checks.
PROJECT = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
LAYERS = re.findall(r"^layers = \[(.*?)^\]", PROJECT, re.DOTALL | re.MULTILINE)[0].strip().splitlines()
FLOORS = [re.findall(r"\w+", floor) for floor in LAYERS[1:]]
LIBRARY = ["training", "evaluation", "methods", "attributes", "data", "views", "networks", "functional"]

WITHOUT = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("logit_correction.shortcuts"):
            raise ImportError(name + " is blocked")

assert not [name for name in sys.modules if name.startswith("logit_correction.shortcuts")]
sys.meta_path.insert(0, Blocked())
import logit_correction
for room in sys.argv[1:]:
    package = importlib.import_module(f"logit_correction.{room}")
    for module in pkgutil.iter_modules(getattr(package, "__path__", []), package.__name__ + "."):
        importlib.import_module(module.name)
from logit_correction import train
run = train("Digits", method={"name": "LC", "attributes": "Online"}, epochs=1, threads=1, page=False)
assert run.report.method == "LC"
"""


@pytest.mark.slow
def test_the_library_trains_without_the_search() -> None:
    with Forked(WITHOUT, *LIBRARY) as process:
        assert process.wait() == 0, process.told


@pytest.mark.parametrize("room", [room for floor in FLOORS for room in floor])
def test_no_package_names_one_above_it(room: str) -> None:
    own = next(number for number, floor in enumerate(FLOORS) if room in floor)
    above = [name for floor in FLOORS[:own] for name in floor]
    files = [SOURCE / f"{room}.py"] if (SOURCE / f"{room}.py").is_file() else sorted((SOURCE / room).rglob("*.py"))
    named = {
        f"{file.relative_to(SOURCE)}: {name}"
        for file in files
        for name in above
        if re.search(rf"logit_correction\.{name}\b", file.read_text(encoding="utf-8"))
    }
    assert files and not named
