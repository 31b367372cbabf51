"""A folder of images: the layouts that people have, and what may be wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from logit_correction.data.own import ImageFolder
from logit_correction.errors import InputError


def save(path: Path, number: int = 0) -> None:
    """Save an image whose brightness is a number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), (number, number, number)).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder per label, ten images each: cat images are 0..9, dog images 100..109."""
    folder = tmp_path / "animals"
    for start, label in ((0, "cat"), (100, "dog")):
        for i in range(10):
            save(folder / label / ("deep" if i == 3 else "") / f"{i}.png", start + i)
    return folder


def source(root: Path, **options: object) -> ImageFolder:
    return ImageFolder(str(root), **({"size": 4} | options))  # type: ignore[arg-type]


def brightness(table: object, rows: torch.Tensor) -> list[int]:
    return table.inputs.images(rows)[:, 0, 0, 0].tolist()  # type: ignore[attr-defined]


def test_a_folder_per_label(root: Path) -> None:
    for label in ("cat", "dog"):
        (root / label / "notes.txt").write_text("about pets")
    (root / "dog" / ".DS_Store").write_text("")
    table = source(root).build().check()
    assert table.label_names == ["cat", "dog"] and table.attribute_names == []
    assert {name: len(rows) for name, rows in table.split.items()} == {"train": 14, "valid": 2, "test": 4}
    rows = torch.arange(20)
    assert [value >= 100 for value in brightness(table, rows)] == table.label[rows].bool().tolist()
    assert table.row_names is not None and "cat/deep/3.png" in table.row_names
    (note,) = table.notes
    assert "no images by name" in note and "cat/notes.txt" in note and "dog/notes.txt" in note
    assert table.metadata["split"] == "drawn label by label, 10 % valid, 20 % test, seed 0"


def test_a_folder_per_split(tmp_path: Path) -> None:
    for start, split in ((0, "Train"), (50, "val"), (100, "test")):
        for i in range(4):
            save(tmp_path / "data" / split / ("b" if i % 2 else "a") / f"{i}.jpg", start + i)
    table = source(tmp_path / "data").build().check()
    assert table.metadata["split"] == "given" and table.label_names == ["a", "b"]
    for start, name in zip((0, 50, 100), ("train", "valid", "test"), strict=True):
        assert all(abs(value - start) <= 5 for value in brightness(table, table.split[name]))


def test_images_that_cannot_be_read(root: Path) -> None:
    (root / "cat" / "0.png").write_bytes(b"")
    (root / "dog" / "9.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"2 rows are bad: cat/0\.png, dog/9\.png: .*on_bad_rows skip"):
        source(root).build()
    table = source(root, on_bad_rows="skip").build().check()
    assert sum(len(rows) for rows in table.split.values()) == 18
    assert len(table.notes) == 1 and "2 rows are bad and left out: cat/0.png, dog/9.png: " in table.notes[0]
    assert 0 not in torch.cat(list(table.split.values())).tolist()


def test_links_in_the_place_of_a_label(root: Path, tmp_path: Path) -> None:
    save(tmp_path / "elsewhere" / "x.png")
    (root / "ant").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"1 row is bad: ant/x\.png: is a link that leaves the folder"):
        source(root).build()
    (tmp_path / "link").symlink_to(root)  # the folder itself may be one
    (root / "ant").unlink()
    assert len(source(tmp_path / "link").build().label) == 20


def test_folders_that_are_none(tmp_path: Path, root: Path) -> None:
    with pytest.raises(InputError, match="is no folder"):
        source(tmp_path / "nothing").build()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"a folder of images for each of at least two labels.*it holds nothing"):
        source(tmp_path / "empty").build()
    for split in ("train", "test"):
        save(tmp_path / "splits" / split / "0.png")
    with pytest.raises(InputError, match=r"at least two labels, or such folders in train.*; it holds test, train"):
        source(tmp_path / "splits").build()
    for label in "ab":
        (tmp_path / "two" / label).mkdir(parents=True)
    with pytest.raises(InputError, match="holds no images"):
        source(tmp_path / "two").build()
    save(root / "train" / "cat" / "0.png")
    with pytest.raises(InputError, match=r"holds folders that hold folders \(cat\): give one of them, such as .*train"):
        source(root).build()
