"""``quickstart``: both methods on the embedded digits, one table, one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logit_correction.cli import quickstart_command


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quickstart_command, "EPOCHS", 2)


def test_quickstart_writes_two_runs_and_a_page_and_goes_on(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_files: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = command("quickstart", "--seed", "3")
    assert outcome.status == 0, outcome.err
    out = tmp_path / "quickstart"
    assert {path.name for path in out.iterdir()} == {"ERM", "LC", "report.html"}
    for method in ("ERM", "LC"):
        assert {path.name for path in (out / method).iterdir()} == run_files
        report = json.loads((out / method / "report.json").read_text())
        assert (report["method"], report["seed"], report["epochs"]) == (method, 3, 2)
        assert report["data"]["name"] == "Digits" and report["data"]["options"]["seed"] == 3
        assert f"{100 * report['test']['group_balanced']:.1f}" in outcome.out
    assert "ERM and LC on Digits" in (out / "report.html").read_text()
    assert "page: quickstart/report.html" in outcome.out
    assert "1,197 train, 200 valid, 4,000 test rows" in outcome.err

    reports = [out / method / "report.json" for method in ("ERM", "LC")]
    before = [path.stat().st_mtime_ns for path in reports]
    (out / "report.html").unlink()
    again = command("quickstart", "--seed", "3")
    assert again.status == 0 and again.out == outcome.out and "step" not in again.err
    assert [path.stat().st_mtime_ns for path in reports] == before
    assert (out / "report.html").exists()

    message = command("quickstart", "--seed", "4").error()
    assert "quickstart/ERM" in message and "seed = 3, not 4" in message and "another --out" in message


def test_quickstart_that_is_stopped_says_how_to_go_on(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logit_correction.errors import Interrupted

    def stop(*_: Any, **__: Any) -> None:
        raise Interrupted

    monkeypatch.setattr("logit_correction.runs.train.train", stop)
    outcome = command("quickstart", "--out", tmp_path / "my runs", "--seed", "5")
    assert outcome.status == 130
    assert f"logit-correction quickstart --out '{tmp_path}/my runs' --seed 5" in outcome.err


def test_quickstart_refuses_what_is_in_the_way(command: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "file/ERM cannot be written" in command("quickstart", "--out", tmp_path / "file").error()
    (tmp_path / "full" / "ERM").mkdir(parents=True)
    (tmp_path / "full" / "ERM" / "notes").write_text("mine")
    assert "full/ERM is not empty" in command("quickstart", "--out", tmp_path / "full").error()
    assert not (tmp_path / "full" / "LC").exists()
