"""Tutorials are notebooks that install first and end with what to conclude; the site runs them when it is built."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))

SMALL = """# %% [markdown]
# # Small

# %% tags=["skip-execution"]
# %pip install nothing-that-is-there

# %%
from matplotlib import pyplot
_ = pyplot.plot([1, 2])

# %%
from pathlib import Path
Path("seen").touch(exist_ok=False)
print(6 * 7)
"""

pytest.importorskip("jupytext")
pytest.importorskip("mkdocs")


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs" / "_extensions" / "tutorials.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_tutorial_installs_first_and_ends_with_what_to_conclude(script: Path, hook: ModuleType) -> None:
    cells = json.loads(hook.as_notebook(script))["cells"]
    assert cells[0]["cell_type"] == "markdown" and "".join(cells[0]["source"]).startswith("# ")
    first = next(cell for cell in cells if cell["cell_type"] == "code")
    assert "".join(first["source"]).startswith("%pip install") and first["metadata"]["tags"] == ["skip-execution"]
    last = "".join(cells[-1]["source"])
    assert "## What to conclude" in last and "## What not to conclude" in last


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_tutorial_is_python_and_stands_in_the_nav(script: Path) -> None:
    ast.parse(script.read_text())
    assert f"tutorials/{script.name}\n" in (ROOT / "mkdocs.yml").read_text()


def test_a_script_is_run_once_and_shown_with_outputs_and_download(tmp_path: Path, hook: ModuleType) -> None:
    pytest.importorskip("nbclient"), pytest.importorskip("ipykernel"), pytest.importorskip("nbconvert")
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    place = hook.executed(script, tmp_path)
    assert hook.executed(script, tmp_path) == place
    text, pictures = hook.as_markdown(hook.read(place / "notebook.ipynb"), "small")
    assert (
        text.startswith("# Small\n\n[Download as a notebook](small.ipynb)")
        and "\n    42\n" in text
        and [len(one) > 1000 for one in pictures.values()] == [True]
    )
    assert (place / "work" / "seen").exists()


def test_a_script_that_fails_stops_the_build_by_its_name(tmp_path: Path, hook: ModuleType) -> None:
    pytest.importorskip("nbclient"), pytest.importorskip("ipykernel")
    from mkdocs.exceptions import PluginError

    script = tmp_path / "broken.py"
    script.write_text("# %%\nraise ValueError('no such thing')\n")
    with pytest.raises(PluginError, match=r"(?s)broken\.py does not run.*no such thing"):
        hook.executed(script, tmp_path)
    assert not list(tmp_path.rglob("notebook.ipynb"))
