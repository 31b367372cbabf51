"""The parts that CONTRIBUTING shows: each is a file of examples/extensions and one line, or an entry of one file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

import logit_correction
from logit_correction.cli import main

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "extensions"

#: A section of CONTRIBUTING: the file, its package, the dict, its file, and the line in it.
SECTION = re.compile(
    r"^\[`(?P<file>\w+\.py)`\]\(\S+\) goes to `(?P<package>\w+)/`, "
    r"and into `(?P<dict>\w+)` in `(?P<dict_file>\S+)`:\n\n"
    r"```text\n(?P<line>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = list(SECTION.finditer(CONTRIBUTING))

SHORT = ("--epochs", "1", "--threads", "1", "--device", "cpu")


def test_every_example_has_a_section() -> None:
    assert {section["file"] for section in SECTIONS} == {path.name for path in EXAMPLES.glob("*.py")}
    assert len({section["dict"] for section in SECTIONS}) == len(SECTIONS) == 7


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
        (*("--data", "Digits", "--method", "LC", "--shortcut", "brightness.Brightness"),),
    ],
    ids=["source, method and selection rule", "network, mixing and estimator", "view"],
)
def test_examples_train_by_dotted_path(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert main(["train", *words, *SHORT, "--out", str(tmp_path / "run")]) == 0


@pytest.mark.slow
def test_one_file_and_one_line_add_a_part_to_the_package(tmp_path: Path) -> None:
    package = tmp_path / "logit_correction"
    shutil.copytree(Path(logit_correction.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for section in SECTIONS:
        shutil.copy(EXAMPLES / section["file"], package / section["package"])
        names = package / section["dict_file"]
        text, num_replacements = re.subn(
            rf"^({section['dict']}\b.* = {{\n)", rf"\g<1>    {section['line']}", names.read_text(), flags=re.MULTILINE
        )
        assert num_replacements == 1
        names.write_text(text)
    candidate, function, kind = re.findall(
        r"^```text\n(def parse_percentages.*?|\"percentages\": .*?|\"Early\": \"what.*?)^```$",
        CONTRIBUTING,
        re.MULTILINE | re.DOTALL,
    )
    for file, start, entry in (
        ("data/column_kinds.py", "KINDS = {\n", f"{function}\n\nKINDS = {{\n    {kind}"),
        ("shortcuts/candidates.py", "ESTIMATORS = {\n", f"ESTIMATORS = {{\n    {candidate}"),
    ):
        text = (package / file).read_text()
        assert text.count(f"\n{start}") == 1
        (package / file).write_text(text.replace(start, entry))
    table = pd.DataFrame({"dose": [f"{row % 24} %" for row in range(240)], "site": ["a", "b", "c"] * 80})
    table.assign(ill=["no", "yes"] * 120).to_csv(tmp_path / "rows.csv", index=False)
    table[::-1].to_csv(tmp_path / "new.csv", index=False)
    report = package / "evaluation" / "report.py"
    figure = re.findall(r"^```text\n(error: .*)\n```$", CONTRIBUTING, re.MULTILINE)[0]
    column = 'half: float | None = metric_field("Half a column", lambda rows: [0.5] * len(rows.group_names))'
    text = report.read_text().replace("    f1: float", f"    {figure}\n    f1: float", 1)
    report.write_text(re.sub(r"^(    margin_mean: .*)$", rf"\1\n    {column}", text, count=1, flags=re.MULTILINE))

    parts = ("--data", "Points", "--network", "ResidualMLP", "--method", "LC", "--method.mixing", "Noise")
    view = ("--method", "Reweighting", "--shortcut", "brightness")
    rows = ("--data", "rows.csv", "--data.label", "ill")
    commands = [
        ["list", "--all"],
        ["train", *parts, "--method.attributes", "Early", *SHORT, "--out", "lc"],
        ["train", "--data", "Points", "--method", "FocalLoss", *SHORT, "--out", "focal"],
        ["train", "--data", "Digits", *view, *SHORT, "--out", "view"],
        ["report", "lc", "focal", "--out", "both.html"],
        ["train", *rows, "--method", "ERM", *SHORT, "--out", "percentages"],
        ["audit", *rows, "--new-rows", "new.csv", *SHORT, "--out", "audit"],
    ]
    # One process, for its start takes longer than all of them.
    program = f"from logit_correction.cli import main\nassert not any(map(main, {commands!r}))"
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert process.returncode == 0, process.stderr
    output = process.stdout
    for section in SECTIONS:
        name, line = re.findall(r'"([^"]+)"', section["line"])[::2]
        assert section["dict"] == "MIXING" or re.search(rf"^  {name} +{re.escape(line)}$", output, re.MULTILINE)
    assert "LC by Early" in (tmp_path / "audit" / "audit.json").read_text()
    preparation = json.loads((tmp_path / "percentages" / "report.json").read_text())["data"]["preparation"]
    assert [column["kind"] for column in preparation["columns"]] == ["percentages", "names"]
    test_reports = [json.loads((tmp_path / run / "report.json").read_text())["test"] for run in ("lc", "focal")]
    assert all(test_report["groups"][0]["half"] == 0.5 for test_report in test_reports)
    errors = [test_report["error"] for test_report in test_reports]
    assert errors == pytest.approx([1 - test_report["average"] for test_report in test_reports])
    assert len(re.findall(r"\bError\b", output)) == 4  # a heading of each console table
    page = (tmp_path / "both.html").read_text()
    assert "<b>Error rate</b>: rows that are wrong" in page and "Error rate: " in page.split("<table")[0]
    assert f'class="num best" data-name="Error rate">{100 * min(errors):.1f}<' in page  # the smallest error
    method = yaml.safe_load((tmp_path / "lc" / "config.yaml").read_text())["method"]
    assert method["attributes"] == {"name": "Early", "epochs": 1} and method["mixing"]["deviation"] == 0.1
