"""``report``: one page from several run folders, without model or data."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest


def test_page_compares_two_runs_and_loads_nothing(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    outcome = command("report", finished["ERM"], finished["LC"], "--out", out)
    assert (outcome.status, outcome.out, outcome.err) == (0, f"{out}\n", "")
    page = out.read_text()
    assert "ERM and LC on Digits" in page and "<script" not in page
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|#)""", page)
    assert not re.findall(r"url\((?!#)|@import", page)
    assert list(tmp_path.iterdir()) == [out]


def test_page_needs_neither_model_nor_data(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    run = shutil.copytree(finished["LC"], tmp_path / "run")
    for name in ("checkpoint.pt", "predictions.parquet", "config.yaml", "report.html"):
        (run / name).unlink()
    outcome = command("report", run)
    assert (outcome.status, outcome.out) == (0, f"{run / 'report.html'}\n")
    assert "LC on Digits" in (run / "report.html").read_text()


def test_page_goes_into_the_last_run(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    first, last = (shutil.copytree(finished[method], tmp_path / method) for method in ("LC", "ERM"))
    before = (first / "report.html").read_bytes()
    assert command("report", first, last).out == f"{last / 'report.html'}\n"
    assert (first / "report.html").read_bytes() == before
    assert "ERM and LC on Digits" in (last / "report.html").read_text()


def test_what_is_wrong_is_refused_and_an_older_page_stays(
    command: Any, finished: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    out.write_text("older")
    run = shutil.copytree(finished["LC"], tmp_path / "run")
    (run / "report.json").write_text('{"method": "LC"}')
    assert "report.json cannot be read" in command("report", run, "--out", out).error()
    assert "no-run" in command("report", finished["ERM"], tmp_path / "no-run", "--out", out).error()
    assert out.read_text() == "older"
    assert "its folder does not exist" in command("report", run, "--out", tmp_path / "no" / "x.html").error()
    assert "is a folder" in command("report", run, "--out", tmp_path).error()


def test_page_that_cannot_be_written(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    message = command("report", finished["ERM"], "--out", "/proc/self/page.html").error()
    assert "/proc/self/page.html cannot be written" in message


@pytest.mark.parametrize("name", ["report.json", "metrics.csv"])
def test_damaged_files_are_named(name: str, command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    run = shutil.copytree(finished["LC"], tmp_path / "run")
    (run / name).write_bytes(b"\xff\xfe{")
    assert f"{run / name} cannot be read" in command("report", run).error()
