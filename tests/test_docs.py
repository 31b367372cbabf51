"""README, CONTRIBUTING and docs: their Python runs, links lead somewhere, tables say what the program says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from logit_correction.attributes import ESTIMATORS
from logit_correction.cli import COMMANDS
from logit_correction.errors import MissingPackage
from logit_correction.methods import METHODS
from logit_correction.registry import import_component
from logit_correction.views import VIEWS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = sorted([*DOCS.rglob("*.md"), *(DOCS / "tutorials").glob("*.py")])
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
FENCE = re.compile(r"(?:<!-- not run: (?P<why>[^>]+) -->\n)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page.name == "README.md" else pytest.mark.slow)
        for page in PAGES
        if "```python" in page.read_text()
    ],
    ids=_name,
)
def test_python_code_of_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    text = page.read_text()
    for block in FENCE.finditer(text):
        if block["why"]:
            continue
        line = text[: block.start("code")].count("\n")
        # Blank lines in front make an error name the line of the page.
        try:
            exec(compile("\n" * line + block["code"], str(page), "exec"), names)
        except MissingPackage as error:  # the tests' environment has not every extra; CI runs these pages in another
            pytest.skip(str(error))
    for name, value in names.items():
        if name.startswith("test_") and callable(value):
            value()


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "lab").rglob("*.md"))], ids=_name)
def test_links_of_page_lead_to_files(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    # The gallery's pages are made when the site is built, which says if one is missing.
    assert [
        target for target in targets if not target.startswith("gallery/") and not (page.parent / target).exists()
    ] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md"], ids=_name)
def test_files_named_on_page_exist(page: Path) -> None:
    file_names = re.findall(r"`((?:tests|examples|lab)/[\w./-]+\w)", page.read_text())
    assert [name for name in file_names if not (ROOT / name).exists()] == []


def test_pages_install_from_the_checkout_and_show_no_backslash_in_code() -> None:
    for page in [*SITE, ROOT / "README.md"]:
        lines = page.read_text().splitlines()
        assert [
            line for line in lines if re.search(r"install .*'logit-correction\b", line) and "--no-index" not in line
        ] == []
        assert [line for line in lines if re.search(r"`[^`|]*\\\|[^`]*`", line)] == []


def test_every_command_has_one_section() -> None:
    headings = re.findall(r"^## (\w+)$", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert headings == list(dict.fromkeys(headings)) and set(headings) == set(COMMANDS)


def read_section_rows(heading: str) -> dict[str, list[str]]:
    """Return name -> cells of the first table under a heading of the page of parts."""
    section = (DOCS / "parts.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {name: cells.split(" | ") for name, cells in re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)}


@pytest.mark.parametrize(
    ("heading", "parts"), [("Methods", METHODS), ("Attribute estimators", ESTIMATORS), ("Views", VIEWS)]
)
def test_parts_and_rows_of_the_parts_page_match(heading: str, parts: dict[str, Any]) -> None:
    assert set(read_section_rows(heading)) == set(parts)


@pytest.mark.parametrize("name", VIEWS)
def test_row_of_a_view_repeats_its_description_and_breadth(name: str) -> None:
    looks_at, breadth = read_section_rows("Views")[name][:2]
    assert (looks_at, breadth) == (VIEWS[name][1], str(import_component("view", name, VIEWS).breadth))
