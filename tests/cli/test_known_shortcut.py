"""What a person knows of a shortcut, and several seeds at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = ["--data", "Planted", "--data.set", "column", "--data.rows", "400"]
SHORT = ["--epochs", "2", "--device", "cpu", "--threads", "1"]


def test_shortcut_and_legitimate_reach_the_estimator(command: Any, tmp_path: Path) -> None:
    known = ["--shortcut", "column:form_version", "--legitimate=column:capital"]
    done = command("train", *DATA, "--method", "LC", *known, *SHORT, "--out", str(tmp_path / "run"))
    assert done.status == 0, done.err
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    attributes = report["method_options"]["attributes"]
    assert attributes["shortcut"] == ["column:form_version"] and attributes["legitimate"] == ["column:capital"]
    assert report["evidence"]["view"] == "column:form_version"


def test_a_view_that_is_not_there_is_refused(command: Any, tmp_path: Path) -> None:
    wrong = command("train", *DATA, "--method", "LC", "--shortcut", "colour", *SHORT, "--out", str(tmp_path / "a"))
    assert "view 'colour' does not apply" in wrong.error()
    unknown = command("train", *DATA, "--method", "LC", "--shortcut", "colum", *SHORT, "--out", str(tmp_path / "b"))
    assert "did you mean column" in unknown.error()
    empty = command("train", *DATA, "--method", "LC", "--shortcut", *SHORT, "--out", str(tmp_path / "c"))
    assert "--shortcut needs a value" in empty.error()
    erm = command("train", *DATA, "--method", "ERM", "--shortcut", "column", *SHORT, "--out", str(tmp_path / "d"))
    assert "methods that look for a shortcut" in erm.error()
    assert not any(tmp_path.iterdir())


def test_several_seeds_make_a_folder_each_and_one_page(command: Any, tmp_path: Path) -> None:
    words = ["train", *DATA, "--method", "ERM", *SHORT, "--seeds", "2", "--out", str(tmp_path / "runs")]
    done = command(*words)
    assert done.status == 0, done.err
    assert "in the mean of 2 seeds" in done.out and (tmp_path / "runs" / "report.html").is_file()
    reports = [json.loads((tmp_path / "runs" / f"seed-{seed}" / "report.json").read_text()) for seed in (0, 1)]
    assert [report["seed"] for report in reports] == [0, 1]
    assert reports[0]["test"]["average"] != reports[1]["test"]["average"]
    assert command(*words).status == 0  # what is finished stays
    words = ["train", *DATA, "--method", "LC", *SHORT, "--seeds", "2", "--out", str(tmp_path / "searched")]
    out = command(*words).out
    assert "seed 0: shortcut: " in out and "seed 1: shortcut: " in out
    assert "must be at least 1" in command("train", *DATA, "--method", "ERM", "--seeds", "0", "--out", "x").error()
