"""The scripts that put other tools beside the audit: what is exported, what counts as a hit, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from logit_correction.bench.planted import Planted

from .conftest import benchmark_script

export, tools, table = (
    benchmark_script("audit_export"),
    benchmark_script("audit_tools"),
    benchmark_script("audit_tools_table"),
)


def test_images_lie_in_a_folder_a_label(tmp_path: Path) -> None:
    data = Planted(set="digits", rows=100, labels="3,8", seed=0).build()
    export.export(data, tmp_path / "digits")
    files, label = tools.labelled_files(tmp_path / "digits")
    counts = {name: label.count(name) for name in ("3", "8")}
    assert len(files) == len(data.split["train"])
    assert json.loads((tmp_path / "digits" / "about.json").read_text()) == {
        "kind": "images",
        "rows": len(files),
        "labels": counts,
    }


def test_a_table_is_written_with_its_label_and_without_attribute(tmp_path: Path) -> None:
    data = Planted(set="column", rows=200, seed=0).build()
    export.export(data, tmp_path / "column")
    frame = tools.labelled_rows(tmp_path / "column")
    assert list(frame.columns) == [*data.columns, "label"]
    rows = data.split["train"]
    assert frame["label"].tolist() == [data.label_names[y] for y in data.label[rows].tolist()]
    assert frame["form_version"].tolist() == data.columns["form_version"][rows.numpy()].tolist()


def test_texts_keep_their_lines(tmp_path: Path) -> None:
    data = Planted(set="signature", rows=60, seed=0).build()
    export.export(data, tmp_path / "signature", rows=[4, 0])
    assert data.texts is not None
    first = [data.texts[int(data.split["train"][row])] for row in (4, 0)]
    assert pd.read_csv(tmp_path / "signature" / "rows.csv")["text"].tolist() == first


def test_the_imbalanced_rows_are_four_fifths_of_the_first_label() -> None:
    label = [0, 1, 2, 0, 1, 2] * 20
    rows = export.imbalanced_rows(label)
    kept = [label[row] for row in rows]
    assert kept.count(0) == 40 and kept.count(1) == kept.count(2) == 5
    assert rows == sorted(set(rows))


@pytest.mark.parametrize(
    ("name", "flag", "planted"),
    [
        ("cast", "Mean Red Relative Intensity", True),
        ("cast", "odd_size", False),
        ("blur", "Mean Red Relative Intensity", False),
        ("column", '`form_version` == "2019-A"', True),
        ("column", "capital", False),
        ("signature", '`text` contains "martin"', True),
        ("signature", '`text` contains "lovely"', False),
        ("topic", "Max Word Length", True),
        ("topic", "Sentiment", False),
    ],
)
def test_a_hit_is_a_flag_on_what_is_planted(name: str, flag: str, planted: bool) -> None:
    row = table.judged(name, False, {"flagged": {flag: 0.5}})
    assert row["outcome"] == ("hit" if planted else "another")
    assert table.judged(name, True, {"flagged": {flag: 0.5}})["outcome"] == "false alarm"


def test_a_tool_that_fails_or_has_no_check_neither_hits_nor_misses(tmp_path: Path) -> None:
    (tmp_path / "about.json").write_text('{"kind": "texts"}')
    found = tools.looked_at("cleanlab", tmp_path)  # which has no check of texts, installed or not
    assert table.judged("topic", False, found)["outcome"] == "no check"
    assert table.judged("topic", False, {"error": "ValueError: no"})["outcome"] == "error"


def test_the_page_counts_hits_and_false_alarms_and_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = {
        "cast": {"flagged": {"dark": 0.2}, "scores": {"dark": 0.2, "light": 0.9}},
        "cast-control": {"flagged": {}, "scores": {"dark": 0.6, "light": 0.9}},
        "blur": {"flagged": {"odd_size": 0.1}, "scores": {"odd_size": 0.1}},
        "blur-control": {"flagged": {"dark": 0.2}, "scores": {"dark": 0.2}},
        "topic": {"error": "no such check of texts"},
    }
    about = {"versions": {"cleanlab": "1"}, "date": "2026-01-01", "command": "python", "sets": sets}
    (tmp_path / "cleanlab.json").write_text(json.dumps(about))
    audits = [
        {"set": "cast", "control": False, "seed": 0, "verdict": "shortcut", "named": True, "views": ["colour"]},
        {"set": "cast", "control": True, "seed": 0, "verdict": "none", "views": []},
        {"set": "blur", "control": False, "seed": 1, "verdict": "none", "views": []},
    ]
    out = tmp_path / "audit"
    monkeypatch.setattr("sys.argv", ["table", "--tools", str(tmp_path), "--out", str(out)])
    table.main()
    assert "| cleanlab | 1 of 2 | 1 of 2 |" in (out / "tools.md").read_text()
    (out / "audit.json").write_text(json.dumps({"sets": audits}))
    monkeypatch.setattr("sys.argv", ["table", "--out", str(out)])
    table.main()
    page = (out / "tools.md").read_text()
    assert "| cleanlab | 1 of 2 | 1 of 2 |" in page and f"| {table.OURS} | 1 of 1 | 0 of 1 |" in page
    assert "| cast | hit: dark 0.20 |  |  | hit: colour |" in page
