"""The Python in README, CONTRIBUTING and docs runs, and the links of these pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logit_correction.errors import MissingPackage

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"(?:<!-- not run: (?P<why>[^>]+) -->\n)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=_name)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    # Pages of the gallery are made when the site is built, which says if one is missing.
    targets = [target for target in targets if not target.startswith("gallery/")]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_no_page_is_left_unfinished(page: Path) -> None:
    assert "TODO" not in page.read_text()


@pytest.mark.parametrize("name", ["quickstart", "tests"])
def test_readme_marks_the_two_commands_that_ci_runs(name: str) -> None:
    fence = re.compile(rf"^<!-- ci: {name} -->\n```bash\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
    blocks = fence.findall((ROOT / "README.md").read_text())
    assert len(blocks) == 1
    assert blocks[0].startswith("python3 -m venv .venv && .venv/bin/pip install ")
