"""Columns, labels and groups called yes, no, on or off: texts everywhere, or an error that says to quote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

COLUMNS = {"no", "on", "off"}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A table whose label, attribute and columns have such names, and a file of given attributes; in its folder."""
    draw = np.random.default_rng(0)
    label = draw.integers(0, 2, 240)
    attribute = np.where(draw.random(240) < 0.9, label, 1 - label)
    frame = pd.DataFrame(
        {
            "Yes": np.where(label, "Yes", "No"),
            "no": np.where(attribute, "on", "off"),
            "on": draw.normal(size=240) + label,
            "off": draw.normal(size=240),
        }
    )
    monkeypatch.chdir(tmp_path)
    frame.to_csv("table.csv", index=False)
    pd.DataFrame({"row": range(240), "attribute": frame["no"]}).to_csv("given.csv", index=False)
    return frame


def test_column_and_label_names_stay_texts(table: pd.DataFrame, run_command: Any) -> None:
    data = ("--data", "table.csv", "--data.label", "Yes", "--data.features", "[on,off]", "--data.attribute", "no")
    attribute_options = ("--method.attributes", "Given", "--method.attributes.file", "given.csv")
    result = run_command("train", *data, "--method", "LC", *attribute_options, "--epochs", "1", "--out", "run")
    assert result.status == 0, result.err
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert (config["data"]["label"], config["data"]["attribute"]) == ("Yes", "no")
    groups = json.loads(Path("run/report.json").read_text())["test"]["groups"]
    assert {(group["label"], group["attribute"]) for group in groups} == {
        ("Yes", "on"),
        ("Yes", "off"),
        ("No", "on"),
        ("No", "off"),
    }
    assert run_command("predict", "run", "table.csv", "--out", "answers.csv").status == 0
    assert set(pd.read_csv("answers.csv", dtype=str)["label"]) <= {"Yes", "No"}
    (Path("again.yaml")).write_text(Path("run/config.yaml").read_text())  # as people copy it
    assert run_command("train", "--config", "again.yaml", "--print-config").status == 0


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("label: Yes, attribute: 'no'", "'Yes'"),
        ("label: 'Yes', attribute: no", "'no'"),
        ("label: 'Yes', features: [on]", "'on'"),
    ],
)
def test_unquoted_word_in_a_config_is_refused(table: pd.DataFrame, option: str, word: str, run_command: Any) -> None:
    Path("config.yaml").write_text(f"data: {{name: Table, file: table.csv, {option}}}\nmethod: ERM\nepochs: 1\n")
    result = run_command("train", "--config", "config.yaml", "--out", "run")
    assert result.status == 2 and f"quote it, as {word}" in result.err and not Path("run").exists()


def test_unquoted_word_in_a_grid_is_refused(table: pd.DataFrame, run_command: Any) -> None:
    pytest.importorskip("logit_correction_lab")
    content = "title: t\nrows: {no: {method: ERM}, off: {method: LC}}\ncolumns: {digits: {data: Digits}}\nseeds: 1\n"
    Path("grid.yaml").write_text(content)
    result = run_command("benchmark", "grid.yaml", "--out", "grid")
    assert result.status == 2 and "quote it, such as 'no'" in result.err
