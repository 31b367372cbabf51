"""README, CONTRIBUTING and docs: their Python runs, their links lead somewhere, and cards say what the program says."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from logit_correction.attributes import ESTIMATORS
from logit_correction.errors import MissingPackage
from logit_correction.methods import METHODS
from logit_correction.registry import resolve
from logit_correction.views import VIEWS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
FENCE = re.compile(r"(?:<!-- not run: (?P<why>[^>]+) -->\n)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
#: Arguments of a part that are no options.
NOT_OPTIONS = {"network", "info", "seed", "biased_network"}


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
    # The gallery's pages are made when the site is built, which says if one is missing.
    assert [
        target for target in targets if not target.startswith("gallery/") and not (page.parent / target).exists()
    ] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md"], ids=_name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(r"`((?:tests|benchmarks|examples|configs|results)/[\w./-]+\w)", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def sentences(page: str) -> list[str]:
    """Return the sentences of a page's paragraphs and lists: no code, no table, no heading, no formula."""
    page = re.sub(
        r"<!--.*?-->|^```.*?^```|^\$\$.*?^\$\$|^:::[^\n]*(?:\n [^\n]*)*", "", page, flags=re.DOTALL | re.MULTILINE
    )
    blocks = [block.strip() for block in re.split(r"\n\s*\n|\n(?=[-*#|>]|\d+\. )", page)]
    texts = [re.sub(r"\]\([^)]*\)", "]", block) for block in blocks if block and block[0] not in "|#!"]
    return [one for text in texts for one in re.split(r"(?<=[.!?])\s+(?=[A-Z\"`*\[(])", " ".join(text.split()))]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "changelog.md"], ids=_name)
def test_no_sentence_of_a_page_has_more_than_35_words(page: Path) -> None:
    assert [one for one in sentences(page.read_text()) if len(one.split()) > 35] == []


def test_the_readme_has_at_most_100_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


@pytest.mark.parametrize("name", ["quickstart", "tests"])
def test_readme_marks_the_two_commands_that_ci_runs(name: str) -> None:
    fence = re.compile(rf"^<!-- ci: {name} -->\n```bash\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
    blocks = fence.findall((ROOT / "README.md").read_text())
    assert len(blocks) == 1 and blocks[0].startswith("python3 -m venv .venv && .venv/bin/pip install ")


def cards(page: str) -> dict[str, dict[str, str]]:
    """Return heading -> row name -> text of a page's cards."""
    found = {}
    for heading, body in re.findall(r"^##+ (\w+)\n(.*?)(?=^##|\Z)", (DOCS / "cards" / page).read_text(), re.M | re.S):
        rows = dict(re.findall(r"^\| (\w[\w ]*) \| (.*) \|$", body, re.M))
        if rows:
            found[heading] = rows
    return found


PARTS = {
    **{("method", name): card for name, card in cards("methods.md").items()},
    **{("attributes", name): card for name, card in cards("estimators.md").items()},
    **{("view", name): card for name, card in cards("views.md").items()},
}
REGISTERED: dict[str, Any] = {"method": METHODS, "attributes": ESTIMATORS, "view": VIEWS}


def test_each_part_has_a_card_and_each_card_a_part() -> None:
    assert set(PARTS) == {(kind, name) for kind, known in REGISTERED.items() for name in known}


@pytest.mark.parametrize(("kind", "name"), [part for part in PARTS if part[0] != "view"], ids=" ".join)
def test_a_card_has_the_options_of_its_class(kind: str, name: str) -> None:
    options = inspect.signature(resolve(kind, name, REGISTERED[kind])).parameters
    shown = [f"`{option}`" for option in options if option not in NOT_OPTIONS]
    assert PARTS[kind, name]["Options"] == (", ".join(shown) or "none")


@pytest.mark.parametrize(("kind", "name"), [part for part in PARTS if part[0] != "view"], ids=" ".join)
def test_figures_of_a_card_stand_in_the_results(kind: str, name: str) -> None:
    results = "".join(page.read_text() for page in (ROOT / "results").glob("*/README.md"))
    rows = PARTS[kind, name]["Figures"] + " " + PARTS[kind, name]["Costs"]
    figures = re.findall(r"(?<![\w.-])\d*\.\d+(?![\w.])", re.sub(r"\]\([^)]*\)", "]", rows))
    assert [figure for figure in figures if figure not in results] == []


@pytest.mark.parametrize("name", VIEWS)
def test_the_card_of_a_view_says_what_it_looks_at(name: str) -> None:
    card = PARTS["view", name]
    assert card["Looks at"] == VIEWS[name][1]
    assert card["Breadth"].startswith(str(resolve("view", name, VIEWS).breadth))


def test_the_source_distribution_and_the_image_hold_what_there_is() -> None:
    tomllib = pytest.importorskip("tomllib")
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    included = {name.strip("/") for name in built["sdist"]["include"]}
    assert [name for name in sorted(included) if not (ROOT / name).exists()] == []
    suffixes = (".md", ".py", ".yml", ".cff")
    assert {path.name for path in ROOT.glob("*") if path.is_file() and path.suffix in suffixes} <= included
    assert {line.strip("/") for line in (ROOT / ".dockerignore").read_text().split()} & included == set()


@pytest.fixture(scope="module")
def tutorials() -> ModuleType:
    """The hook that runs tutorials when the site is built."""
    for package in ("jupytext", "mkdocs", "nbclient", "ipykernel", "nbconvert"):
        pytest.importorskip(package)
    spec = importlib.util.spec_from_file_location("tutorials", DOCS / "_extensions" / "tutorials.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tutorials_install_first_and_end_with_what_to_conclude(tutorials: ModuleType) -> None:
    for script in sorted((DOCS / "tutorials").glob("*.py")):
        cells = json.loads(tutorials.as_notebook(script))["cells"]
        first = next(cell for cell in cells if cell["cell_type"] == "code")
        assert "".join(first["source"]).startswith("%pip install") and first["metadata"]["tags"] == ["skip-execution"]
        assert "## What to conclude" in "".join(cells[-1]["source"])
        assert f"tutorials/{script.name}\n" in (ROOT / "mkdocs.yml").read_text()


@pytest.mark.slow
def test_a_tutorial_is_run_once_and_one_that_fails_stops_the_build(tmp_path: Path, tutorials: ModuleType) -> None:
    from mkdocs.exceptions import PluginError

    script = tmp_path / "small.py"
    script.write_text("# %% [markdown]\n# # Small\n\n# %%\nprint(6 * 7)\n")
    place = tutorials.executed(script, tmp_path)
    assert tutorials.executed(script, tmp_path) == place
    text, _ = tutorials.as_markdown(tutorials.read(place / "notebook.ipynb"), "small")
    assert text.startswith("# Small\n\n[Download as a notebook](small.ipynb)") and "\n    42\n" in text
    script.write_text("# %%\nraise ValueError('no such thing')\n")
    with pytest.raises(PluginError, match=r"(?s)small\.py does not run.*no such thing"):
        tutorials.executed(script, tmp_path)
