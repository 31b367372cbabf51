"""``data preview``: a sheet of every source that has images, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

DIGITS = ("data", "preview", "Digits")


def test_the_digits_are_shown_by_digit_and_colour(tmp_path: Path, command: Any) -> None:
    out = tmp_path / "sheet.png"
    outcome = command(*DIGITS, "--out", out, "--rows", "1")
    assert outcome.status == 0 and str(out) in outcome.out
    with Image.open(out) as image:
        assert image.format == "PNG" and image.width > 10 * 64 and image.height > 10 * 64
        pixels = np.asarray(image.convert("RGB")).astype(int)
    # The first column is crimson: far more red than green; the second teal: no red at all.
    first, second = pixels[30:, 25:80].sum((0, 1)), pixels[30:, 95:140].sum((0, 1))
    assert first[0] > 1.5 * first[1] and second[0] < second[1]


def test_options_reach_the_source_and_the_sheet(tmp_path: Path, command: Any) -> None:
    sizes = {}
    for name, words in {
        "plain": (),
        "three": ("--rows", "3"),
        "train": ("--split", "train"),
        "severity": ("--data.severity", "1"),
        "nine": ("--data.correlation", "many-to-one"),
    }.items():
        out = tmp_path / f"{name}.png"
        assert command(*DIGITS, "--out", out, *words).status == 0
        with Image.open(out) as image:
            sizes[name] = (image.size, image.tobytes())
    (width, height), content = sizes["plain"]
    assert sizes["three"][0] == (width, height + 10 * 65)
    assert sizes["train"][0] == sizes["severity"][0] == (width, height)
    assert content not in (sizes["train"][1], sizes["severity"][1])
    assert sizes["nine"][0][0] < width


def test_images_without_attributes_are_shown_by_label(tmp_path: Path, command: Any) -> None:
    (tmp_path / "pets").mkdir()
    for label, color in (("cat", (200, 0, 0)), ("dog", (0, 0, 200))):
        (tmp_path / "pets" / label).mkdir()
        for i in range(12):
            Image.new("RGB", (32, 32), color).save(tmp_path / "pets" / label / f"{i}.png")
    words = ("--data.size", "32", "--split", "train", "--out")
    outcome = command(
        "data", "preview", "ImageFolder", "--data.root", tmp_path / "pets", *words, tmp_path / "sheet.png"
    )
    assert outcome.status == 0, outcome.err
    assert command("data", "preview", tmp_path / "pets", *words, tmp_path / "again.png").status == 0
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "sheet.png").read_bytes()
    with Image.open(tmp_path / "sheet.png") as image:
        pixels = np.asarray(image)
    red, blue = ((pixels == color).all(2).nonzero()[0] for color in ((200, 0, 0), (0, 0, 200)))
    assert len(red) and len(blue) and red.max() < blue.min()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ((), ("preview", "NAME", "missing")),
        (("preview", "Digits"), ("--out is missing",)),
        (("show", "Digits", "--out", "x.png"), ("'show' stands where", "preview")),
        (("preview", "no/photos", "--out", "x.png"), ("no/photos does not exist",)),
        (("preview", "Digit", "--out", "x.png"), ("did you mean Digits?",)),
        (("preview", "Digits", "--out", "nowhere/x.png"), ("nowhere",)),
        (("preview", "Digits", "--out", "x.png", "--rows", "0"), ("--rows is 0",)),
        (("preview", "Digits", "--out", "x.png", "--split", "all"), ("--split is 'all'",)),
        (("preview", "Digits", "--out", "x.png", "--data.sed", "1"), ("--data.sed", "did you mean --data.seed?")),
        (("preview", "Digits", "--out", "x.png", "--data.seed", "one"), ("--data.seed is 'one'", "whole number")),
        (("preview", "Digits", "--out", "x.png", "--data.severity", "9"), ("severity is 9",)),
        (("preview", "my_parts.Points", "--out", "x.png"), ("holds no images",)),
    ],
)
def test_wrong_words_are_refused(
    words: tuple[str, ...], parts: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    message = command("data", *words).error()
    assert all(part in message for part in parts), message
    assert not list(tmp_path.glob("*.png"))
