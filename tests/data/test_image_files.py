"""Image files as a store: read once, kept, resident or streamed, and every fault told."""

from __future__ import annotations

import os
import pickle
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction.data import images
from logit_correction.data.cache import memory_limit_bytes
from logit_correction.data.images import image_store, read_image, read_images
from logit_correction.data.rows import Problems
from logit_correction.data.stores import ArrayStore, StreamedStore, location_of
from logit_correction.errors import InputError, InputWarning


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Seven images of noise."""
    random = np.random.default_rng(0)
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(7):
        Image.fromarray(random.integers(0, 256, (9, 7, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    return sorted(folder.iterdir())


def test_resident_and_streamed_give_the_same(paths: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    resident = image_store(paths, size=(9, 7), cache=cache)
    streamed = image_store(paths, size=(9, 7), cache=cache, memory_limit=0)
    assert isinstance(resident, ArrayStore) and isinstance(streamed, StreamedStore)
    assert resident.input_shape == streamed.input_shape == (3, 9, 7) and len(resident) == len(streamed) == 7
    expected = torch.stack([torch.from_numpy(np.asarray(Image.open(path)).copy()).permute(2, 0, 1) for path in paths])
    rows = torch.tensor([6, 0, 0, 3])
    for store in (resident, streamed, pickle.loads(pickle.dumps(streamed))):
        assert torch.equal(store.images(rows), expected[rows])
        assert torch.equal(store.fetch(rows), expected[rows].float().mul_(1 / 255))
    assert "in memory" in str(location_of(resident)) and "limit" in str(location_of(resident))
    assert "streamed from" in str(location_of(streamed)) and "limit 0.00 GiB" in str(location_of(streamed))


def test_the_limit_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_limit_bytes(1.5) == 3 * 2**29
    assert memory_limit_bytes() > 0
    monkeypatch.setenv("LOGIT_CORRECTION_MEMORY", "0.25")
    assert memory_limit_bytes() == 2**28
    assert memory_limit_bytes(1) == 2**30
    monkeypatch.setenv("LOGIT_CORRECTION_MEMORY", "much")
    with pytest.raises(InputError, match="LOGIT_CORRECTION_MEMORY is 'much'"):
        memory_limit_bytes()
    with pytest.raises(InputError, match="memory limit is -1"):
        memory_limit_bytes(-1)


def test_images_are_decoded_once_until_a_file_changes(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, read = tmp_path / "cache", []

    def counted(path: Path, *rest: object) -> np.ndarray:
        read.append(path)
        return read_image(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(images, "read_image", counted)
    first = image_store(paths, size=4, cache=cache)
    assert sorted(read) == paths
    assert torch.equal(image_store(paths, size=4, cache=cache).images(torch.arange(7)), first.values)
    assert len(read) == 7
    Image.new("RGB", (5, 5), (9, 9, 9)).save(paths[2])
    os.utime(paths[2], (time.time() + 5, time.time() + 5))
    assert bool((image_store(paths, size=4, cache=cache).images(torch.tensor([2])) == 9).all())
    assert len(read) == 14
    image_store(paths, size=5, cache=cache)
    image_store(paths, size=5, fit="crop", cache=cache)
    assert len(read) == 28


def test_a_kept_file_that_was_cut_is_made_again(paths: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    expected = image_store(paths, size=4, cache=cache).images(torch.arange(7))
    (kept,) = cache.glob("*.npy")
    flipped = bytearray(kept.read_bytes())
    flipped[-1] ^= 1
    for content in (kept.read_bytes()[:-10], b"", b"something else", flipped):
        kept.write_bytes(content)
        assert torch.equal(image_store(paths, size=4, cache=cache).images(torch.arange(7)), expected)


def test_images_that_are_all_dark_are_told(paths: list[Path], tmp_path: Path) -> None:
    for path in paths:
        Image.fromarray(np.full((9, 7), 4095, np.uint16)).save(path)  # as twelve bits are often kept
    for limit in (None, 0.0):
        with pytest.warns(InputWarning, match="the images are dark: no value reaches 32 of 255, as where twelve bits"):
            image_store(paths, size=4, cache=tmp_path / "cache", memory_limit=limit)
    Image.new("L", (9, 7), 200).save(paths[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image_store(paths, size=4, cache=tmp_path / "cache")


def test_all_unreadable_files_are_named(paths: list[Path], tmp_path: Path) -> None:
    paths[1].write_bytes(b"no image")
    paths[2].write_bytes(b"")
    paths[4].unlink()
    with pytest.raises(InputError) as caught:
        image_store(paths, size=4, cache=tmp_path / "cache")
    message = str(caught.value)
    assert "3 rows are bad" in message and "4.png is missing" in message
    assert "1.png is no image that Pillow can read" in message and "2.png" in message and "3.png" not in message
    assert not (tmp_path / "cache").exists()  # told before the long work


def test_a_file_cut_short_is_told_with_the_others(paths: list[Path], tmp_path: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (90, 90, 3), dtype=np.uint8))
    paths[0].write_bytes(b"no image")
    for row, suffix in enumerate((".jpg", ".png", ".gif", ".webp"), 1):
        paths[row] = paths[row].with_suffix(suffix)
        noise.save(paths[row])
        paths[row].write_bytes(paths[row].read_bytes()[:-2000])
    with pytest.raises(InputError, match="5 rows are bad") as caught:
        image_store(paths, size=4, cache=tmp_path / "cache")
    assert all(path.name in str(caught.value) for path in paths[:5])
    assert not (tmp_path / "cache").exists()  # told before the long work


def test_a_row_left_out_is_left_out_the_next_time_too(paths: list[Path], tmp_path: Path) -> None:
    paths[2].write_bytes(b"no image")
    paths[3].write_bytes(paths[3].read_bytes()[:-30])
    for _ in range(2):  # the second time from what was kept
        problems = Problems("here", [f"row {i}" for i in range(7)])
        image_store(paths, size=4, problems=problems, on_bad_rows="skip", cache=tmp_path / "cache")
        assert problems.good.tolist() == [True, True, False, False, True, True, True]


def test_what_was_wrong_with_a_label_changes_no_image(paths: list[Path], tmp_path: Path) -> None:
    problems = Problems("here", [f"row {i}" for i in range(7)])
    problems.add(5, "has no label")
    image_store(paths, size=4, problems=problems, on_bad_rows="skip", cache=tmp_path / "cache")
    store = image_store(paths, size=4, cache=tmp_path / "cache")  # the label was mended
    assert torch.equal(store.images(torch.tensor([5])), read_images(paths[5:6], (4, 4)))


def test_an_image_larger_than_memory_is_told(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    Image.new("RGB", (3000, 2000)).save(paths[3])
    monkeypatch.setattr(images, "_most_pixels", lambda: 5_000_000)
    with pytest.raises(InputError, match=r"3\.png has 3,000 x 2,000 pixels, but 5,000,000 fit into memory here"):
        image_store(paths, size=4, cache=tmp_path / "cache")
    Image.new("RGB", (3000, 2000)).save(paths[3].with_suffix(".jpg"))  # which is decoded at an eighth of its size
    image_store([*paths[:3], paths[3].with_suffix(".jpg")], size=4, cache=tmp_path / "cache")


def test_files_damaged_in_the_middle_are_named_too_and_can_be_skipped(paths: list[Path], tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (90, 90, 3), dtype=np.uint8)).save(paths[3])
    paths[3].write_bytes(paths[3].read_bytes()[:9000])
    cache = tmp_path / "cache"
    for _ in range(2):  # the second time from what was kept
        with pytest.raises(InputError, match=r"1 row is bad: .*3\.png cannot be read"):
            image_store(paths, size=4, cache=cache)
    problems = Problems("here", [f"row {i}" for i in range(7)])
    problems.add(5, "has no label")
    store = image_store(paths, size=4, problems=problems, on_bad_rows="skip", cache=cache)
    assert problems.good.tolist() == [True, True, True, False, True, False, True]
    assert int(store.images(torch.tensor([3])).sum()) == 0
    assert torch.equal(store.images(torch.tensor([6])), read_images(paths[6:], (4, 4)))


def test_kinds_of_images(tmp_path: Path) -> None:
    deep = np.linspace(0, 65_535, 64, dtype=np.uint16).reshape(8, 8)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert np.array_equal(read_image(tmp_path / "deep.png", (8, 8))[1], (deep >> 8).astype(np.uint8))
    turned = Image.new("RGB", (8, 4), (250, 0, 0))
    turned.paste((0, 0, 250), (0, 0, 4, 4))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn by a quarter to the right
    turned.save(tmp_path / "turned.jpg", exif=exif, quality=100, subsampling=0)
    upright = read_image(tmp_path / "turned.jpg", (8, 4))
    assert upright[2, :3].min() > 200 and upright[0, 5:].min() > 200  # blue above, red below
    Image.new("L", (3, 3), 77).save(tmp_path / "grey.gif")
    assert np.unique(read_image(tmp_path / "grey.gif", (2, 2))).tolist() == [77]


def test_fit(tmp_path: Path) -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    Image.fromarray(wide).save(tmp_path / "wide.png")
    assert read_image(tmp_path / "wide.png", (10, 10), "crop").min() == 200
    stretched = read_image(tmp_path / "wide.png", (10, 10), "stretch")
    assert stretched[:, :, 0].max() == 0 and stretched[:, :, 5].min() > 190


def test_large_jpegs_are_shrunk_well(tmp_path: Path) -> None:
    """Decoding at a part of the size may not change what a person sees."""
    y, x = np.mgrid[:512, :512]
    image = np.stack([x // 2, y // 2, (x + y) // 4], axis=2).astype(np.uint8)
    Image.fromarray(image).save(tmp_path / "large.jpg", quality=98, subsampling=0)
    small = read_image(tmp_path / "large.jpg", (32, 32)).astype(int)
    expected = np.asarray(Image.fromarray(image).resize((32, 32), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.abs(small - expected).max() <= 6


def test_no_room_on_the_disk(paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(InputError, match=r"the resized images need 0\.0 GiB"):
        image_store(paths, size=4, cache=tmp_path / "cache")
