"""The images of CIFAR-10, from the original batch files or from image files."""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logit_correction.data.cache import cache_folder, checksum_of, digest, verified_array
from logit_correction.data.image_io import SUFFIXES, fault_of
from logit_correction.data.memory import available_cores
from logit_correction.data.problems import format_faults
from logit_correction.errors import InputError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

#: Images of each class.
PER_CLASS = {"train": 5_000, "test": 1_000}

#: Height and width.
SIZE = 32

BATCHES, ARCHIVE = "cifar-10-batches-py", "cifar10-images.tar.gz"
BATCH_FILES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}

#: Folders under the root that may hold train/<class> and test/<class>.
FOLDERS = ("", "cifar10", "cifar10-images")

#: All that a batch file may call up when it is read: bytes, lists and arrays need no more.
_PLAIN = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),
}


@dataclass(frozen=True)
class Cifar10:
    """All images, those of the training part first.

    Attributes:
        images: (M, 3, 32, 32) uint8.
        label: (M,) 0..9.
        num_train: Size of the training part.
        checksum: SHA-256 of ``images``.
        source: Where the pixels are from, for people.
    """

    images: NDArray[np.uint8]
    label: NDArray[np.int64]
    num_train: int
    checksum: str
    source: str


def read_cifar10(root: Path, download: bool) -> Cifar10:
    """Read CIFAR-10 from what lies under ``root``; the original pixels are preferred.

    - ``cifar-10-batches-py``, as torchvision keeps it;
    - ``cifar10-images.tar.gz`` with train/<class>/* and test/<class>/*, decoded once into the cache folder;
    - folders train/<class> and test/<class>, there or in ``cifar10`` or ``cifar10-images``, kept in the same way.

    Raises:
        InputError: If a file is missing or damaged, or the number of images is not that of CIFAR-10.
    """
    ensure_cifar10(root, download)
    if (root / BATCHES).exists():
        return _from_batches(root / BATCHES)
    if (root / ARCHIVE).exists():
        return _from_archive(root / ARCHIVE)
    return _from_folder(_folders(root)[0])


def ensure_cifar10(root: Path, download: bool) -> None:
    """Return if CIFAR-10 lies under ``root`` in one of the forms of ``read_cifar10``, downloaded if need be.

    Raises:
        InputError: If it does not.
    """
    if (root / BATCHES).exists() or (root / ARCHIVE).exists() or _folders(root):
        return
    if not download:
        raise InputError(
            f"CIFAR-10 is not in {root}: put {BATCHES}, {ARCHIVE} or folders train/<class> and test/<class> there, "
            "name another folder by --data.root or LOGIT_CORRECTION_DATA, or allow --data.download true"
        )
    _download(root)


def _folders(root: Path) -> list[Path]:
    """Return the folders that hold images of classes."""
    return [root / name for name in FOLDERS if any((root / name / "train" / label).is_dir() for label in CLASSES)]


def _download(root: Path) -> None:
    from torchvision.datasets import CIFAR10

    try:
        CIFAR10(str(root), download=True)
    except (RuntimeError, OSError, ValueError, EOFError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(
            f"CIFAR-10 cannot be downloaded to {root} ({lines[0]}): put {BATCHES}, {ARCHIVE} or folders "
            "train/<class> and test/<class> there, or name another folder by --data.root or LOGIT_CORRECTION_DATA"
        ) from error


class _PlainUnpickler(pickle.Unpickler):
    """Reads data and runs nothing: the batch files are pickles, which could otherwise call anything."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the few constructors of plain data."""
        if (module, name) not in _PLAIN:
            raise pickle.UnpicklingError(f"it wants to call {module}.{name}")
        return super().find_class(module, name)


def _from_batches(folder: Path) -> Cifar10:
    images, labels, num_train = [], [], 0
    for part, names in BATCH_FILES.items():
        for name in names:
            pixels, label = _read_batch(folder / name)
            images.append(pixels)
            labels.append(label)
        found = np.concatenate(labels)[num_train:]
        counts = dict(zip(CLASSES, np.bincount(found, minlength=10).tolist(), strict=True))
        _check_counts(folder, part, counts, "delete the folder to download it again")
        num_train = num_train or len(found)
    values = np.concatenate(images)
    return Cifar10(values, np.concatenate(labels), num_train, checksum_of(values), "CIFAR-10, the original pixels")


def _read_batch(file: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        with file.open("rb") as stream:
            content = _PlainUnpickler(stream, encoding="bytes").load()
        pixels, label = np.asarray(content[b"data"]), np.asarray(content[b"labels"], np.int64)
        if pixels.dtype != np.uint8 or pixels.shape != (len(label), 3 * SIZE * SIZE):
            raise ValueError(f"pixels are {pixels.dtype} {pixels.shape} with {len(label)} labels")
        if not ((label >= 0) & (label < len(CLASSES))).all():
            raise ValueError("labels are not 0..9")
    except Exception as error:  # damaged pickles raise many kinds
        reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
        raise InputError(
            f"{file} {reason}: delete {file.parent} to download CIFAR-10 again, or put its six batch files there"
        ) from error
    return pixels.reshape(-1, 3, SIZE, SIZE), label


def _check_counts(place: Path, part: str, counts: dict[str, int], advice: str) -> None:
    expected = PER_CLASS[part]
    wrong = [f"{name} has {count:,}" for name, count in counts.items() if count != expected]
    if wrong:
        raise InputError(
            f"{place} does not hold CIFAR-10: each class has {expected:,} {part} images there, but "
            f"{', '.join(wrong)}: {advice}"
        )


def _from_archive(archive: Path) -> Cifar10:
    with archive.open("rb") as stream:
        name = digest([stream.read()])
    values, checksum = verified_array(cache_folder() / "cifar10" / f"{name}.npy", lambda: _decoded(archive))
    return _of_files(values, checksum, _described(archive.name, ".jpg"))


def _decoded(archive: Path) -> NDArray[np.uint8]:
    """Read all images of the archive in memory; nothing is written outside the cache."""
    found: dict[tuple[str, str, str], bytes] = {}
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                parts = PurePosixPath(member.name).parts[-3:]
                if member.isfile() and len(parts) == 3 and parts[2].lower().endswith(SUFFIXES):
                    stream = members.extractfile(member)
                    found[parts[0], parts[1], parts[2]] = stream.read() if stream else b""
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{archive} cannot be read ({error}): get it again") from error
    keys = []
    for part in PER_CLASS:
        counts = {name: sum(key[:2] == (part, name) for key in found) for name in CLASSES}
        _check_counts(archive, part, counts, "get it again")
        keys += sorted(key for key in found if key[0] == part and key[1] in CLASSES)
    return _decode_all([found[key] for key in keys], [f"{archive}: {'/'.join(key)}" for key in keys])


def _decode_all(contents: Sequence[bytes | Path], names: list[str]) -> NDArray[np.uint8]:
    from PIL import Image

    values = np.empty((len(contents), 3, SIZE, SIZE), np.uint8)

    def read(row: int) -> str | None:
        try:
            content = contents[row]
            with Image.open(io.BytesIO(content) if isinstance(content, bytes) else content) as image:
                if image.size != (SIZE, SIZE):
                    raise ValueError(f"is {image.size[0]} x {image.size[1]} rather than {SIZE} x {SIZE}")
                values[row] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        except Exception as error:  # a damaged file makes Pillow raise many kinds
            return f"{names[row]} {fault_of(error)}"
        return None

    with ThreadPoolExecutor(min(16, available_cores())) as pool:
        faults = [fault for fault in pool.map(read, range(len(contents))) if fault]
    if faults:
        raise InputError(f"{len(faults):,} images of CIFAR-10 are damaged: {format_faults(faults)}: get them again")
    return values


def _from_folder(folder: Path) -> Cifar10:
    files: list[Path] = []
    for part in PER_CLASS:
        here = {name: sorted(_images(folder / part / name)) for name in CLASSES}
        counts = {name: len(paths) for name, paths in here.items()}
        _check_counts(folder, part, counts, "put the missing images there, or leave the extra ones out")
        files += [path for paths in here.values() for path in paths]
    stamps = [(path.as_posix(), path.stat()) for path in files]
    name = digest(word for path, stat in stamps for word in (path, stat.st_size, stat.st_mtime_ns))
    where = cache_folder() / "cifar10" / f"{name}.npy"
    values, checksum = verified_array(where, lambda: _decode_all(files, [str(path) for path in files]))
    return _of_files(values, checksum, _described(folder.name, files[0].suffix))


def _images(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.suffix.lower() in SUFFIXES]


def _described(place: str, suffix: str) -> str:
    kind = "JPEG files, so not the original pixels" if suffix.lower() in (".jpg", ".jpeg") else "image files"
    return f"CIFAR-10 from {kind} ({place})"


def _of_files(values: NDArray[np.uint8], checksum: str, source: str) -> Cifar10:
    """Number the classes of images that lie in the order of part, class and name."""
    label = np.concatenate([np.arange(10).repeat(count) for count in PER_CLASS.values()])
    return Cifar10(values, label, 10 * PER_CLASS["train"], checksum, source)
