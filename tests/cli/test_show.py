"""What is printed of a finished run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from logit_correction.cli.show import announce, show_run
from logit_correction.config import ComponentConfig, RunConfig
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable

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


def test_of_many_labels_the_rarest_and_the_commonest_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    label = torch.arange(40).repeat_interleave(torch.arange(1, 41))
    rows = {"train": torch.arange(len(label)), "valid": torch.arange(2), "test": torch.arange(2)}
    names = [f"kind {y}" for y in range(40)]
    table = DataTable(ArrayStore(label[:, None].float()), label, torch.full_like(label, -1), rows, names, [])
    announce(RunConfig(ComponentConfig("Table"), ComponentConfig("ERM")), table)
    told = next(line for line in capsys.readouterr().err.splitlines() if "rows per label" in line)
    assert "40 labels, the fewest kind 0 1, kind 1 2," in told and told.endswith("kind 38 39, kind 39 40")
    assert "kind 20" not in told


@pytest.mark.parametrize(("many", "labels"), [(100, 100), (3, 60), (40, 3)])
def test_groups_that_have_no_room_are_counted(
    many: int, labels: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = torch.arange(1200)
    table = DataTable(
        inputs=ArrayStore(torch.zeros(1200, 2)),
        label=rows % labels,
        attribute=rows % many,
        split={"train": rows[:600], "valid": rows[600:900], "test": rows[900:]},
        label_names=[f"class {y}" for y in range(labels)],
        attribute_names=[f"mark {a}" for a in range(many)],
    )
    announce(RunConfig(ComponentConfig("Table"), ComponentConfig("ERM")), table)
    lines = capsys.readouterr().err.splitlines()
    counts = table.group_counts("train")
    assert lines[1:] == [
        f"{labels} labels x {many} attribute values: {int((counts == 0).sum()):,} of {labels * many:,} groups have no "
        f"training rows, the largest has {int(counts.max())}"
    ]
