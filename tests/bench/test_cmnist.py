"""Colored MNIST on the real files, and what happens without them or with damaged ones."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from logit_correction.bench.bias import named_correlation
from logit_correction.bench.cmnist import ColoredMNIST
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError

ROOT = os.environ.get("LOGIT_CORRECTION_DATA")
FILES = {
    "train-images-idx3-ubyte": (60_000, 28, 28),
    "train-labels-idx1-ubyte": (60_000,),
    "t10k-images-idx3-ubyte": (10_000, 28, 28),
    "t10k-labels-idx1-ubyte": (10_000,),
}


def found() -> bool:
    return ROOT is not None and all((Path(ROOT) / "MNIST" / "raw" / name).is_file() for name in FILES)


needs_mnist = [
    pytest.mark.mnist,
    pytest.mark.skipif(not found(), reason="LOGIT_CORRECTION_DATA names no folder with MNIST/raw"),
]


def build(**options: Any) -> DataTable:
    return ColoredMNIST(root=ROOT, download=False, **options).build()


@pytest.fixture(scope="module")
def table() -> Iterator[DataTable]:
    yield build()


class TestRealFiles:
    pytestmark = needs_mnist

    def test_sizes(self, table: DataTable) -> None:
        sizes = {name: len(rows) for name, rows in table.split.items()}
        assert sizes == {"train": 55_000, "valid": 5_000, "test": 10_000}
        assert table.check() is table and table.inputs.input_shape == (3, 28, 28)
        assert len(torch.cat(list(table.split.values())).unique()) == 70_000
        assert table.inputs.glyphs.dtype == torch.uint8

    def test_training_and_validation_are_the_published_training_part(self, table: DataTable) -> None:
        assert int(table.split["train"].max()) < 60_000 and int(table.split["valid"].max()) < 60_000
        # Counts of the digits in the published test part.
        published = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        assert torch.bincount(table.label[table.split["test"]]).tolist() == published

    def test_about_249_training_rows_conflict(self, table: DataTable) -> None:
        conflicting = {}
        for name in ("train", "valid"):
            counts = table.group_counts(name)
            conflicting[name] = int(counts.sum() - counts.diagonal().sum())
        assert abs(conflicting["train"] - 247.5) <= 4 * 15.7  # standard deviation of the binomial count
        assert abs(conflicting["valid"] - 22.5) <= 4 * 4.8

    def test_colours_of_the_test_are_uniform(self, table: DataTable) -> None:
        counts = table.group_counts("test").double()
        expected = counts.sum(1, keepdim=True) / 10
        chi_square = float(((counts - expected) ** 2 / expected).sum())
        assert 45 < chi_square < 150  # 90 degrees of freedom

    @pytest.mark.parametrize("kind", ["many-to-one", "one-to-many", "many-to-many"])
    def test_every_kind_of_correlation(self, kind: str) -> None:
        table, correlation = build(correlation=kind, minority_ratio=0.05), named_correlation(kind, 10)
        assert table.correlation == correlation and len(table.attribute_names) == correlation.num_attributes
        per_label = table.group_counts("train").sum(1, keepdim=True)
        share = 0.95 * correlation.weights + 0.05 / correlation.num_attributes
        spread = (share * (1 - share) * per_label).sqrt()
        assert bool(((table.group_counts("train") - share * per_label).abs() <= 5 * spread).all())

    def test_the_seed_decides_everything(self, table: DataTable) -> None:
        def parts(one: DataTable) -> list[Tensor]:
            return [one.split["train"], one.attribute, one.inputs.color]

        torch.manual_seed(123)
        assert all(map(torch.equal, parts(table), parts(build(seed=0))))
        assert not any(map(torch.equal, parts(table), parts(build(seed=1))))

    def test_double_scaling_divides_by_255_once_more(self, table: DataTable) -> None:
        rows = table.split["train"][:50]
        once, twice = table.inputs.fetch(rows), build(scaling="double").inputs.fetch(rows)
        assert 0.5 < float(once.max()) <= 1 and float(once.min()) == 0
        torch.testing.assert_close(twice, once / 255)

    def test_balanced_validation_leaves_training_as_biased(self) -> None:
        table = build(valid="balanced")
        valid, train = table.group_counts("valid"), table.group_counts("train")
        assert abs(int(valid.diagonal().sum()) - 500) <= 4 * 21.3
        assert int(train.diagonal().sum()) > 54_600
        assert table.metadata["validation"] == "balanced"

    @pytest.mark.parametrize("name", FILES)
    @pytest.mark.parametrize("size", [0, 7, 5000])
    def test_a_truncated_file_is_refused_with_its_place(self, tmp_path: Path, name: str, size: int) -> None:
        raw = tmp_path / "MNIST" / "raw"
        raw.mkdir(parents=True)
        for other in FILES:
            (raw / other).symlink_to(Path(str(ROOT)).resolve() / "MNIST" / "raw" / other)
        (raw / name).unlink()
        with (Path(str(ROOT)) / "MNIST" / "raw" / name).open("rb") as whole:
            (raw / name).write_bytes(whole.read(size))
        with pytest.raises(InputError, match="MNIST cannot be read") as caught:
            ColoredMNIST(root=str(tmp_path)).build()
        assert str(raw) in str(caught.value) and "download" in str(caught.value)


def write_idx(path: Path, shape: tuple[int, ...], kind: int = 8, fill: int = 0) -> None:
    """Write a file in MNIST's format whose bytes are all the same."""
    size = torch.Size(shape).numel()
    path.write_bytes(struct.pack(f">{len(shape) + 1}I", kind * 256 + len(shape), *shape) + bytes([fill]) * size)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder with files of MNIST's format and size, all zeros."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, shape in FILES.items():
        write_idx(folder / name, shape)
    return folder


def refused(raw: Path) -> str:
    with pytest.raises(InputError) as caught:
        ColoredMNIST(root=str(raw.parents[1])).build().check()
    return str(caught.value)


@pytest.mark.parametrize("missing", FILES)
def test_a_missing_file_is_refused_without_a_download(raw: Path, missing: str) -> None:
    (raw / missing).unlink()
    assert str(raw) in refused(raw)


def test_missing_files_are_refused_where_nothing_may_be_downloaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="MNIST cannot be read") as caught:
        ColoredMNIST(root=str(tmp_path), download=False).build()
    assert str(tmp_path) in str(caught.value) and "LOGIT_CORRECTION_DATA" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_failed_download_is_reported_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import MNIST

    def no_network(self: MNIST) -> None:
        raise RuntimeError("Error downloading train-images-idx3-ubyte.gz:\nTried https://example.org")

    monkeypatch.setattr(MNIST, "download", no_network)
    with pytest.raises(InputError, match="Error downloading train-images") as caught:
        ColoredMNIST(root=str(tmp_path)).build()
    assert str(tmp_path / "MNIST" / "raw") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "kind"), list(zip(FILES, [7, 9, 10, 14], strict=True)))
def test_a_file_of_another_type_is_refused_with_its_place(raw: Path, name: str, kind: int) -> None:
    write_idx(raw / name, FILES[name], kind)
    assert str(raw) in refused(raw)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_size_is_refused_with_its_place(raw: Path, name: str) -> None:
    write_idx(raw / name, (100, *FILES[name][1:]))
    message = refused(raw)
    assert str(raw) in message and "damaged" in message


def test_labels_that_are_no_digits_are_refused(raw: Path) -> None:
    write_idx(raw / "train-labels-idx1-ubyte", (60_000,), fill=200)
    assert "200" in refused(raw)


def test_one_digit_only_is_refused(raw: Path) -> None:
    assert "one label only" in refused(raw)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minority_ratio": 0}, "minority_ratio is 0"),
        ({"severity": 0}, "severity is 0"),
        ({"scaling": "triple"}, "scaling 'triple'.*unit, double"),
        ({"valid": "none"}, "valid 'none'"),
        ({"correlation": "odd"}, "correlation 'odd'"),
        ({"correlation": [[0]] * 9}, "9 rows"),
    ],
)
def test_impossible_options_are_refused_before_anything_is_read(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ColoredMNIST(root="/nowhere", **options)


def test_the_folder_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_DATA", str(tmp_path))
    assert ColoredMNIST().root == tmp_path
    assert ColoredMNIST(root="/other").root == Path("/other")
