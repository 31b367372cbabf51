"""Pages name only options and environment variables that there are."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import logit_correction
from logit_correction.cli import COMMANDS, load_command
from logit_correction.data.splits import Splitting
from logit_correction.registry import import_component
from logit_correction.runs.options import ESTIMATOR_OPTIONS, PARTS, get_component_kinds
from logit_correction.runs.train import RANK_VARIABLES
from logit_correction.training.config import TrainingConfig

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "lab" / "README.md", *(ROOT / "docs").rglob("*.md")])

#: Options of other programs that the docs show.
OPTIONS_OF_OTHER_PROGRAMS = {
    *("extra", "system", "site", "no", "upgrade", "editable", "strict", "check"),
    *("index_url", "no_index", "find_links", "wheel_dir"),  # pip
    *("tag", "rm", "volume"),  # docker
    *("nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint"),  # torchrun
    *("ntasks_per_node", "array", "signal"),  # SLURM
}

OPTION = re.compile(r"(?<![\w-])--([a-z][a-z_-]*(?:\.[a-z_]+)*)")

#: A call of one of our own scripts, up to the end of the line or of the code.
SCRIPT = re.compile(r"lab/scripts/(\w+\.py)([^\n`]*)")

#: What stands between ``--`` and an option of a component, and the kind of the component.
COMPONENTS = {
    "method.attributes.attributes": "attributes",
    "method.attributes": "attributes",
    "method.prior": "prior",
    "method.mixing": "mixing",
    **{part: part for part in PARTS},
}


def list_command_options() -> set[str]:
    """The options that the commands themselves define, and those of training."""
    functions = [load_command(name) for name in COMMANDS]
    flags = {name for function in functions for name in inspect.signature(function).parameters}
    flags |= {"help", "help_all", "version", "debug", *ESTIMATOR_OPTIONS, "preset"}
    return flags | {field.name for field in fields(TrainingConfig)} | set(PARTS)


def list_options(kind: str) -> set[str]:
    """All options of all classes of a kind."""
    classes_by_name = get_component_kinds()[kind][1]
    classes = [import_component(kind, cls, classes_by_name) for cls in classes_by_name] + [
        Splitting
    ]  # whose options those of rows share
    return {name for cls in classes for name in inspect.signature(cls).parameters}


def is_option(option: str, command_options: set[str]) -> bool:
    if option.removeprefix("no_") in command_options or option in COMPONENTS or option in OPTIONS_OF_OTHER_PROGRAMS:
        return True
    for head, kind in COMPONENTS.items():
        name = option.removeprefix(f"{head}.")
        if name != option and (name in list_options(kind) or name in ("name", "x")):
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_named_on_page_exist(page: Path) -> None:
    command_options = list_command_options()
    text = page.read_text()
    option_names = {word.replace("-", "_") for word in OPTION.findall(SCRIPT.sub("", text))}
    assert {option for option in option_names if not is_option(option, command_options)} == set()
    for script, words in SCRIPT.findall(text):
        defined = (ROOT / "lab" / "scripts" / script).read_text()
        assert [option for option in OPTION.findall(words) if f'"--{option}"' not in defined] == []


def test_installation_page_names_every_environment_variable() -> None:
    sources = [path.read_text() for path in Path(logit_correction.__file__).parent.rglob("*.py")]
    pattern = r"environ(?:\.get|\.setdefault)?[\[(]\"([A-Z_]+)\""
    read = {name for text in sources for name in re.findall(pattern, text)}
    page = (ROOT / "docs" / "installation.md").read_text()
    assert len(read) > 3 and [name for name in sorted(read | set(RANK_VARIABLES)) if f"`{name}`" not in page] == []
