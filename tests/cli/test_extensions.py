"""The parts that CONTRIBUTING shows: the same code as in examples/extensions, each of one file and one line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import logit_correction

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "extensions"

#: A section of CONTRIBUTING: where the file goes, its code, the dict, and the line in it.
SECTION = re.compile(
    r"^`src/logit_correction/(?P<path>[\w/]+\.py)`:\n\n```python\n(?P<code>.*?)^```$"
    r".*?^The line in `(?P<dict>\w+)`:\n\n```text\n(?P<line>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SECTIONS = list(SECTION.finditer((ROOT / "CONTRIBUTING.md").read_text()))

#: Where the dicts are.
DICTS = {
    "METHODS": "methods/__init__.py",
    "VIEWS": "views/__init__.py",
    "ESTIMATORS": "attributes/__init__.py",
    "MIXING": "methods/mixing.py",
    "NETWORKS": "networks/__init__.py",
    "SOURCES": "data/__init__.py",
    "RULES": "training/__init__.py",
}

SHORT = ("--epochs", "1", "--threads", "1", "--device", "cpu")


def test_every_example_is_shown_and_every_kind_has_one() -> None:
    shown = {Path(section["path"]).name: section["code"] for section in SECTIONS}
    assert shown == {path.name: path.read_text() for path in EXAMPLES.glob("*.py")}
    assert {section["dict"] for section in SECTIONS} == set(DICTS)


@pytest.mark.parametrize(
    "words",
    [
        (
            *("--data", "points.Points", "--method", "focal_loss.FocalLoss", "--method.gamma", "1"),
            *("--selection", "geometric_mean.GeometricMean"),
        ),
        (
            *("--data", "points.Points", "--data.minority_ratio", "0.1", "--network", "residual_mlp.ResidualMLP"),
            *("--network.blocks", "1", "--method", "LC", "--method.mixing", "noise.Noise"),
            *("--method.attributes", "early.Early"),
        ),
        (
            *("--data", "Digits", "--method", "LC", "--method.attributes", "CrossFitted"),
            *("--method.attributes.view", "brightness.Brightness"),
        ),
    ],
    ids=["source, method and selection rule", "network, mixing and estimator", "view"],
)
def test_examples_train_by_their_dotted_paths(
    words: tuple[str, ...], command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    done = command("train", *words, *SHORT, "--out", tmp_path / "run")
    assert done.status == 0, done.err


@pytest.mark.slow
def test_one_file_and_one_line_make_a_part_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "logit_correction"
    shutil.copytree(Path(logit_correction.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for section in SECTIONS:
        shutil.copy(EXAMPLES / Path(section["path"]).name, package / section["path"])
        names = package / DICTS[section["dict"]]
        text, found = re.subn(
            rf"^({section['dict']}\b.* = {{\n)", rf"\g<1>    {section['line']}", names.read_text(), flags=re.MULTILINE
        )
        assert found == 1
        names.write_text(text)

    parts = ("--data", "Points", "--network", "ResidualMLP", "--method", "LC", "--method.mixing", "Noise")
    view = ("--method", "Reweighting", "--method.attributes", "CrossFitted", "--method.attributes.view", "brightness")
    commands = [
        ["list"],
        ["train", *parts, "--method.attributes", "Early", *SHORT, "--out", "lc"],
        ["train", "--data", "Points", "--method", "FocalLoss", *SHORT, "--out", "focal"],
        ["train", "--data", "Digits", *view, *SHORT, "--out", "view"],
    ]
    # One process, for its start takes longer than all of them.
    program = f"from logit_correction.cli import main\nassert not any(map(main, {commands!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    listed = done.stdout
    for section in SECTIONS:
        name, line = re.findall(r'"([^"]+)"', section["line"])[::2]
        assert section["dict"] == "MIXING" or re.search(rf"^  {name} +{re.escape(line)}$", listed, re.MULTILINE)
    method = yaml.safe_load((tmp_path / "lc" / "config.yaml").read_text())["method"]
    assert method["attributes"] == {"name": "Early", "epochs": 1} and method["mixing"]["deviation"] == 0.1
