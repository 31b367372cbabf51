"""What may be written where, and what is cleared up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from logit_correction import ComponentConfig, InputError, RunConfig
from logit_correction.runs import folder as files
from logit_correction.runs.options import complete


def test_json_is_strict_and_complete_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    files.write_json(path, {"name": "Ä", "value": None})
    assert json.loads(path.read_text(encoding="utf-8")) == {"name": "Ä", "value": None}
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(path, {"value": float("nan")})
    assert json.loads(path.read_text())["value"] is None
    assert list(tmp_path.iterdir()) == [path]


def test_sweep_removes_what_a_killed_run_left_and_nothing_else(tmp_path: Path) -> None:
    keep = ["report.json", "notes.txt", ".hidden", "resume.txt", "my-report-1.json"]
    left = ["resume.pt", ".resume-0123.pt", ".report-abc.json", ".checkpoint-1.pt", ".predictions-1.parquet"]
    for name in (*keep, *left):
        (tmp_path / name).write_text("")
    files.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(keep)


def test_disk_is_asked_where_the_folder_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    usage = type(shutil.disk_usage(tmp_path))

    def ask(path: Path) -> object:
        asked.append(path)
        return usage(100, 60, 40)

    monkeypatch.setattr(shutil, "disk_usage", ask)
    files.check_disk(tmp_path / "not" / "yet", 40)
    with pytest.raises(InputError, match="make room"):
        files.check_disk(tmp_path / "not" / "yet", 41)
    assert asked == [tmp_path, tmp_path]


def test_options_have_the_names_of_the_command_line() -> None:
    online = ComponentConfig("LC", {"attributes": "Online"})
    flat = files.flat_options(complete(RunConfig(ComponentConfig("Digits"), online, ComponentConfig("MLP"))))
    assert flat["data.name"] == "Digits" and "method.strength" in flat and flat["network.hidden"] == [100, 100, 100]
    assert flat["method.attributes.name"] == "Online" and flat["method.attributes.q"] == 0.7
    assert flat["method.mixing.limit"] == 0.3 and flat["method.prior"] is None
    names = ["data.name", "method.attributes.name", "method.mixing.name", "method.name", "network.name"]
    assert sorted(list(flat)[:5]) == names
    assert "epochs" in flat


def test_an_empty_folder_and_a_new_one_will_do(tmp_path: Path) -> None:
    config = complete(RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM")))
    for folder in (tmp_path, tmp_path / "new"):
        for resume in (False, True):
            files.check_out(folder, config, resume)
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_nothing_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "nowhere").write_text("a file")
    with pytest.raises(InputError, match="link is a file"):
        files.check_out(
            tmp_path / "link", complete(RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM"))), False
        )
    with pytest.raises(InputError, match="cannot be written"):
        files.make(tmp_path / "link")
