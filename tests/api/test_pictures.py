"""Pictures as cameras, scanners and network drives leave them: read right, or told; never black in silence."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from logit_correction import load

CommandRunner = Callable[..., Any]

#: Kind of pixels -> what brings numbers in [0, 1] there, and the ending of a file that holds them.
KINDS: dict[str, tuple[Callable[[np.ndarray], Image.Image], str]] = {
    "8 bits": (lambda grey: Image.fromarray((255 * grey).astype(np.uint8)), "png"),
    "12 of 16 bits": (lambda grey: Image.fromarray((4095 * grey).astype(np.uint16)), "png"),
    "16 bits": (lambda grey: Image.fromarray((65535 * grey).astype(np.uint16)), "png"),
    "16 bits in TIFF": (lambda grey: Image.fromarray((65535 * grey).astype(np.uint16)), "tif"),
    "32 bits with a sign": (lambda grey: Image.fromarray((65535 * grey).astype(np.int32)), "tif"),
    "floats": (lambda grey: Image.fromarray(grey.astype(np.float32)), "tif"),
}
TRAINING_OPTIONS = ("--method", "ERM", "--network", "ConvNet", "--device", "cpu", "--threads", 1, "--epochs", 8)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work where the files are."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save_pictures(place: str, kinds: Sequence[str], rows: int = 12, seed: int = 0) -> None:
    """Save pictures that are bright to the left or to the right, of these kinds in turn."""
    draw = np.random.default_rng(seed)
    for number in range(rows):
        for label in ("left", "right"):
            grey = np.tile(np.linspace(0, 1, 16), (16, 1)) * (0.8 + 0.2 * draw.random((16, 16)))
            grey[0, :2] = 0, 1
            make, ending = KINDS[kinds[number % len(kinds)]]
            path = Path(place, label, f"{number:02}.{ending}")
            path.parent.mkdir(parents=True, exist_ok=True)
            make(grey[:, ::-1] if label == "left" else grey).save(path)


def evaluate_average(run_command: CommandRunner, place: str) -> float:
    result = run_command("evaluate", "r", "--on", place, "--json")
    assert result.status == 0, result.err
    return float(re.search(r'"average": ([\d.]+)', result.out)[1])  # type: ignore[index]


@pytest.mark.parametrize("kind", KINDS)
def test_images_of_one_depth_are_scaled_to_its_range(kind: str, run_command: CommandRunner) -> None:
    save_pictures("set", [kind])
    save_pictures("new", [kind], rows=4, seed=1)
    result = run_command("train", "--data", "set", *TRAINING_OPTIONS, "--out", "r")
    assert result.status == 0 and "pixels" not in result.err, result.err
    assert (
        evaluate_average(run_command, "new") == 1.0
        and "pixels" not in run_command("predict", "r", "new", "--out", "a.csv").err
    )


def test_several_depths_are_scaled_separately_and_noted(run_command: CommandRunner) -> None:
    save_pictures("set", ["8 bits", "16 bits", "16 bits in TIFF", "32 bits with a sign", "floats"], rows=20)
    save_pictures("new", ["floats", "16 bits", "8 bits"], rows=6, seed=1)
    result = run_command("train", "--data", "set", *TRAINING_OPTIONS, "--out", "r")
    assert "pixels of several depths" in result.err and "16 bits in 16, 32 bits" in result.err
    assert evaluate_average(run_command, "new") == 1.0
    pixels = load("r").source.build().inputs.images(np.arange(40))  # type: ignore[arg-type]
    assert pixels.amax(dim=(1, 2, 3)).min() >= 250


def test_twelve_bit_images_among_sixteen_bit_ones_are_counted(run_command: CommandRunner) -> None:
    save_pictures("set", ["16 bits", "16 bits", "16 bits", "12 of 16 bits"])
    assert "pixels are nearly equal in 6 of 24 rows" in run_command("preview", "--data", "set").err


@pytest.mark.parametrize("kind", ["8 bits", "16 bits", "floats", "32 bits with a sign"])
def test_images_of_another_depth_than_in_training_are_counted(kind: str, run_command: CommandRunner) -> None:
    save_pictures("set", [kind])
    assert run_command("train", "--data", "set", *TRAINING_OPTIONS, "--out", "r").status == 0
    for other in KINDS:
        if other.partition(" of")[0] in kind or kind in other or (kind, other[:2]) == ("16 bits", "12"):
            continue
        save_pictures(other, [other], rows=3)
        result = run_command("predict", "r", other, "--out", "a.csv")
        expected = "in all 6 rows" if other == "8 bits" else r"6 rows (have no answer|are bad)"
        assert re.search(expected, result.err) and f"{kind}" in result.err, result.err
        evaluated = run_command("evaluate", "r", "--on", other)
        assert evaluated.status == (0 if other == "8 bits" else 2) and f"{kind}" in evaluated.err


@pytest.mark.parametrize(
    ("kind", "marker"), [("floats", -9999), ("floats", 1e6), ("32 bits with a sign", -(2**30)), ("16 bits", 65535)]
)
def test_pixel_that_stretches_the_range_is_named(kind: str, marker: float, run_command: CommandRunner) -> None:
    save_pictures("set", [kind])
    assert "nearly equal" not in run_command("preview", "--data", "set").err
    for path in sorted(Path("set").rglob("*.*")):
        pixels = np.array(Image.open(path))
        pixels = pixels // 64 if kind == "16 bits" else pixels
        if path.match("*/right/0[1-8].*"):  # each split may have some
            pixels[3, 4] = marker
        Image.fromarray(pixels).save(path)
    message = " ".join(run_command("preview", "--data", "set").err.split())
    assert re.search(rf"right/0\d\.\w+ has a pixel of {re.escape(f'{marker:g}')}, and most", message), message


def test_pixels_outside_the_training_range_are_counted(run_command: CommandRunner) -> None:
    save_pictures("set", ["12 of 16 bits"])
    save_pictures("new", ["16 bits", "12 of 16 bits"], rows=4)
    assert run_command("train", "--data", "set", *TRAINING_OPTIONS, "--out", "r").status == 0
    for words in (("predict", "r", "new", "--out", "a.csv"), ("evaluate", "r", "--on", "new")):
        assert "outside of the training range in 4 of 8 rows, such as " in run_command(*words).err


def test_image_of_one_colour_is_a_bad_row_unless_most_are(run_command: CommandRunner) -> None:
    save_pictures("set", ["8 bits", "16 bits"])
    for name, image in (
        ("black", Image.new("RGB", (16, 16))),
        ("deep", Image.fromarray(np.full((16, 16), 900, np.uint16))),
        ("red", Image.new("RGB", (16, 16), "red")),
    ):
        image.save(f"set/left/{name}.png")
    result = run_command("preview", "--data", "set")
    assert "3 rows are bad: left/black.png, left/deep.png, left/red.png: is of one colour" in result.err
    words = ("train", "--data", "set", "--data.on_bad_rows", "skip", *TRAINING_OPTIONS, "--out", "r")
    assert run_command(*words).status == 0
    assert "black.png" in run_command("predict", "r", "set/left", "--out", "a.csv").err
    assert pd.read_csv("a.csv").iloc[:, 1].isna().sum() == 3
    for number in range(20):
        place = Path("plain", ("dark", "light")[number % 2], f"{number}.png")
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number + 200 * (number % 2)).save(place)
    assert run_command("train", "--data", "plain", *TRAINING_OPTIONS, "--out", "p").status == 0
    assert run_command("predict", "p", "plain/dark", "--out", "a.csv").err == ""


JUNK_FILES = ["@eaDir/x.png/SYNOPHOTO_THUMB_XL.png", "@Recycle/x.png", "__MACOSX/._x.png", "$RECYCLE.BIN/x.png",
        ".thumbnails/x.png", "#recycle/x.png", "System Volume Information/x.png", "._x.png", ".x.jpg",
        "@tmp/deep/x.png", "$Recycle.Bin/S-1/x.png", "lost+found/x.png"]  # fmt: skip


@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.parametrize("level", ["root", "split", "label", "below"])
def test_system_files_in_folders_are_not_labels_or_rows(level: str, splits: bool, run_command: CommandRunner) -> None:
    for split in ("train", "valid", "test") if splits else ("",):
        save_pictures(str(Path("set", split)), ["8 bits"])
        for label in ("left", "right"):
            Path("set", split, label, "below").mkdir()
            Path("set", split, label, "00.png").rename(Path("set", split, label, "below", "00.png"))
    output_before = run_command("preview", "--data", "set").err
    subfolder = {"root": "", "split": "train" if splits else "", "label": "left", "below": "left/below"}[level]
    place = Path("set", "train" if splits and level in ("label", "below") else "", subfolder)
    for number, junk in enumerate(JUNK_FILES):
        (place / junk).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 200)).save(place / junk)
    for name in ("Thumbs.db", "desktop.ini", ".DS_Store"):
        (place / name).write_bytes(b"\0")
    result = run_command("preview", "--data", "set")
    lines = [line for line in result.err.splitlines() if "what computers put into folders" not in line]
    assert result.status == 0 and lines == output_before.splitlines(), result.err
    assert "@eaDir" in result.err
    assert run_command("train", "--data", "set", *TRAINING_OPTIONS, "--out", "r").status == 0
    result = run_command("predict", "r", "set", "--out", "a.csv")
    assert not any(Path(junk).name in name for junk in ("x.png", "THUMB") for name in pd.read_csv("a.csv").iloc[:, 0])


UNREADABLE_EXIF = [
    b"junk of a ca", b"Exif\0\0MM\0*\0\0\0\x08\0\x02", b"Exif\0\0II*\0\xff\xff\xff\xff",
    b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x02\0\0\0\x01\0\x01\0\0\0\0\0",  # two orientations
]  # fmt: skip


@pytest.mark.parametrize("ending", ["png", "webp", "jpg", "tif"])
def test_unreadable_exif_is_ignored(ending: str, run_command: CommandRunner) -> None:
    save_pictures("set", ["8 bits"])
    upside_down = Image.Exif()
    upside_down[0x0112] = 3
    for number, path in enumerate(sorted(Path("set").glob("*/*.png"))):
        with Image.open(path) as file:
            image = file.convert("RGB")
        path.unlink()
        exif = UNREADABLE_EXIF[number // 2 % len(UNREADABLE_EXIF)] if number % 2 else upside_down
        image.save(path.with_suffix(f".{ending}"), **({} if ending == "tif" else {"exif": exif}))
    result = run_command("train", "--data", "set", *TRAINING_OPTIONS, "--out", "r")
    assert result.status == 0 and not re.search("EXIF|Metadata|bad", result.err), result.err
    result = run_command("predict", "r", "set/left", "--out", "a.csv")
    assert result.status == 0 and result.err == "" and pd.read_csv("a.csv").iloc[:, 1].notna().all()


def test_links_damaged_files_and_extra_frames_are_listed(run_command: CommandRunner) -> None:
    save_pictures("set", ["8 bits"])
    Path("set/left/lost.png").symlink_to("nowhere.png")
    Path("set/right/out.png").symlink_to(Path("/etc/hostname"))
    Path("set/left/01.png").write_bytes(Path("set/left/01.png").read_bytes()[:60])
    Path("set/right/02.png").write_text("no picture")
    Path("set/middle").symlink_to("moved")
    result = run_command("preview", "--data", "set")
    expected_parts = ("5 rows are bad", "middle", "left/lost.png", "right/out.png", "left/01.png", "right/02.png")
    assert result.status == 2 and all(name in result.err for name in expected_parts), result.err
    frames = [Image.fromarray(np.random.default_rng(row).integers(0, 255, (16, 16), np.uint8)) for row in range(3)]
    for name in ("gif", "tif", "webp"):
        save_pictures(name, ["8 bits"])
        frames[0].save(f"{name}/left/many.{name}", save_all=True, append_images=frames[1:])
        result = run_command("preview", "--data", name)
        assert f"several frames or pages in 1 of 25 rows, such as left/many.{name}" in result.err


@pytest.mark.parametrize("splits", [False, True])
def test_images_outside_the_label_folders_are_noted(splits: bool, run_command: CommandRunner) -> None:
    for split in ("train", "test") if splits else ("",):
        save_pictures(str(Path("set", split)), ["8 bits"])
    save_pictures("new", ["8 bits"], rows=3)
    loose = Path("set", "test" if splits else "", "loose.png")
    for path in (loose, loose.with_name("._x.png"), Path("new/alone.png"), Path("new/.hidden.png")):
        path.write_bytes(Path("new/left/00.png").read_bytes())
    result = run_command("train", "--data", "set", *TRAINING_OPTIONS, "--out", "r")
    assert f"1 row beside the folders of labels, hence without a label: {loose.relative_to('set')}" in result.err, (
        result.err
    )
    assert (
        "1 row beside the folders of labels, hence without a label: alone.png"
        in run_command("evaluate", "r", "--on", "new").err
    )
    result = run_command("predict", "r", "new", "--out", "a.csv")
    assert "beside" not in result.err and len(pd.read_csv("a.csv")) == 7


def test_hidden_folders_are_not_read(run_command: CommandRunner) -> None:
    save_pictures("set", ["8 bits"])
    assert run_command("train", "--data", "set", *TRAINING_OPTIONS, "--out", "r").status == 0
    for junk in ("#recycle/x.png", "@eaDir/x.png", ".thumbnails/x.png"):
        Path("set", junk).parent.mkdir()
        Path("set", junk).write_bytes(Path("set/left/00.png").read_bytes())
    result = run_command("predict", "r", "set/left", "--out", "a.csv")
    assert result.status == 0 and result.err == "" and len(pd.read_csv("a.csv")) == 12, result.err


def build_huge_png(side: int) -> bytes:
    """A black image of this side, one bit a pixel, so that its file is small."""
    rows = zlib.compress(bytes(1 + (side + 7) // 8) * side)
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b""))
    parts = [b"\x89PNG\r\n\x1a\n"]
    for name, data in chunks:
        parts += [struct.pack(">I", len(data)), name, data, struct.pack(">I", zlib.crc32(name + data))]
    return b"".join(parts)


def test_huge_image_is_a_bad_row_and_large_jpeg_is_read(run_command: CommandRunner) -> None:
    save_pictures("set", ["8 bits"])
    Path("set/left/huge.png").write_bytes(build_huge_png(13_000))
    ramp = np.tile(np.linspace(0, 255, 9_000).astype(np.uint8), (9_000, 1))
    Image.fromarray(ramp).save("set/right/large.jpg")
    result = run_command("preview", "--data", "set")
    expected = (
        "1 row is bad: left/huge.png: cannot be read (it has 13,000 x 13,000 pixels, more than 67,108,864: save it"
    )
    assert result.status == 2 and expected in result.err and "DecompressionBomb" not in result.err, result.err
    result = run_command("train", "--data", "set", "--data.on_bad_rows", "skip", *TRAINING_OPTIONS, "--out", "r")
    assert result.status == 0 and "large.jpg" not in result.err, result.err
    Path("new").mkdir()
    Path("set/left/huge.png").rename("new/huge.png")
    Path("set/right/large.jpg").rename("new/large.jpg")
    result = run_command("predict", "r", "new", "--out", "a.csv")
    assert "new/huge.png: cannot be read" in result.err and pd.read_csv("a.csv").iloc[:, 1].isna().tolist() == [
        True,
        False,
    ]
