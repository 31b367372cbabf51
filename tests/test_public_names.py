"""The names that outside checks and users' scripts call."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import logit_correction
from logit_correction.attributes import ESTIMATORS
from logit_correction.data import SOURCES
from logit_correction.methods import METHODS
from logit_correction.methods.parts import MIXING, PRIORS
from logit_correction.networks import NETWORKS
from logit_correction.runs.options import PRESETS
from logit_correction.views import VIEWS


@pytest.mark.parametrize("name", sorted(set(logit_correction.__all__) - {"__version__"}))
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    public_object = getattr(logit_correction, name)
    assert inspect.getdoc(public_object)
    assert name in dir(logit_correction)


def test_old_name_of_a_class_warns_and_works() -> None:
    with pytest.warns(DeprecationWarning, match="Estimate is now called BatchEstimate"):
        assert logit_correction.Estimate is logit_correction.BatchEstimate


def test_every_registered_name_is_importable() -> None:
    for registry in (METHODS, ESTIMATORS, PRIORS, MIXING, SOURCES, NETWORKS, VIEWS):
        for path, line in registry.values():
            module, _, attribute = path.rpartition(".")
            assert callable(getattr(importlib.import_module(module), attribute)) and line and "\n" not in line
    files = {path.stem for path in (Path(logit_correction.__file__).parent / "presets").glob("*.yaml")}
    assert files == set(PRESETS)


def test_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import entry_points, version

    assert version("logit-correction") == logit_correction.__version__
    scripts = {script.name: script.value for script in entry_points(group="console_scripts")}
    assert scripts["logit-correction"] == "logit_correction.__main__:run"


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = "import sys, logit_correction; dir(logit_correction); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
