"""Image files: read as RGB on white, cached once, and listed if they cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import EpsImagePlugin, Image

from logit_correction.data import images
from logit_correction.data.image_files import read_picture
from logit_correction.data.images import read_image_store
from logit_correction.data.reader import convert_to_channels_first
from logit_correction.data.rows import RowErrors
from logit_correction.data.stores import InputStore
from logit_correction.errors import InputError


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    draw = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(draw.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(tmp_path / f"{i}.png")
    return [tmp_path / f"{i}.png" for i in range(6)]


def read_store(paths: list[Path], problems: RowErrors | None = None) -> InputStore:
    store, _ = read_image_store(
        paths, (4, 4), RowErrors("here", [path.name for path in paths]) if problems is None else problems
    )
    return store


def test_read_picture_converts_any_mode_to_rgb_on_white_in_eight_bits(tmp_path: Path) -> None:
    cases = {
        "grey": (Image.new("L", (4, 4), 200), 200),
        "clear": (Image.new("RGBA", (4, 4), (0, 0, 0, 0)), 255),
        "palette": (Image.new("P", (4, 4)), 0),
    }
    for name, (image, expected) in cases.items():
        image.save(tmp_path / f"{name}.png")
        assert (read_picture(tmp_path / f"{name}.png", (4, 4)).pixels == expected).all(), name
    Image.fromarray(np.full((4, 4), 200 << 8, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(ValueError, match="16 bits, and the others' 8 bits"):
        read_picture(tmp_path / "deep.png", (4, 4), ranges={})
    wide = Image.fromarray(np.repeat(np.arange(12, dtype=np.uint8)[None], 4, axis=0) * 20)
    wide.save(tmp_path / "wide.png")
    assert read_picture(tmp_path / "wide.png", (4, 4), "crop").pixels[0, 0].tolist() == [80, 100, 120, 140]
    assert read_picture(tmp_path / "wide.png", (2, 6), "stretch").pixels.shape == (3, 2, 6)


def test_centre_equals_torchvision_resize_and_center_crop(tmp_path: Path) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    draw = np.random.default_rng(0)
    for name, shape in (("wide.png", (150, 310, 3)), ("high.jpg", (400, 260, 3)), ("fits.png", (224, 224, 3))):
        Image.fromarray(draw.integers(0, 256, shape, dtype=np.uint8)).save(tmp_path / name)
        cut = transforms.Compose([transforms.Resize((256, 256)), transforms.CenterCrop(224)])
        expected = np.asarray(cut(Image.open(tmp_path / name).convert("RGB"))).transpose(2, 0, 1)
        assert (read_picture(tmp_path / name, (224, 224), "centre").pixels == expected).all(), name
    for side in (33, 100):
        larger = round(side * 8 / 7)
        cut = transforms.Compose([transforms.Resize((larger, larger)), transforms.CenterCrop(side)])
        expected = np.asarray(cut(Image.open(tmp_path / "wide.png"))).transpose(2, 0, 1)
        assert (read_picture(tmp_path / "wide.png", (side, side), "centre").pixels == expected).all(), side


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "webp"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_read_picture_applies_exif_orientation_once(suffix: str, turn: int, tmp_path: Path) -> None:
    upright = np.zeros((16, 24), np.uint8)
    upright[:8, :8] = 255
    upright[:8, 8:] = 120  # no two orientations are alike
    back = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}[turn]  # Pillow's transposition that undoes it
    image = Image.fromarray(upright)
    if back is not None:
        image = image.transpose(Image.Transpose(back))
    exif = Image.Exif()
    exif[0x0112] = turn
    options = {"tiffinfo": {0x0112: turn}} if suffix == "tif" else {"exif": exif, "quality": 95}
    image.convert("RGB").save(tmp_path / f"a.{suffix}", **options)  # type: ignore[arg-type]
    read = read_picture(tmp_path / f"a.{suffix}", None).pixels[0].astype(int)
    assert read.shape == upright.shape and np.abs(read - upright).mean() < 4


def test_image_store_is_cached_until_a_file_changes(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    read_paths: list[Path] = []
    monkeypatch.setattr(
        images, "read_picture", lambda path, *arguments: read_paths.append(path) or read_picture(path, *arguments)
    )
    first = read_store(paths)
    second = read_store(paths)
    assert len(read_paths) == 6
    torch.testing.assert_close(first.fetch(torch.arange(6)), second.fetch(torch.arange(6)))
    before = paths[0].stat()
    size = before.st_size
    Image.new("RGB", (8, 8)).save(paths[0])
    with paths[0].open("r+b") as file:  # of the same size and time, as rsync leaves it
        file.truncate(size)
    os.utime(paths[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_store(paths).fetch(torch.tensor([0])).sum() == 0


def test_unreadable_files_are_noted_and_rows_with_errors_not_opened(paths: list[Path]) -> None:
    paths[1].write_bytes(paths[1].read_bytes()[:60])
    paths[2].write_text("no image")
    for _ in range(2):  # the second time from what was kept
        problems = RowErrors("here", [path.name for path in paths])
        problems.add(0, "leaves the folder")
        assert read_store(paths, problems).fetch(torch.tensor([0, 2])).sum() == 0
        with pytest.raises(
            InputError, match=r"3 rows are bad: 0.*; 1\.png: .*; 2\.png: is not an image that Pillow can read"
        ):
            problems.raise_if_any()


def test_postscript_file_starts_no_other_program(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: started.append(1))
    paths[1].write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n")
    with Image.open(paths[1]) as file:  # it is one that Pillow would read
        assert file.format == "EPS"
    problems = RowErrors("here", [path.name for path in paths])
    read_store(paths, problems)
    assert not started and "not an image" in str(problems)


@pytest.mark.parametrize(
    "values", [np.zeros((2, 8, 8)), np.zeros((2, 8, 8, 4)), np.full((2, 3, 8, 8), 2.0), np.ones((2, 3, 4, 4), int)]
)
def test_arrays_of_other_shapes_or_ranges_are_not_images(values: np.ndarray) -> None:
    with pytest.raises(InputError, match="images"):
        convert_to_channels_first(values)
