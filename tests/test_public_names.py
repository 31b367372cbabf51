"""The names that outside checks and users' scripts call."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import logit_correction
from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator
from logit_correction.cli import COMMANDS
from logit_correction.data import SOURCES
from logit_correction.data.reader import DataSource
from logit_correction.errors import InputError
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.methods.mixing import MIXING, Mixing
from logit_correction.methods.prior import PRIORS, PriorRule
from logit_correction.networks import NETWORKS
from logit_correction.presets import PRESETS
from logit_correction.views import VIEWS
from logit_correction.views.base import View

ROOT = Path(__file__).parents[1]

#: Function -> the arguments that it must take, in this order.
FUNCTIONS = {
    "generalized_cross_entropy": ["logits", "label", "q"],
    "logit_corrected_cross_entropy": ["logits", "label", "log_prior"],
    "group_mixup": [],
    "group_accuracy": ["prediction", "label"],
    "group_balanced_accuracy": ["prediction", "label"],
    "worst_group_accuracy": ["prediction", "label"],
    "margin": ["logits", "label"],
}


@pytest.mark.parametrize("name", sorted(set(logit_correction.__all__) - {"__version__"}))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    found = getattr(logit_correction, name)
    assert inspect.getdoc(found)
    assert name in dir(logit_correction)


def in_the_reference() -> dict[str, str]:
    """Dotted path of each object of the reference -> what its page says below it, up to the next one."""
    parts = re.split(r"^::: ([\w.]+)\n", (ROOT / "docs" / "api.md").read_text(), flags=re.M)[1:]
    found = {}
    for path, below in zip(parts[::2], parts[1::2], strict=True):
        listed = re.search(r"^      members:(?: \[(.*)\]$|((?:\n        - \w+)+))", below, re.M)
        members = re.findall(r"\w+", (listed[1] or listed[2]).replace("- ", "")) if listed else []
        is_class = path.rpartition(".")[2][0].isupper() or not members
        found.update({path: below} if is_class else {f"{path}.{member}": below for member in members})
    return found


def has_example(name: str, text: str, below: str = "") -> bool:
    """Say whether a text has an example, its entry names a page that has one, or the reference itself has."""
    linked = re.findall(r"\]\((\w[\w-]*\.md)", below)
    pages = "\n".join((ROOT / "docs" / page).read_text() for page in ["api.md", "deploy.md", *linked])
    blocks = re.findall(r"^```python\n(.*?)^```$", pages, re.M | re.S)
    return ">>> " in text or "::\n" in text or any(re.search(rf"\b{name}\b", block) for block in blocks)


@pytest.mark.parametrize("name", sorted(set(logit_correction.__all__) - {"__version__", "functional"}))
def test_every_public_name_has_an_example(name: str) -> None:
    assert has_example(name, inspect.getdoc(getattr(logit_correction, name)) or "")


def test_every_object_of_the_reference_has_an_example() -> None:
    lacking = []
    for path, below in in_the_reference().items():
        module, _, name = path.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), name)
        except InputError:  # of an extra that is not installed
            continue
        if not inspect.ismodule(found) and not has_example(name, inspect.getdoc(found) or "", below):
            lacking.append(path)
    assert lacking == []


def test_the_reference_has_every_function() -> None:
    functions = {name for name in logit_correction.functional.__all__ if name[0].islower()}
    assert {f"logit_correction.functional.{name}" for name in functions} <= set(in_the_reference())


@pytest.mark.parametrize("name", ["Correlation", "GroupPrior", "load", "functional", *METHODS])
def test_names_that_stay_fixed(name: str) -> None:
    assert name in logit_correction.__all__ and getattr(logit_correction, name) is not None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_the_arguments_that_are_promised(name: str) -> None:
    function = getattr(logit_correction.functional, name)
    names = list(inspect.signature(function).parameters)
    assert names[: len(FUNCTIONS[name])] == FUNCTIONS[name]


def test_losses_and_margins_are_per_sample() -> None:
    import torch

    functional = logit_correction.functional
    logits, label = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    assert functional.generalized_cross_entropy(logits, label, 0.7).shape == (5,)
    assert functional.logit_corrected_cross_entropy(logits, label, torch.zeros(5, 3)).shape == (5,)
    assert functional.margin(logits, label).shape == (5,)


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
        assert found.__name__ == name
        assert base is None or issubclass(found, base)
        assert line and "\n" not in line and len(line) < 90


def test_every_view_has_a_class_and_every_preset_a_file() -> None:
    for name, (path, line) in VIEWS.items():
        module, _, attribute = path.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), attribute), View), name
        assert line and "\n" not in line
    files = {path.stem for path in (Path(logit_correction.__file__).parent / "presets").glob("*.yaml")}
    assert files == set(PRESETS) and all(line and "\n" not in line for line in PRESETS.values())


@pytest.mark.parametrize("known", [METHODS, SOURCES, NETWORKS], ids=["methods", "data", "networks"])
def test_the_page_of_what_is_here_names_all_that_there_is(known: dict[str, tuple[str, str]]) -> None:
    page = (ROOT / "docs" / "what-is-here.md").read_text()
    assert not [name for name in known if f"`{name}`" not in page]
    assert f"| views | {len(VIEWS)} kinds" in page


def test_commands_that_stay_fixed() -> None:
    assert {"quickstart", "train", "evaluate", "predict", "report", "benchmark", "list"} <= set(COMMANDS)
    for name in COMMANDS:
        module = importlib.import_module(f"logit_correction.cli.{name}_command")
        assert list(inspect.signature(module.main).parameters) == ["arguments"]


def test_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import entry_points, version

    assert version("logit-correction") == logit_correction.__version__
    scripts = {script.name: script.value for script in entry_points(group="console_scripts")}
    assert scripts["logit-correction"] == "logit_correction.cli:main"


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = "import sys, logit_correction; dir(logit_correction); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
