"""What is handed out holds what its tests read: the source distribution, and the image that the Dockerfile builds."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def included() -> set[str]:
    """Names at the top of the source distribution."""
    tomllib = pytest.importorskip("tomllib")
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    return {name.strip("/") for name in built["sdist"]["include"]}


def test_the_source_distribution_names_what_there_is(included: set[str]) -> None:
    assert [name for name in sorted(included) if not (ROOT / name).exists()] == []
    here = {
        path.name
        for path in ROOT.glob("*")
        if path.is_file() and path.suffix in (".md", ".py", ".toml", ".yml", ".cff")
    }
    assert here - included - {"pyproject.toml"} == set()  # which is always taken


def test_the_image_holds_what_the_source_distribution_holds(included: set[str]) -> None:
    left_out = {line.strip("/") for line in (ROOT / ".dockerignore").read_text().split()}
    assert left_out & included == set()
