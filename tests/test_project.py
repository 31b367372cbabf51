"""What the project's files say of one another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


@pytest.fixture
def python_versions() -> list[str]:
    """The versions of Python of the classifiers, in rising order."""
    return sorted(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT), key=parse_version)


def test_classifiers_list_python_versions_from_the_required_one_without_a_gap(python_versions: list[str]) -> None:
    (oldest,) = re.findall(r'^requires-python = ">=([\d.]+)"', PROJECT, re.MULTILINE)
    first = parse_version(oldest)[1]
    assert python_versions == [f"3.{minor}" for minor in range(first, first + len(python_versions))]


def test_workflow_runs_on_the_oldest_and_the_newest_python(python_versions: list[str]) -> None:
    job = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["run"]
    assert job["strategy"]["matrix"]["python"] == [python_versions[0], python_versions[-1]]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == [".ci/run"] and (ROOT / ".ci" / "run").stat().st_mode & 0o100
    (setup,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@")]
    assert setup["with"]["python-version"] == "${{ matrix.python }}"
