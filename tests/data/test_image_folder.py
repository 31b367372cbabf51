"""A folder of images: the layouts that people have, and what may be wrong with them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction import ComponentConfig, load, train
from logit_correction.data.own import ImageFolder
from logit_correction.errors import InputError

SHORT = {"method": "ERM", "device": "cpu", "epochs": 1}


def save_image(path: Path, number: int = 0) -> None:
    """Save an image whose brightness is a number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), (number, number, number)).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder per label, ten images each: cat images are 0..9, dog images 100..109."""
    folder = tmp_path / "animals"
    for start, label in ((0, "cat"), (100, "dog")):
        for i in range(10):
            save_image(folder / label / ("deep" if i == 3 else "") / f"{i}.png", start + i)
    return folder


def build_source(root: Path, **options: object) -> ImageFolder:
    return ImageFolder(str(root), **({"size": 4} | options))  # type: ignore[arg-type]


def get_brightness(table: object, rows: torch.Tensor) -> list[int]:
    return table.inputs.images(rows)[:, 0, 0, 0].tolist()  # type: ignore[attr-defined]


def test_image_folder_reads_a_folder_per_label(root: Path) -> None:
    for label in ("cat", "dog"):
        (root / label / "notes.txt").write_text("about pets")
    (root / "dog" / ".DS_Store").write_text("")
    table = build_source(root).build().check()
    assert table.label_names == ["cat", "dog"] and table.attribute_names == []
    assert {name: len(rows) for name, rows in table.split.items()} == {"train": 14, "valid": 2, "test": 4}
    rows = torch.arange(20)
    assert [value >= 100 for value in get_brightness(table, rows)] == table.label[rows].bool().tolist()
    assert table.row_names is not None and "cat/deep/3.png" in table.row_names
    view_inputs = table.view_inputs("test")
    expected_brightness = [int(path.stem) + 100 * ("dog" in path.parts) for path in view_inputs.files]
    assert (
        expected_brightness
        == get_brightness(table, table.split["test"])
        == view_inputs.images(torch.arange(4))[:, 0, 0, 0].tolist()
    )
    assert view_inputs.position is None  # folders are read label by label: a row's place would be its label
    (note,) = table.notes
    assert "not images by name" in note and "cat/notes.txt" in note and "dog/notes.txt" in note
    assert table.metadata["split"] == "drawn label by label, 10 % valid, 20 % test, seed 0"


def test_image_folder_reads_a_folder_per_split(tmp_path: Path) -> None:
    for start, split in ((0, "Train"), (50, "val"), (100, "test")):
        for i in range(4):
            save_image(tmp_path / "data" / split / ("b" if i % 2 else "a") / f"{i}.jpg", start + i)
    table = build_source(tmp_path / "data").build().check()
    assert table.metadata["split"] == "given" and table.label_names == ["a", "b"]
    for start, name in zip((0, 50, 100), ("train", "valid", "test"), strict=True):
        assert all(abs(value - start) <= 5 for value in get_brightness(table, table.split[name]))


def test_images_beside_the_labels_of_other_splits_are_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    root.rename(tmp_path / "set" / "train")
    save_image(tmp_path / "set" / "test" / "1.png", 200)
    table = build_source(tmp_path / "set").build()
    assert any("hence without a label: test/1.png" in note for note in table.notes)


def test_blanks_around_the_name_of_a_folder_are_not_of_its_label(root: Path) -> None:
    (root / "cat").rename(root / "cat ")
    assert build_source(root).build().label_names == ["cat", "dog"]


def test_image_folder_reports_unreadable_images(root: Path) -> None:
    (root / "cat" / "0.png").write_bytes(b"")
    (root / "dog" / "9.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"2 rows are bad: cat/0\.png, dog/9\.png: .*on_bad_rows='skip'`"):
        build_source(root).build()
    table = build_source(root, on_bad_rows="skip").build().check()
    assert sum(len(rows) for rows in table.split.values()) == 18
    assert len(table.notes) == 1 and "2 rows are bad and left out: cat/0.png, dog/9.png: " in table.notes[0]
    assert 0 not in torch.cat(list(table.split.values())).tolist()


def test_image_folder_names_hidden_images_wherever_they_lie(root: Path) -> None:
    save_image(root / "._cat.png")
    save_image(root / "cat" / "deep" / "._3.png")
    save_image(root / "@eaDir" / "thumbnail.png")
    table = build_source(root).build()
    assert len(table.label) == 20
    (note,) = table.notes
    assert note.endswith("is not read: ._cat.png; @eaDir; cat/deep/._3.png")


def test_image_folder_refuses_links_that_leave_it(root: Path, tmp_path: Path) -> None:
    for name in "xyz":
        save_image(tmp_path / "elsewhere" / f"{name}.png")
    (root / "ant").symlink_to(tmp_path / "elsewhere")
    (root / "cat" / "y.png").symlink_to(tmp_path / "elsewhere" / "x.png")
    with pytest.raises(InputError, match=r"4 rows are bad: ant/x\.png.* 1 more: is a link that leaves") as error:
        build_source(root).build()
    copy = re.search(r"made by `(.*?)`", str(error.value))
    assert copy is not None
    subprocess.run(copy[1], shell=True, check=True)
    assert len(build_source(f"{root}-copied").build().label) == 24
    (root / "cat" / "y.png").unlink()
    (tmp_path / "link").symlink_to(root)  # the folder itself may be one
    (root / "ant").unlink()
    assert len(build_source(tmp_path / "link").build().label) == 20


def test_image_folder_explains_wrong_layouts(tmp_path: Path, root: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        build_source(tmp_path / "nothing").build()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"a folder of images for each of at least two labels.*it holds nothing"):
        build_source(tmp_path / "empty").build()
    for split in ("train", "test"):
        save_image(tmp_path / "splits" / split / "0.png")
    with pytest.raises(InputError, match=r"at least two labels, or such folders in train.*; it holds test, train"):
        build_source(tmp_path / "splits").build()
    for label in "ab":
        (tmp_path / "two" / label).mkdir(parents=True)
    with pytest.raises(InputError, match="holds no images"):
        build_source(tmp_path / "two").build()
    with pytest.raises(InputError, match="holds images, but none in the folder of a label"):
        next(build_source(root).new_rows(tmp_path / "splits" / "train", labelled=True))
    save_image(root / "train" / "cat" / "0.png")
    with pytest.raises(InputError, match=r"holds folders that hold folders \(cat\): give one of them, such as .*train"):
        build_source(root).build()


DEEP_FORMATS = {
    "8 of 16 bits": (np.uint16, 1.0, 0.0, "png"),
    "12 of 16 bits": (np.uint16, 16.0, 0.0, "png"),
    "above an offset": (np.uint16, 16.0, 20_000.0, "png"),
    "32 bits": (np.int32, 5000.0, -300_000.0, "tif"),
    "floats": (np.float32, 1 / 255, 0.0, "tif"),
}


@pytest.mark.parametrize("kind", DEEP_FORMATS)
def test_deep_pixels_are_scaled_to_the_range_of_the_set(kind: str, tmp_path: Path) -> None:
    dtype, factor, offset, suffix = DEEP_FORMATS[kind]
    draw = np.random.default_rng(0)
    grey = draw.integers(0, 256, (24, 8, 8))
    grey[:, 0, 0] = 0
    grey[:, 0, 1] = 255
    for number, pixels in enumerate(grey):
        place = tmp_path / "set" / ("a", "b")[number % 2] / f"{number:02}.{suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * factor + offset).astype(dtype)).save(place)
    reader = build_source(tmp_path / "set", size=8)
    table = reader.build().check()
    pixels_read = table.inputs.images(torch.arange(24))
    order = np.array([*range(0, 24, 2), *range(1, 24, 2)])  # label by label
    assert pixels_read is not None and np.abs(pixels_read[:, 0].numpy().astype(int) - grey[order]).max() <= 1
    run = train(ComponentConfig("ImageFolder", {"root": str(tmp_path / "set"), "size": 8}), tmp_path / "run", **SHORT)
    # One new image alone is as bright as it was among the others.
    half = (grey[0] // 2 * factor + offset).astype(dtype)
    Image.fromarray(half).save(tmp_path / f"new.{suffix}")
    loaded_source = load(tmp_path / "run").source
    _, store, _ = next(iter(loaded_source.read(loaded_source.new_rows([tmp_path / f"new.{suffix}"]), run.model.info)))
    assert np.abs(255 * store.fetch(torch.arange(1))[0, 0].numpy() - grey[0] // 2).max() <= 1


def test_label_that_is_named_as_a_split_is_noted(root: Path) -> None:
    assert build_source(root).build().notes == ()
    for number in range(4):
        save_image(root / "New" / f"{number}.png", 50 + number)
    table = build_source(root).build()
    assert table.label_names == ["New", "cat", "dog"]
    assert [note.endswith("not splits: New") for note in table.notes] == [True]


def test_new_split_may_have_folders_of_labels_and_loose_images(root: Path, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    root.rename(tmp_path / "set" / "train")
    for name, number in (("loose.png", 200), ("cat/labelled.png", 201)):
        save_image(tmp_path / "set" / "new" / name, number)
    table = build_source(tmp_path / "set").build()
    rows = table.split["new"]
    labels = dict(zip(get_brightness(table, rows), table.label[rows].tolist(), strict=True))
    assert len(table.label) == 22 and labels == {200: -1, 201: table.label_names.index("cat")}
