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
from logit_correction.attributes.base import AttributeEstimator
from logit_correction.config import PRESETS
from logit_correction.data import SOURCES
from logit_correction.data.reader import DataSource
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import MIXING, PRIORS, Mixing, PriorRule
from logit_correction.networks import NETWORKS
from logit_correction.views import VIEWS
from logit_correction.views.base import View


@pytest.mark.parametrize("name", sorted(set(logit_correction.__all__) - {"__version__"}))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    found = getattr(logit_correction, name)
    assert inspect.getdoc(found)
    assert name in dir(logit_correction)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'logit_correction' has no attribute 'Missing'"):
        logit_correction.Missing  # noqa: B018
    with pytest.raises(ImportError):
        from logit_correction import Missing  # noqa: F401


@pytest.mark.parametrize(
    ("known", "base"),
    [
        (METHODS, Algorithm),
        (ESTIMATORS, AttributeEstimator),
        (PRIORS, PriorRule),
        (MIXING, Mixing),
        (SOURCES, DataSource),
        (NETWORKS, None),
    ],
    ids=["methods", "estimators", "priors", "mixing", "data", "networks"],
)
def test_registered_names_are_those_of_their_classes(known: dict[str, tuple[str, str]], base: type | None) -> None:
    for name, (path, line) in known.items():
        module, _, attribute = path.rpartition(".")
        found = getattr(importlib.import_module(module), attribute)
        # StagedLC is LC with the options of a preset, FromRun is a function.
        assert found.__name__ == {"StagedLC": "LC", "FromRun": "from_run"}.get(name, name)
        assert base is None or not isinstance(found, type) or issubclass(found, base)
        assert line and "\n" not in line and len(line) < 90


def test_every_view_has_a_class_and_every_preset_a_file() -> None:
    for name, (path, line) in VIEWS.items():
        module, _, attribute = path.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), attribute), View), name
        assert line and "\n" not in line
    files = {path.stem for path in (Path(logit_correction.__file__).parent / "presets").glob("*.yaml")}
    assert files == set(PRESETS) and all(line and "\n" not in line for line in PRESETS.values())


def test_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import entry_points, version

    assert version("logit-correction") == logit_correction.__version__
    scripts = {script.name: script.value for script in entry_points(group="console_scripts")}
    assert scripts["logit-correction"] == "logit_correction.__main__:run"


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = "import sys, logit_correction; dir(logit_correction); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
