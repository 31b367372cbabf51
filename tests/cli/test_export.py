"""``export``: what the command prints and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("safetensors")


def test_the_command_says_what_can_be_done_with_the_folder(
    command: Any, finished: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "to hub"
    outcome = command("export", finished["LC"], "--format", "hub", "--out", out, "--repository", "me/digits")
    assert (outcome.status, outcome.err) == (0, "")
    told = f"nothing was uploaded; put a licence into README.md, then: hf upload me/digits '{out}'"
    assert outcome.out.splitlines() == [str(out), told]
    images = tmp_path / "images"
    images.mkdir()
    from PIL import Image

    for value in range(4):
        Image.new("RGB", (8, 8), (60 * value, 20, 200 - 40 * value)).save(images / f"{value}.png")
    assert command("predict", out, images).out == command("predict", finished["LC"], images).out
    assert "is not empty" in command("export", finished["LC"], "--format", "hub", "--out", out).error()


def test_what_is_missing_or_unknown_is_named(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "--format is missing" in command("export", finished["LC"], "--out", out).error()
    assert "did you mean onnx?" in command("export", finished["LC"], "--format", "onxx", "--out", out).error()
    assert "is not a run folder" in command("export", tmp_path, "--format", "hub", "--out", out).error()
    assert "--format" not in command("list", "formats").out and "  onnx " in command("list", "formats").out
    assert not out.exists()
