"""The images of CIFAR-10, from the original batch files or from an archive of image files."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from logit_correction.checksums import compute_file_checksum
from logit_correction.data.cache import cache_array, get_cache_folder
from logit_correction.errors import InputError
from logit_correction.formatting import format_option, format_reason
from logit_correction.paths import reject_special_file
from logit_correction.views.files import IMAGE_FORMATS

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

#: Images of each class.
PER_CLASS = {"train": 5_000, "test": 1_000}

#: Height and width in pixels.
SIZE = 32

#: Folder of the original files, as torchvision keeps it.
BATCHES = "cifar-10-batches-py"

#: Archive with train/<class>/* and test/<class>/*.
ARCHIVE = "cifar10-images.tar.gz"


@dataclass(frozen=True)
class Cifar10:
    """All images (M, 3, 32, 32) and labels (M,), those of the training part first."""

    images: NDArray[np.uint8]
    label: NDArray[np.int64]
    num_train: int
    source: str


def read_cifar10(root: Path, download: bool) -> Cifar10:
    """Read CIFAR-10 from ``BATCHES``, else from ``ARCHIVE``, which is decoded once into the cache folder.

    Args:
        root: Folder with one of them.
        download: Whether torchvision may download ``BATCHES`` where neither exists.

    Raises:
        InputError: The files are missing or damaged.
    """
    ensure_cifar10(root, download)
    return _read_batches(root / BATCHES) if (root / BATCHES).exists() else _read_archive(root / ARCHIVE)


def ensure_cifar10(root: Path, download: bool) -> None:
    """Download CIFAR-10 if need be.

    Args:
        root: Folder with ``BATCHES`` or ``ARCHIVE``.
        download: Whether torchvision may download ``BATCHES`` where neither exists.

    Raises:
        InputError: CIFAR-10 is missing, and may not or cannot be downloaded.
    """
    from torchvision.datasets import CIFAR10

    if (root / BATCHES).exists() or (root / ARCHIVE).exists():
        return
    fix = f"put {BATCHES} or {ARCHIVE} there, or name another folder by {format_option('data.root')}"
    if not download:
        raise InputError(f"CIFAR-10 is not in {root}: {fix}, or allow {format_option('data.download', True)}")
    try:
        CIFAR10(str(root), download=True)
    except (RuntimeError, OSError, ValueError, EOFError) as error:
        raise InputError(f"CIFAR-10 cannot be downloaded to {root} ({format_reason(error)}): {fix}") from error


def _read_batches(folder: Path) -> Cifar10:
    """Read the original files. They are pickles; torchvision opens one only after it has compared its checksum."""
    from torchvision.datasets import CIFAR10

    try:
        train, test = (CIFAR10(str(folder.parent), train=part) for part in (True, False))
    except (RuntimeError, OSError) as error:
        fault = f"cannot be read ({error})" if isinstance(error, OSError) else "lacks the original files"
        raise InputError(f"{folder} {fault}: delete the folder to download CIFAR-10 again") from error
    images = np.ascontiguousarray(np.concatenate([train.data, test.data]).transpose(0, 3, 1, 2))
    label = np.array([*train.targets, *test.targets], np.int64)
    return Cifar10(images, label, len(train), "CIFAR-10, the original pixels")


def _read_archive(archive: Path) -> Cifar10:
    try:
        checksum = compute_file_checksum(reject_special_file(archive))[:32]
    except OSError as error:
        raise InputError(f"{archive} cannot be read ({error.strerror}): get it again") from error
    file = get_cache_folder() / "cifar10" / f"{checksum}.npy"
    images, _ = cache_array(file, lambda path: np.save(path, _decode_archive(archive)))
    label = np.concatenate([np.arange(10).repeat(count) for count in PER_CLASS.values()])
    source = f"CIFAR-10 from JPEG files, so not the original pixels ({archive.name})"
    return Cifar10(images, label, 10 * PER_CLASS["train"], source)


def _decode_archive(archive: Path) -> NDArray[np.uint8]:
    """Return all images of the archive, in the order of CIFAR-10's part, of class and of name."""
    images: dict[tuple[str, ...], NDArray[np.uint8]] = {}
    name = ""
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                name = member.name
                parts = PurePosixPath(name).parts[-3:]
                stream = members.extractfile(member)
                if stream is None or len(parts) < 3 or parts[0] not in PER_CLASS or parts[1] not in CLASSES:
                    continue
                with Image.open(io.BytesIO(stream.read()), formats=IMAGE_FORMATS) as image:
                    if image.size != (SIZE, SIZE):
                        raise ValueError(f"is {image.size[0]} x {image.size[1]} rather than {SIZE} x {SIZE}")
                    images[parts] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, RecursionError, SyntaxError) as error:
        raise InputError(f"{archive} cannot be read ({name}: {error}): get it again") from error
    counts = Counter(parts[:2] for parts in images)
    for part, label in product(PER_CLASS, CLASSES):
        if counts[part, label] != PER_CLASS[part]:
            count = f"{counts[part, label]:,} {part} images of {label}"
            raise InputError(f"{archive} has {count}, but CIFAR-10 has {PER_CLASS[part]:,}: get it again")
    return np.stack([images[parts] for parts in sorted(images, key=lambda parts: (parts[0] != "train", parts))])
