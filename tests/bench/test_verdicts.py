"""The verdicts of a grid's data without the training that follows."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from ..conftest import benchmark_script

GRID = {
    "title": "One table",
    "seeds": 1,
    "common": {"data": {"name": "Planted", "rows": 600}, "device": "cpu", "threads": 1, "epochs": 4},
    "rows": {"ERM": {"method": {"name": "ERM"}}, "LC": {"method": {"name": "LC"}}},
    "columns": {"column": {"data": {"set": "column"}}, "column, control": {"data": {"set": "column", "control": True}}},
}


def test_only_what_is_not_in_the_file_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, out = benchmark_script("verdicts"), tmp_path / "verdicts.csv"
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(GRID))
    words = ["verdicts.py", str(tmp_path / "grid.yaml"), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [*words, "--columns", "control"])
    script.main()
    (control,) = pd.read_csv(out).to_dict("records")
    assert control["column"] == "column, control" and control["verdict"] != "shortcut"
    marked = pd.read_csv(out).assign(sentence="was here")
    marked.to_csv(out, index=False)
    monkeypatch.setattr(sys, "argv", words)
    script.main()
    found = pd.read_csv(out).set_index("column")
    assert found.loc["column, control", "sentence"] == "was here"
    assert found.loc["column", "view"] == "column:form_version" and found.loc["column", "verdict"] == "shortcut"
