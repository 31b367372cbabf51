"""The images of CIFAR-10, from the original batch files or from image files."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from logit_correction.data.cache import cache_folder, checksum_of, digest, verified_array
from logit_correction.data.images import SUFFIXES, faults_of
from logit_correction.data.rows import format_faults
from logit_correction.errors import InputError, reason_of
from logit_correction.files import checksum_of_file, plain

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

#: Images of each class.
PER_CLASS = {"train": 5_000, "test": 1_000}

#: Height and width.
SIZE = 32

BATCHES, ARCHIVE = "cifar-10-batches-py", "cifar10-images.tar.gz"

#: Folders under the root that may hold train/<class> and test/<class>.
FOLDERS = ("", "cifar10", "cifar10-images")

#: Bytes of all images in the archive, which may be packed to a thousandth of that.
MOST_BYTES = 2**30

_PUT = (
    f"put {BATCHES}, {ARCHIVE} or folders train/<class> and test/<class> there, or name another folder by --data.root"
)


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
    return _from_archive(root / ARCHIVE) if (root / ARCHIVE).exists() else _from_folder(_folders(root)[0])


def ensure_cifar10(root: Path, download: bool) -> None:
    """Raise ``InputError`` unless CIFAR-10 lies under ``root`` in one of these forms, downloaded if need be."""
    from torchvision.datasets import CIFAR10

    if (root / BATCHES).exists() or (root / ARCHIVE).exists() or _folders(root):
        return
    if not download:
        raise InputError(f"CIFAR-10 is not in {root}: {_PUT}, or allow --data.download true")
    try:
        CIFAR10(str(root), download=True)
    except (RuntimeError, OSError, ValueError, EOFError) as error:
        raise InputError(f"CIFAR-10 cannot be downloaded to {root} ({reason_of(error)}): {_PUT}") from error


def _folders(root: Path) -> list[Path]:
    """Return the folders that hold images of classes."""
    return [root / name for name in FOLDERS if any((root / name / "train" / label).is_dir() for label in CLASSES)]


def _from_batches(folder: Path) -> Cifar10:
    """Read the original files; torchvision opens none, they are pickles, before it has compared its checksum."""
    from torchvision.datasets import CIFAR10

    try:
        train, test = (CIFAR10(str(folder.parent), train=part) for part in (True, False))
    except (RuntimeError, OSError) as error:
        fault = f"cannot be read ({error})" if isinstance(error, OSError) else "lacks the original files"
        raise InputError(
            f"{folder} {fault}: delete the folder to download CIFAR-10 again, or put its files there"
        ) from error
    images = np.ascontiguousarray(np.concatenate([train.data, test.data]).transpose(0, 3, 1, 2))
    label = np.array([*train.targets, *test.targets], np.int64)
    return Cifar10(images, label, len(train), checksum_of(images), "CIFAR-10, the original pixels")


def _from_archive(archive: Path) -> Cifar10:
    def make() -> NDArray[np.uint8]:
        """Read all images of the archive in memory; nothing is written outside the cache."""
        found: dict[tuple[str, ...], bytes] = {}
        left = MOST_BYTES
        try:
            with tarfile.open(archive, "r|gz") as members:
                for member in members:
                    left -= member.size
                    if left < 0:
                        raise ValueError(f"it holds more than {MOST_BYTES:,} bytes")
                    parts = PurePosixPath(member.name).parts[-3:]
                    if member.isfile() and len(parts) == 3:
                        stream = members.extractfile(member)
                        found[parts] = stream.read() if stream else b""
        except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
            raise InputError(f"{archive} cannot be read ({error}): get it again") from error
        keys = _in_order(found, archive, "get it again")
        return _decoded([io.BytesIO(found[key]) for key in keys], [f"{archive}: {'/'.join(key)}" for key in keys])

    try:
        name = checksum_of_file(plain(archive))[:32]
    except OSError as error:
        raise InputError(f"{archive} cannot be read ({error.strerror}): get it again") from error
    return _kept(name, make, archive.name, ".jpg")


def _from_folder(folder: Path) -> Cifar10:
    found = {path.parts[-3:]: path for part in PER_CLASS for path in (folder / part).glob("*/*")}
    keys = _in_order(found, folder, "put the missing images there, or leave the extra ones out")
    files = [found[key] for key in keys]
    stamps = [(path.as_posix(), path.stat()) for path in files]
    name = digest(word for path, stat in stamps for word in (path, stat.st_size, stat.st_mtime_ns))
    return _kept(name, lambda: _decoded(files, files), folder.name, files[0].suffix)


def _in_order(found: Iterable[tuple[str, ...]], place: Path, advice: str) -> list[tuple[str, ...]]:
    """Return the images (part, class, name) of training and then of the test, as many of each class as CIFAR-10 has."""
    keys = []
    for part, expected in PER_CLASS.items():
        own = sorted(key for key in found if key[0] == part and key[1] in CLASSES and key[2].lower().endswith(SUFFIXES))
        counts = Counter(key[1] for key in own)
        wrong = [f"{name} has {counts[name]:,}" for name in CLASSES if counts[name] != expected]
        if wrong:
            raise InputError(
                f"{place} does not hold CIFAR-10: each class has {expected:,} {part} images there, but "
                f"{', '.join(wrong)}: {advice}"
            )
        keys += own
    return keys


def _decoded(files: Sequence[IO[bytes] | Path], names: Sequence[object]) -> NDArray[np.uint8]:
    values = np.empty((len(files), 3, SIZE, SIZE), np.uint8)

    def read(row: int) -> None:
        with Image.open(files[row]) as image:
            if image.size != (SIZE, SIZE):
                raise ValueError(f"is {image.size[0]} x {image.size[1]} rather than {SIZE} x {SIZE}")
            values[row] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)

    faults = [f"{names[row]} {why}" for row, why in faults_of(read, len(names), "reading images")]
    if faults:
        raise InputError(f"{len(faults):,} images of CIFAR-10 are damaged: {format_faults(faults)}: get them again")
    return values


def _kept(name: str, make: Callable[[], NDArray[np.uint8]], place: str, suffix: str) -> Cifar10:
    """Return images that lie in the order of part, class and name, made by ``make`` if they are not in the cache."""
    values, checksum = verified_array(cache_folder() / "cifar10" / f"{name}.npy", make)
    label = np.concatenate([np.arange(10).repeat(count) for count in PER_CLASS.values()])
    kind = "JPEG files, so not the original pixels" if suffix.lower() in (".jpg", ".jpeg") else "image files"
    return Cifar10(values, label, 10 * PER_CLASS["train"], checksum, f"CIFAR-10 from {kind} ({place})")
