"""Corrupted CIFAR-10 on small files in every layout that it is read from, whole and damaged."""

from __future__ import annotations

import hashlib
import io
import json
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
from logit_correction.cli import main
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

    def test_pixels_of_the_batches_are_kept_as_they_are(self, tmp_path: Path) -> None:
        write_batches(tmp_path)
        cifar = read_cifar10(tmp_path, download=False)
        assert np.array_equal(cifar.images[40:80].transpose(0, 2, 3, 1), drawn(40, seed=1))
        assert np.array_equal(cifar.images[200:].transpose(0, 2, 3, 1), drawn(100, seed=10))
        assert cifar.source == "CIFAR-10, the original pixels"

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

    def test_the_test_is_uniform_and_valid_as_asked(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from logit_correction.bench.ccifar10 import CorruptedCIFAR10 as Source

        source = Source(minority_ratio=0.01, valid="balanced")
        label = torch.arange(60_000) % 10
        split, attribute = source._attributes(label, 50_000)
        assert {name: len(rows) for name, rows in split.items()} == {"train": 45_000, "valid": 5_000, "test": 10_000}
        conflicting = {name: int((attribute[rows] != label[rows]).sum()) for name, rows in split.items()}
        assert abs(conflicting["train"] - 450) <= 5  # rounded within each class
        assert abs(conflicting["valid"] - 4_500) < 100 and abs(conflicting["test"] - 9_000) < 150
        counts = torch.bincount(label[split["test"]] * 10 + attribute[split["test"]], minlength=100)
        assert 45 < float(((counts - 100) ** 2 / 100).sum()) < 150

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


def renamed(folder: Path, old: str, new: str) -> None:
    (folder / old).rename(folder / new)


PUBLISHED_DAMAGES: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "no numbers": (lambda f: renamed(f, "test/3/37_3_7.png", "test/3/37.png"), ("37.png", "_<label>_<attribute>")),
    "other kind": (
        lambda f: renamed(f, "20pct/align/3/0_3_3.png", "20pct/align/3/0_3_4.png"),
        ("0_3_4.png", "align holds equal numbers"),
    ),
    "out of range": (lambda f: renamed(f, "test/3/37_3_7.png", "test/3/37_3_10.png"), ("37_3_10.png", "0 to 9")),
    "no image": (lambda f: (f / "test/3/37_3_7.png").write_bytes(b"no image"), ("37_3_7.png",)),
    "no conflict": (lambda f: shutil.rmtree(f / "20pct/conflict"), ("conflict", "does not exist")),
    "other ratio": (lambda f: renamed(f, "20pct", "30pct"), ("20pct", "--data.minority_ratio")),
}


class TestPublished:
    @pytest.mark.parametrize("inner", ["", "20pct"])
    def test_the_folders_are_read(self, tmp_path: Path, inner: str) -> None:
        folder = write_published(tmp_path / "cifar10c") / inner
        table = CorruptedCIFAR10(minority_ratio=0.2, published=str(folder)).build().check()
        assert {name: len(rows) for name, rows in table.split.items()} == {"train": 80, "valid": 20, "test": 100}
        train = table.group_counts("train")
        assert train.diagonal().tolist() == [6] * 10 and int(train.sum()) == 80
        assert (table.group_counts("test") == 1).all()
        assert table.row_names is not None and table.correlation is not None
        row = next(i for i, name in enumerate(table.row_names) if name.endswith("test/3/37_3_7.png"))
        with Image.open(tmp_path / "cifar10c" / table.row_names[row]) as image:
            shown = table.inputs.images(torch.tensor([row]))
            assert shown is not None and np.array_equal(shown[0].permute(1, 2, 0).numpy(), np.asarray(image))
        assert (int(table.label[row]), int(table.attribute[row])) == (3, 7)

    @pytest.mark.parametrize("name", PUBLISHED_DAMAGES)
    def test_damaged_folders_are_refused(self, tmp_path: Path, name: str) -> None:
        folder = write_published(tmp_path / "cifar10c")
        damage, words = PUBLISHED_DAMAGES[name]
        damage(folder)
        with pytest.raises(InputError) as caught:
            CorruptedCIFAR10(minority_ratio=0.2, published=str(folder)).build()
        assert all(word in str(caught.value) for word in words), caught.value


def train(out: Path, method: str, *options: str) -> int:
    words = ["--method", method, "--epochs", "1", "--batch_size", "32", "--threads", "1", "--out", str(out)]
    own = ["--method.attributes", "Online"] if method == "LC" else []
    return main(["train", "--data", "CorruptedCIFAR10", *options, *words, *own])


@pytest.mark.parametrize("method", ["ERM"])
def test_training_from_the_published_folders(tmp_path: Path, method: str) -> None:
    folder = write_published(tmp_path / "cifar10c")
    assert train(tmp_path / "run", method, "--data.published", str(folder), "--data.minority_ratio", "0.2") == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert [group["count"] for group in report["test"]["groups"]] == [1] * 100


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def rewrite_archive(archive: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Write the archive again with changed members; None leaves one out."""
    with tarfile.open(archive) as old:
        members = {m.name: old.extractfile(m).read() for m in old if m.isfile()}  # type: ignore[union-attr]
    with tarfile.open(archive, "w:gz") as new:
        for name, content in members.items():
            changed = change(name, content)
            if changed is not None:
                entry = tarfile.TarInfo(name)
                entry.size = len(changed)
                new.addfile(entry, io.BytesIO(changed))


def other_labels(folder: Path) -> None:
    content = pickle.loads((folder / "test_batch").read_bytes())
    content["labels"][0] = 3
    (folder / "test_batch").write_bytes(pickle.dumps(content))


DAMAGES: dict[str, tuple[str, Callable[[Path], Any], tuple[str, ...]]] = {
    "truncated batch": ("batches", lambda f: cut(f / "data_batch_3"), ("cifar-10-batches-py", "download")),
    "other labels": ("batches", other_labels, ("lacks the original files", "download")),
    "missing class": ("folders", lambda f: shutil.rmtree(f / "train" / "cat"), ("cat has 0", "20 train")),
    "unreadable image": (
        "folders",
        lambda f: (f / "train" / "dog" / "0003.jpg").write_bytes(b"\xff\xd8 no image"),
        ("dog/0003.jpg", "1 images", "damaged"),
    ),
    "large image": (
        "folders",
        lambda f: Image.new("RGB", (64, 64)).save(f / "test" / "frog" / "0001.jpg"),
        ("frog/0001.jpg", "64 x 64"),
    ),
    "damaged archive": (
        "archive",
        lambda f: f.write_bytes(f.read_bytes()[:5000] + bytes(5000) + f.read_bytes()[10_000:]),
        ("cifar10-images.tar.gz", "get it again"),
    ),
    "archive without a class": (
        "archive",
        lambda f: rewrite_archive(f, lambda name, content: None if "/ship/" in name else content),
        ("ship has 0", "get it again"),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_end_with_a_message_and_status_2(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, damage, words = DAMAGES[name]
    damage(WRITERS[layout](tmp_path / "data"))
    options = ["--data.root", str(tmp_path / "data"), "--data.download", "false"]
    assert train(tmp_path / "run", "ERM", *options) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and shown.count("\n") == 1
    assert all(word in shown for word in words), shown
    assert not (tmp_path / "run" / "report.json").exists()
