"""The library works without the search that is built upon it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import logit_correction

from .forked_programs import ForkedProgram

SOURCE = Path(logit_correction.__file__).parent

#: Packages of each layer from the highest down, whose imports import-linter checks.
PROJECT = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
LAYERS = re.findall(r"^layers = \[(.*?)^\]", PROJECT, re.DOTALL | re.MULTILINE)[0].strip().splitlines()
LAYER_PACKAGES = [re.findall(r"\w+", floor) for floor in LAYERS[1:]]
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
for name in sys.argv[1:]:
    package = importlib.import_module(f"logit_correction.{name}")
    for module in pkgutil.iter_modules(getattr(package, "__path__", []), package.__name__ + "."):
        importlib.import_module(module.name)
from logit_correction import train
run = train("Digits", method={"name": "LC", "attributes": "Online"}, epochs=1, threads=1, page=False)
assert run.report.method == "LC"
"""


@pytest.mark.slow
def test_library_trains_without_the_search() -> None:
    with ForkedProgram(WITHOUT, *LIBRARY) as process:
        assert process.wait() == 0, process.output


@pytest.mark.parametrize("package", [package for layer in LAYER_PACKAGES for package in layer])
def test_package_names_no_package_of_a_higher_layer(package: str) -> None:
    layer_number = next(number for number, layer in enumerate(LAYER_PACKAGES) if package in layer)
    above = [name for layer in LAYER_PACKAGES[:layer_number] for name in layer]
    files = (
        [SOURCE / f"{package}.py"] if (SOURCE / f"{package}.py").is_file() else sorted((SOURCE / package).rglob("*.py"))
    )
    violations = {
        f"{file.relative_to(SOURCE)}: {name}"
        for file in files
        for name in above
        if re.search(rf"logit_correction\.{name}\b", file.read_text(encoding="utf-8"))
    }
    assert files and not violations
