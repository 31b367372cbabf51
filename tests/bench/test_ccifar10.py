"""Corrupted CIFAR-10 on small files in every layout that it is read from, whole and damaged."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction.bench import cifar10_images
from logit_correction.bench.ccifar10 import CorruptedCIFAR10
from logit_correction.bench.cifar10_images import CLASSES, read_cifar10
from logit_correction.bench.corruptions import FAMILIES, corrupt
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError

#: Images of each class in the small files.
SMALL = {"train": 20, "test": 10}

BATCH_FILES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
META = pickle.dumps({"label_names": list(CLASSES)})


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let CIFAR-10 have few images, and keep what is made in a folder of the test."""
    from torchvision.datasets import CIFAR10

    monkeypatch.setattr(cifar10_images, "PER_CLASS", SMALL)
    for part, names in BATCH_FILES.items():
        known = [(name, hashlib.md5(batch(part, i)).hexdigest()) for i, name in enumerate(names)]
        monkeypatch.setattr(CIFAR10, f"{part}_list", known)
    monkeypatch.setattr(CIFAR10, "meta", CIFAR10.meta | {"md5": hashlib.md5(META).hexdigest()})
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))


def drawn(count: int, seed: int = 0) -> np.ndarray:
    """Images (count, 32, 32, 3) of a gradient and noise."""
    draw = np.random.default_rng(seed)
    ramp = np.linspace(0, 160, 32)[:, None, None] + draw.uniform(0, 60, (count, 1, 1, 3))
    return (ramp + draw.uniform(0, 30, (count, 32, 32, 3))).astype(np.uint8)


def batch(part: str, number: int) -> bytes:
    """The content of one of CIFAR-10's Python batches."""
    count = 10 * SMALL[part] // len(BATCH_FILES[part])
    pixels = drawn(count, seed=number + 10 * (part == "test")).transpose(0, 3, 1, 2).reshape(count, -1)
    return pickle.dumps({"data": np.ascontiguousarray(pixels), "labels": [j % 10 for j in range(count)]}, protocol=2)


def write_batches(root: Path) -> Path:
    """Write CIFAR-10's Python batches; returns the folder with them."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for part, names in BATCH_FILES.items():
        for i, name in enumerate(names):
            (folder / name).write_bytes(batch(part, i))
    (folder / "batches.meta").write_bytes(META)
    return folder


def write_folders(root: Path, suffix: str = ".jpg") -> Path:
    """Write train/<class>/NNNN.jpg and test/<class>/NNNN.jpg; returns the root."""
    for part, count in SMALL.items():
        for number, name in enumerate(CLASSES):
            (root / part / name).mkdir(parents=True)
            for i, image in enumerate(drawn(count, seed=number + 100 * (part == "test"))):
                Image.fromarray(image).save(root / part / name / f"{i:04d}{suffix}", quality=75)
    return root


def write_archive(root: Path, scratch: Path) -> Path:
    """Write the folders as cifar10-images.tar.gz; returns the file."""
    root.mkdir(parents=True, exist_ok=True)
    write_folders(scratch)
    with tarfile.open(root / "cifar10-images.tar.gz", "w:gz") as archive:
        for part in SMALL:
            archive.add(scratch / part, part)
    return root / "cifar10-images.tar.gz"


def write_published(root: Path) -> Path:
    """Write {pct}/{align,conflict}/<class>, {pct}/valid/<class> and test/<class>; returns the folder."""
    pixels = iter(drawn(1000, seed=5))

    def write(part: str, label: int, value: int, number: int) -> None:
        folder = root / part / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(next(pixels)).save(folder / f"{number}_{label}_{value}.png")

    for label in range(10):
        for number in range(6):
            write("20pct/align", label, label, number)
        for number in range(2):
            write("20pct/conflict", label, (label + 1 + number) % 10, 10 + number)
        for number in range(2):
            write("20pct/valid", label, label, 20 + number)
        for number in range(10):
            write("test", label, number, 30 + number)
    return root


WRITERS: dict[str, Callable[[Path], Path]] = {
    "batches": write_batches,
    "archive": lambda root: write_archive(root, root / "scratch" / "x"),
    "folders": write_folders,
}


@pytest.fixture(params=WRITERS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a small CIFAR-10 in each of the layouts."""
    WRITERS[request.param](tmp_path / "data")
    return tmp_path / "data"


def build(root: Path, **options: Any) -> DataTable:
    options = {"minority_ratio": 0.2, "download": False} | options
    return CorruptedCIFAR10(root=str(root), **options).build().check()


class TestImages:
    def test_sizes_and_labels(self, root: Path) -> None:
        cifar = read_cifar10(root, download=False)
        assert cifar.images.shape == (300, 3, 32, 32) and cifar.images.dtype == np.uint8
        assert cifar.num_train == 200
        assert np.bincount(cifar.label[:200]).tolist() == [20] * 10
        assert np.bincount(cifar.label[200:]).tolist() == [10] * 10

    def test_archive_and_folders_hold_the_same(self, tmp_path: Path) -> None:
        write_archive(tmp_path / "a", tmp_path / "f")
        archive, folder = (read_cifar10(tmp_path / name, download=False) for name in "af")
        assert np.array_equal(archive.images, folder.images) and archive.checksum == folder.checksum
        with Image.open(tmp_path / "f" / "train" / "cat" / "0007.jpg") as image:
            assert np.array_equal(archive.images[3 * 20 + 7].transpose(1, 2, 0), np.asarray(image))
        assert "JPEG files, so not the original pixels (cifar10-images.tar.gz)" in archive.source

    def test_nothing_is_called_from_a_batch_file(self, tmp_path: Path) -> None:
        class Evil:
            def __reduce__(self) -> tuple[Any, ...]:
                return (Path.touch, (tmp_path / "called",))

        folder = write_batches(tmp_path)
        (folder / "data_batch_2").write_bytes(pickle.dumps({"data": Evil()}))
        with pytest.raises(InputError, match="lacks the original files"):
            read_cifar10(tmp_path, download=False)
        assert not (tmp_path / "called").exists()


class TestTable:
    def test_split_and_groups(self, root: Path) -> None:
        table = build(root)
        sizes = {name: len(rows) for name, rows in table.split.items()}
        assert sizes == {"train": 180, "valid": 20, "test": 100}
        assert len(torch.cat(list(table.split.values())).unique()) == 300
        assert table.inputs.input_shape == (3, 32, 32)
        assert list(table.label_names) == list(CLASSES) and tuple(table.attribute_names) == FAMILIES["type0"]
        counts = table.group_counts("train")
        expected = sum(round(0.2 * int(n)) for n in counts.sum(1))
        assert int(counts.sum() - counts.diagonal().sum()) == expected

    def test_every_image_is_corrupted_as_its_attribute_says(self, tmp_path: Path) -> None:
        write_batches(tmp_path)
        for corruptions in ("type0", "type1"):
            table = build(tmp_path, corruptions=corruptions, severity=3, seed=4)
            plain = read_cifar10(tmp_path, download=False).images
            for row in (0, 17, 150, 220, 299):
                name = table.attribute_names[int(table.attribute[row])]
                expected = corrupt(plain[row : row + 1].transpose(0, 2, 3, 1), name, 3, np.array([row]), seed=4)
                shown = table.inputs.images(torch.tensor([row]))
                assert shown is not None and np.array_equal(shown.numpy().transpose(0, 2, 3, 1), expected)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"corruptions": "type2"}, "corruption 'type2' is unknown"),
            ({"corruptions": ["Snow", "Fogg"]}, "did you mean Fog"),
            ({"corruptions": ["Snow"] * 10}, "names some twice"),
            ({"corruptions": ["Snow", "Fog"]}, "10 corruptions.*only 2"),
            ({"correlation": "one-to-many"}, "11 corruptions.*only 10"),
            ({"severity": 0}, "severity is 0"),
            ({"minority_ratio": 0.0}, "minority_ratio is 0"),
            ({"valid": "fair"}, "valid 'fair'"),
            ({"augment": "mirror"}, "'mirror'"),
        ],
    )
    def test_wrong_options_are_refused_before_any_reading(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            CorruptedCIFAR10(root="/nowhere", **options)


def test_the_published_folders_are_read(tmp_path: Path) -> None:
    table = build(tmp_path, published=str(write_published(tmp_path / "cifar10c")))
    assert {name: len(rows) for name, rows in table.split.items()} == {"train": 80, "valid": 20, "test": 100}
    counts = table.group_counts("train")
    assert int(counts.sum() - counts.diagonal().sum()) == 20 and bool((table.group_counts("test") == 1).all())
    with pytest.raises(InputError, match="1pct/align does not exist"):
        CorruptedCIFAR10(published=str(tmp_path / "cifar10c"), minority_ratio=0.01).ensure_files()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "folders")
    shutil.rmtree(folder / "train" / "cat")
    with pytest.raises(InputError, match=r"cat has 0.*put the missing images there"):
        build(folder)
    folder = write_folders(tmp_path / "damaged")
    (folder / "train" / "dog" / "0003.jpg").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"1 images of CIFAR-10 are damaged: .*dog/0003.jpg"):
        build(folder)
    archive = write_archive(tmp_path / "archive", tmp_path / "scratch")
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"cifar10-images.tar.gz cannot be read .*get it again"):
        build(archive.parent)
