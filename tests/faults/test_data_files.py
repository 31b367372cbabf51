"""Files that hold data, kept copies of them and archives: spoiled in every way, they are made again or named."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction import ComponentConfig, RunConfig, TrainingConfig
from logit_correction.bench import cifar10_images, glyphs
from logit_correction.bench.cifar10_images import read_cifar10
from logit_correction.bench.digits import Digits
from logit_correction.bench.glyphs import read_mnist
from logit_correction.data.arrays import Arrays, from_arrays
from logit_correction.data.cache import cache_folder, verified_array
from logit_correction.data.frames import read_frame
from logit_correction.data.images import image_store
from logit_correction.data.texts import tokenize
from logit_correction.runs.encode import encode_table
from logit_correction.runs.options import complete

#: A file, how it is read, and whether it is only kept, so that it is made again where it is damaged.
Kind = tuple[Path, Callable[[], Any], bool]

DRAW = np.random.default_rng(0)
ROWS = torch.arange(3)


def arrays(folder: Path) -> Kind:
    choice = from_arrays(DRAW.random((20, 3)), [0, 1] * 10, folder=folder)
    return Path(choice.options["file"]), lambda: Arrays(**choice.options).build().inputs.fetch(ROWS), False


def kept_array(folder: Path) -> Kind:
    values = DRAW.integers(0, 256, (9, 3, 4, 4), dtype=np.uint8)
    file = folder / "kept.npy"
    verified_array(file, lambda: values)
    return file, lambda: torch.from_numpy(verified_array(file, lambda: values)[0]), True


def kept_checksum(folder: Path) -> Kind:
    file, read, _ = kept_array(folder)
    return file.with_suffix(".sha256"), read, True


def features(folder: Path) -> Kind:
    encoder = ComponentConfig("ConvNet", {"channels": [2], "hidden": 0, "norm": "batch"})
    training = TrainingConfig(epochs=1, threads=1)
    config = complete(RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM"), encoder=encoder, training=training))
    digits = Digits().build()

    def read() -> Any:
        return encode_table(digits, config).inputs.fetch(ROWS)

    read()
    (file,) = (cache_folder() / "features").glob("*.npy")
    return file, read, True


def photos(folder: Path, suffix: str, count: int = 4) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number}{suffix}" for number in range(count)]
    for file in files:
        Image.fromarray(DRAW.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(file)
    return files


def pictures(folder: Path) -> Kind:
    files = photos(folder / "photos", ".png")

    def read() -> Any:
        return image_store(files, 8, cache=folder / "cache").fetch(ROWS)

    read()
    (file,) = (folder / "cache").glob("*.npy")
    return file, read, True


def beside_pictures(folder: Path) -> Kind:
    file, read, _ = pictures(folder)
    return file.with_suffix(".json"), read, True


def streamed(folder: Path) -> Kind:
    files = photos(folder / "photos", ".png")

    def read() -> Any:
        return torch.as_tensor(image_store(files, 8, cache=folder / "cache", memory_limit=1e-9).fetch(ROWS)).shape[1]

    read()
    (file,) = (folder / "cache").glob("*.npy")
    return file, read, True


def image(suffix: str) -> Callable[[Path], Kind]:
    def make(folder: Path) -> Kind:
        files = photos(folder / "photos", suffix)
        return files[1], lambda: image_store(files, 8, cache=folder / "cache").fetch(ROWS), False

    return make


def tokens(folder: Path) -> Kind:
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "good"]
    (folder / "words").mkdir(parents=True)
    (folder / "words" / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(folder / "words" / "vocab.txt")).save_pretrained(folder / "words")

    def read() -> Any:
        store = tokenize(["a good film", "film", "good"], str(folder / "words"), 8, folder / "cache")
        return torch.stack(list(store.fetch(ROWS).values()))

    read()
    (file,) = (folder / "cache").glob("*.npy")
    return file, read, True


def cifar_archive(folder: Path) -> Kind:
    file = folder / "data" / cifar10_images.ARCHIVE
    file.parent.mkdir(parents=True)
    with tarfile.open(file, "w:gz") as archive:
        for number, label in enumerate(cifar10_images.CLASSES):
            for part in ("train", "test"):
                content = io.BytesIO()
                Image.fromarray(np.full((32, 32, 3), number, np.uint8)).save(content, "png")
                member = tarfile.TarInfo(f"{part}/{label}/0.png")
                member.size = content.tell()
                content.seek(0)
                archive.addfile(member, content)
    return file, lambda: torch.from_numpy(read_cifar10(file.parent, download=False).images), False


def cifar_batch(folder: Path) -> Kind:
    file = folder / "data" / cifar10_images.BATCHES / "data_batch_1"
    file.parent.mkdir(parents=True)
    file.write_bytes(pickle.dumps({"data": [], "labels": []}))
    return file, lambda: read_cifar10(folder / "data", download=False), False


def mnist(folder: Path) -> Kind:
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, size in (("train", glyphs.NUM_TRAIN), ("t10k", glyphs.NUM_TEST)):
        shape = [(2051).to_bytes(4, "big"), *(number.to_bytes(4, "big") for number in (size, 28, 28))]
        (raw / f"{part}-images-idx3-ubyte").write_bytes(b"".join(shape) + bytes(size * 784))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes((2049).to_bytes(4, "big") + shape[1] + bytes(size))
    return raw / "t10k-images-idx3-ubyte", lambda: read_mnist(folder, download=False)[1].float(), False


def table(suffix: str) -> Callable[[Path], Kind]:
    def make(folder: Path) -> Kind:
        folder.mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame({"label": ["a", "b"] * 20, "x": DRAW.random(40)})
        file = folder / f"table{suffix}"
        frame.to_parquet(file) if suffix == ".parquet" else frame.to_csv(file, index=False)
        return file, lambda: len(read_frame(file)), False

    return make


KINDS: dict[str, Callable[[Path], Kind]] = {
    "arrays": arrays,
    "kept array": kept_array,
    "checksum of a kept array": kept_checksum,
    "features": features,
    "pictures": pictures,
    "beside pictures": beside_pictures,
    "streamed pictures": streamed,
    "tokens": tokens,
    **{f"image {suffix}": image(suffix) for suffix in (".png", ".jpg", ".gif", ".bmp", ".tif", ".webp")},
    "archive of CIFAR-10": cifar_archive,
    "batch of CIFAR-10": cifar_batch,
    "MNIST": mnist,
    "CSV": table(".csv"),
    "Parquet": table(".parquet"),
}


@pytest.mark.parametrize("name", KINDS)
def test_spoiled_data(
    name: str, tmp_path: Path, endures: Callable[[Path, Callable[[], Any], bool], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(cifar10_images, "PER_CLASS", {"train": 1, "test": 1})
    file, read, again = KINDS[name](tmp_path / "data")
    messages = endures(file, read, again)
    assert messages or again
