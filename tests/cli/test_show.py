"""What is printed of a finished run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logit_correction.cli.show import show_run

SENTENCE = "colour alone is right in 93%, the whole network in 93%"


def run_with(folder: Path, source: Path, evidence: dict[str, Any] | None) -> Path:
    """A finished run's folder with other evidence."""
    report = json.loads((source / "report.json").read_text())
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(report | {"evidence": evidence}))
    return folder


def printed(capsys: pytest.CaptureFixture[str], folder: Path) -> list[str]:
    capsys.readouterr()
    show_run(folder)
    return capsys.readouterr().out.splitlines()


def test_a_shortcut_and_what_to_say_if_it_is_none(
    finished: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"verdict": "shortcut", "views": ["colour"], "sentence": SENTENCE, "signs": [{"view": "colour"}]}
    lines = printed(capsys, run_with(tmp_path / "run", finished["LC"], found))
    place = lines.index(f"shortcut: colour. {SENTENCE}")
    assert lines[place + 1] == "corrected by colour; if colour is no accident, say so: --legitimate colour"


@pytest.mark.parametrize("verdict", ["none found", "cannot tell"])
def test_no_shortcut_and_how_to_name_one(
    finished: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], verdict: str
) -> None:
    found = {"verdict": verdict, "views": [], "sentence": "no view [red]tells", "signs": []}
    lines = printed(capsys, run_with(tmp_path / "run", finished["LC"], found))
    place = lines.index(f"shortcut: {verdict}. No view [red]tells")
    assert lines[place + 1] == (
        "nothing was corrected; if you know a shortcut, name it: --shortcut VIEW (`logit-correction list views`)"
    )


def test_a_shortcut_that_a_person_named(
    finished: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"verdict": "shortcut", "views": ["colour"], "sentence": "a person said so", "signs": []}
    lines = printed(capsys, run_with(tmp_path / "run", finished["LC"], found))
    assert "shortcut: colour. A person said so" in lines and not any("legitimate" in line for line in lines)


def test_nothing_where_nobody_looked(finished: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert not any("shortcut" in line for line in printed(capsys, finished["LC"]))
