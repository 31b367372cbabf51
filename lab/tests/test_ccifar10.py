"""Corrupted CIFAR-10 on small files in every layout that it is read from, whole and damaged."""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction_lab.sources import cifar10_images
from logit_correction_lab.sources.ccifar10 import CorruptedCIFAR10
from logit_correction_lab.sources.cifar10_images import CLASSES, read_cifar10
from logit_correction_lab.sources.corruptions import CORRUPTIONS, corrupt_images

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
        checksums = [(name, hashlib.md5(make_batch_file(part, i)).hexdigest()) for i, name in enumerate(names)]
        monkeypatch.setattr(CIFAR10, f"{part}_list", checksums)
    monkeypatch.setattr(CIFAR10, "meta", CIFAR10.meta | {"md5": hashlib.md5(META).hexdigest()})
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))


def draw_images(count: int, seed: int = 0) -> np.ndarray:
    """Images (count, 32, 32, 3) of a gradient and noise."""
    draw = np.random.default_rng(seed)
    ramp = np.linspace(0, 160, 32)[:, None, None] + draw.uniform(0, 60, (count, 1, 1, 3))
    return (ramp + draw.uniform(0, 30, (count, 32, 32, 3))).astype(np.uint8)


def make_batch_file(part: str, number: int) -> bytes:
    """The content of one of CIFAR-10's Python batches."""
    count = 10 * SMALL[part] // len(BATCH_FILES[part])
    pixels = draw_images(count, seed=number + 10 * (part == "test")).transpose(0, 3, 1, 2).reshape(count, -1)
    return pickle.dumps({"data": np.ascontiguousarray(pixels), "labels": [j % 10 for j in range(count)]}, protocol=2)


def write_batches(root: Path) -> Path:
    """Write CIFAR-10's Python batches; returns the folder with them."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for part, names in BATCH_FILES.items():
        for i, name in enumerate(names):
            (folder / name).write_bytes(make_batch_file(part, i))
    (folder / "batches.meta").write_bytes(META)
    return folder


def write_archive(root: Path, label: str = "airplane") -> Path:
    """Write cifar10-images.tar.gz, in which a folder of training images has the name ``label``; returns the file."""
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(root / "cifar10-images.tar.gz", "w:gz") as archive:
        for part, count in SMALL.items():
            for number, name in enumerate(CLASSES):
                folder = f"{part}/{label if (part, number) == ('train', 0) else name}"
                for i, image in enumerate(draw_images(count, seed=number + 100 * (part == "test"))):
                    packed = io.BytesIO()
                    Image.fromarray(image).save(packed, "PNG")
                    member = tarfile.TarInfo(f"{folder}/{i:04d}.png")
                    member.size = packed.tell()
                    packed.seek(0)
                    archive.addfile(member, packed)
    return root / "cifar10-images.tar.gz"


@pytest.fixture(params=[write_batches, write_archive])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a small CIFAR-10 in each of the layouts."""
    request.param(tmp_path / "data")
    return tmp_path / "data"


def build(root: Path, **options: Any) -> DataTable:
    options = {"minority_ratio": 0.2, "download": False} | options
    return CorruptedCIFAR10(root=str(root), **options).build().check()


def test_build_gives_the_sizes_of_splits_and_groups(root: Path) -> None:
    cifar = read_cifar10(root, download=False)
    table = build(root)
    assert cifar.images.shape == (300, 3, 32, 32) and cifar.num_train == 200
    assert np.bincount(cifar.label[:200]).tolist() == [20] * 10 and np.bincount(cifar.label[200:]).tolist() == [10] * 10
    sizes = {name: len(rows) for name, rows in table.split.items()}
    assert sizes == {"train": 180, "valid": 20, "test": 100}
    assert len(torch.cat(list(table.split.values())).unique()) == 300 and table.inputs.input_shape == (3, 32, 32)
    assert list(table.label_names) == list(CLASSES) and list(table.attribute_names) == list(CORRUPTIONS)
    counts = table.count_groups("train")
    expected = sum(round(0.2 * int(n)) for n in counts.sum(1))
    assert int(counts.sum() - counts.diagonal().sum()) == expected


def test_read_cifar10_runs_no_code_of_a_pickled_batch_file(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "called",))

    folder = write_batches(tmp_path)
    (folder / "data_batch_2").write_bytes(pickle.dumps({"data": Evil()}))
    with pytest.raises(InputError, match="lacks the original files"):
        read_cifar10(tmp_path, download=False)
    assert not (tmp_path / "called").exists()


def test_build_corrupts_each_image_by_its_attribute(tmp_path: Path) -> None:
    write_batches(tmp_path)
    table = build(tmp_path, severity=3, seed=4)
    plain = read_cifar10(tmp_path, download=False).images
    for row in (0, 17, 150, 220, 299):
        name = table.attribute_names[int(table.attribute[row])]
        expected = corrupt_images(plain[row : row + 1].transpose(0, 2, 3, 1), name, 3, np.array([row]), seed=4)
        image = table.inputs.images(torch.tensor([row]))
        assert image is not None and np.array_equal(image.numpy().transpose(0, 2, 3, 1), expected)


def test_build_reads_the_published_folders(tmp_path: Path) -> None:
    places = [(part, y, a) for y in range(10) for part, a in
              (*(("20pct/align", y),) * 6, *(("20pct/conflict", (y + 1) % 10),) * 2, ("20pct/valid", y))]  # fmt: skip
    places += [("test", y, a) for y in range(10) for a in range(10)]
    for number, (part, y, a) in enumerate(places):
        (tmp_path / part / str(y)).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (y, a, 0)).save(tmp_path / part / str(y) / f"{number}_{y}_{a}.png")
    table = build(tmp_path, published=str(tmp_path))
    assert {name: len(rows) for name, rows in table.split.items()} == {"train": 80, "valid": 10, "test": 100}
    pixels = table.inputs.images(torch.arange(190))
    assert pixels is not None and torch.equal(pixels[:, 0, 5, 5].long(), table.label)
    assert torch.equal(pixels[:, 1, 5, 5].long(), table.attribute)
    counts = table.count_groups("train")
    assert int(counts.sum() - counts.diagonal().sum()) == 20 and bool((table.count_groups("test") == 1).all())
    with pytest.raises(InputError, match="has no 1pct/align"):
        CorruptedCIFAR10(published=str(tmp_path), minority_ratio=0.01).ensure_raw_files()
