"""Reading image files of other people's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction.bench.cmnist import ColoredMNIST
from logit_correction.bench.digits import Digits
from logit_correction.data.images import read_images
from logit_correction.errors import InputError


def write_image(path: Path, height: int = 6, width: int = 4, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(values).save(path)
    return values


def test_images_come_back_as_they_were_written(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    written = [write_image(path, seed=i) for i, path in enumerate(paths)]
    read = read_images(paths, (6, 4))
    assert read.dtype == torch.uint8 and read.shape == (3, 3, 6, 4)
    for one, values in zip(read, written, strict=True):
        assert np.array_equal(one.permute(1, 2, 0).numpy(), values)


def test_other_sizes_are_resized_and_other_modes_become_rgb(tmp_path: Path) -> None:
    flat = tmp_path / "flat.png"
    Image.new("L", (20, 10), 77).save(flat)
    clear = tmp_path / "clear.png"
    Image.new("RGBA", (3, 9), (10, 20, 30, 255)).save(clear)
    read = read_images([flat, clear], (8, 5))
    assert read.shape == (2, 3, 8, 5)
    assert read[0].unique().tolist() == [77]
    assert read[1].flatten(1).unique(dim=1).flatten().tolist() == [10, 20, 30]


def test_what_can_be_seen_through_lies_on_white(tmp_path: Path) -> None:
    alpha = np.zeros((4, 4), np.uint8)
    alpha[1:3, 1:3] = 255
    drawing = np.zeros((4, 4, 4), np.uint8)
    drawing[..., 3] = alpha
    Image.fromarray(drawing).save(tmp_path / "rgba.png")
    Image.fromarray(drawing).convert("LA").save(tmp_path / "la.png")
    palette = Image.fromarray((alpha == 255).astype(np.uint8), "P")
    palette.putpalette([0, 0, 0, 0, 0, 0])
    palette.save(tmp_path / "palette.png", transparency=0)
    palette.save(tmp_path / "palette.gif", transparency=0)
    Image.fromarray(255 - alpha).save(tmp_path / "grey.png", transparency=255)
    names = ["rgba.png", "la.png", "palette.png", "palette.gif", "grey.png"]
    read = read_images([tmp_path / name for name in names], (4, 4)).numpy()
    for name, image in zip(names, read, strict=True):
        assert np.array_equal(image, np.broadcast_to(255 - alpha, (3, 4, 4))), name
    half = np.full((4, 4, 4), 128, np.uint8)
    Image.fromarray(half).save(tmp_path / "half.png")
    assert np.abs(read_images([tmp_path / "half.png"], (4, 4)).numpy().astype(int) - 191).max() <= 1


def test_floats_in_the_unit_interval_take_the_full_range(tmp_path: Path) -> None:
    ramp = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4)
    Image.fromarray(ramp).save(tmp_path / "unit.tif")
    Image.fromarray(200 * ramp).save(tmp_path / "bytes.tif")
    unit, whole = read_images([tmp_path / "unit.tif", tmp_path / "bytes.tif"], (4, 4))[:, 0].numpy()
    assert np.array_equal(unit, np.rint(255 * ramp)) and np.abs(whole - 200 * ramp).max() <= 1


def test_no_images_give_an_empty_batch() -> None:
    assert read_images([], (4, 4)).shape == (0, 3, 4, 4)


def damaged(tmp_path: Path) -> list[Path]:
    text = tmp_path / "text.png"
    text.write_text("no image")
    empty = tmp_path / "empty.png"
    empty.touch()
    whole = tmp_path / "whole.png"
    write_image(whole, 64, 64)
    cut = tmp_path / "cut.png"
    cut.write_bytes(whole.read_bytes()[:2000])
    folder = tmp_path / "folder.png"
    folder.mkdir()
    return [text, empty, cut, folder, tmp_path / "missing.png"]


@pytest.mark.parametrize("which", range(5))
def test_a_bad_file_is_named(tmp_path: Path, which: int) -> None:
    bad, good = damaged(tmp_path)[which], tmp_path / "good.png"
    write_image(good)
    with pytest.raises(InputError, match=r"cannot be read: .*fix") as caught:
        read_images([good, bad], (6, 4))
    assert str(bad) in str(caught.value) and str(good) not in str(caught.value)


def test_only_the_first_ten_bad_files_are_named(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i:02}.png" for i in range(13)]
    with pytest.raises(InputError, match=r"13 .*and 3 more") as caught:
        read_images(paths, (4, 4))
    assert str(paths[9]) in str(caught.value) and str(paths[10]) not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "size", "scale"),
    [(Digits(), 8, 1.0), (ColoredMNIST(), 28, 1.0), (ColoredMNIST(scaling="double"), 28, 1 / 255)],
)
def test_a_source_reads_new_files_as_its_networks_take_them(
    tmp_path: Path, source: Digits | ColoredMNIST, size: int, scale: float
) -> None:
    path = tmp_path / "white.png"
    Image.new("RGB", (50, 50), "white").save(path)
    store = source.read_new([path])
    assert store.input_shape == (3, size, size)
    torch.testing.assert_close(store.fetch(torch.tensor([0])), torch.full((1, 3, size, size), scale))
