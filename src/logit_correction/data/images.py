"""Image files: read by threads, kept as a store of inputs, and found in folders."""

from __future__ import annotations

import errno
import json
import math
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from logit_correction.data.cache import (
    SHARE,
    cache_folder,
    digest,
    free_memory,
    made_once,
    mapped_array,
    memory_limit_bytes,
    remove,
)
from logit_correction.data.rows import OnBadRows, Problems, format_faults, split_name
from logit_correction.data.stores import ArrayStore, InputStore, StreamedStore
from logit_correction.errors import InputError, InputWarning, format_first, reason_of
from logit_correction.files import disk_of, in_threads, is_within, plain, thread_count, write_text

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

#: Bytes that a pixel takes while an image is decoded and brought to RGB.
BYTES_OF_PIXEL = 8

#: With what whole files end, by Pillow's name of the format.
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}

#: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle.
Fit = Literal["stretch", "crop"]


def read_image(path: Path | BinaryIO, size: tuple[int, int], fit: Fit = "stretch") -> NDArray[np.uint8]:
    """Read one image file, or the bytes of one, as RGB on white, upright, resized to ``size`` (height, width).

    Returns:
        (3, height, width).

    Raises:
        Exception: Whatever Pillow raises on a damaged file; SyntaxError is among it.
    """
    box = (size[1], size[0])
    with _opened(path) as file:
        # JPEG can be decoded at a half, a quarter or an eighth of its size, which takes a fraction of the time; twice
        # the size that is asked for is kept, so that the resizing below still has something to average over.
        file.draft("RGB", (2 * box[0], 2 * box[1]))
        _check_pixels(file)
        image = _on_white(_eight_bits(ImageOps.exif_transpose(file)))
    if image.size != box:
        if fit == "crop":
            image = ImageOps.fit(image, box, Image.Resampling.BILINEAR)
        else:
            image = image.resize(box, Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1))


def format_resizing(size: tuple[int, int], fit: Fit) -> str:
    """Say how images were brought to their size.

    >>> format_resizing((32, 32), "crop")
    'resized to 32x32, middle'
    """
    return f"resized to {size[0]}x{size[1]}, {'middle' if fit == 'crop' else 'stretched'}"


def check_whole(path: Path | BinaryIO, size: tuple[int, int]) -> None:
    """Return if a file, or bytes that can be sought in, is an image that is not too large and not cut short.

    Most are not decoded for that.

    Raises:
        Exception: Whatever Pillow raises otherwise; SyntaxError is among it.
    """
    with _opened(path) as file:
        file.draft("RGB", (2 * size[1], 2 * size[0]))
        _check_pixels(file)
        if (end := _ENDS.get(file.format or "")) is None or end not in _tail(path):
            file.load()


def _opened(path: Path | BinaryIO) -> Image.Image:
    """Open an image; a queue would be waited for, and a device has no end."""
    return Image.open(plain(path) if isinstance(path, Path) else path)


def _tail(path: Path | BinaryIO) -> bytes:
    with path.open("rb") if isinstance(path, Path) else nullcontext(path) as file:
        place = file.tell()
        file.seek(max(0, file.seek(0, os.SEEK_END) - 64))
        tail = file.read()
        file.seek(place)  # where decoding may go on
        return tail


def _check_pixels(image: Image.Image) -> None:
    """Return if an image can be decoded in the memory that every thread may take.

    Raises:
        ValueError: Otherwise; says how large it may be.
    """
    width, height = image.size
    if width * height > (most := _most_pixels()):
        raise ValueError(f"has {width:,} x {height:,} pixels, but {most:,} fit into memory here: make it smaller")


@cache
def _most_pixels() -> int:
    return int(SHARE * free_memory()) // (BYTES_OF_PIXEL * thread_count())


def _eight_bits(image: Image.Image) -> Image.Image:
    """Bring grey images of sixteen bits, and floats in [0, 1], to eight bits; Pillow would clip them."""
    if image.mode == "F":
        floats: NDArray[np.float32] = np.nan_to_num(np.asarray(image))
        return Image.fromarray(np.rint(255 * floats)) if floats.max() <= 1 else image
    if not image.mode.startswith("I"):
        return image
    values: NDArray[Any] = np.asarray(image).astype(np.int64)
    return Image.fromarray((values.clip(0, 65_535) >> 8).astype(np.uint8))


def _on_white(image: Image.Image) -> Image.Image:
    """Bring an image to RGB; what can be seen through lies on white, for below it the colour is mostly black."""
    if image.mode not in ("RGBA", "LA", "PA") and "transparency" not in image.info:
        return image.convert("RGB")
    above = image if image.mode == "RGBA" else image.convert("RGBA")
    ground = Image.new("RGB", image.size, "white")
    ground.paste(above, mask=above)
    return ground


def fault_of(error: Exception) -> str:
    """Return in a few words why an image could not be read."""
    if isinstance(error, FileNotFoundError):
        return "is missing"
    if isinstance(error, UnidentifiedImageError):
        return "is no image that Pillow can read"
    if isinstance(error, ValueError) and str(error).startswith("has "):
        return str(error)
    return f"cannot be read ({reason_of(error)})"


def faults_of(
    read: Callable[[int], object], names: Sequence[object], title: str = "", threads: int | None = None
) -> list[tuple[int, str]]:
    """Call ``read`` with the number of every image, by threads, and gather what goes wrong.

    Args:
        read: Reads one image; may raise anything, as Pillow does on damaged files.
        names: What to call each image.
        title: What is being done, shown where there are many; without one nothing is.
        threads: How many; see ``in_threads``.

    Returns:
        The numbers of the images that cannot be read, each with its name and its fault.
    """

    def fault(row: int) -> str | None:
        try:
            read(row)
        except Exception as error:  # SyntaxError is among them
            return f"{names[row]} {fault_of(error)}"
        return None

    return [
        (row, text) for row, text in enumerate(in_threads(fault, range(len(names)), title, threads=threads)) if text
    ]


class UnreadableImages(InputError):
    """Names the first ten image files that cannot be read.

    Attributes:
        faults: Every file with what is wrong with it.
    """

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        count = "an image" if len(faults) == 1 else f"{len(faults)} images"
        super().__init__(f"{count} cannot be read: {format_faults(faults)}: fix or leave out")


def read_images(paths: Sequence[Path], size: tuple[int, int], fit: Fit = "stretch") -> Tensor:
    """Read image files as RGB, resized to ``size``.

    Args:
        paths: Image files.
        size: (height, width).
        fit: How an image of other proportions is brought to ``size``.

    Returns:
        (len(paths), 3, height, width) uint8.

    Raises:
        UnreadableImages: Names the first ten files that cannot be read.
    """
    images = torch.zeros((len(paths), 3, *size), dtype=torch.uint8)
    values = images.numpy()

    def read(row: int) -> None:
        values[row] = read_image(paths[row], size, fit)

    faults = faults_of(read, paths)
    if faults:
        raise UnreadableImages([text for _, text in faults])
    return images


#: Images count as dark where no value reaches an eighth of the range, as where twelve bits stand in sixteen.
DARK = 32

#: So many images are looked at, to tell whether all are dark.
LOOKED_AT = 1000

#: Changes whenever an image would come out otherwise, so that what was kept before is not taken.
VERSION = 4


def image_store(
    paths: Sequence[Path],
    size: int | tuple[int, int],
    problems: Problems | None = None,
    on_bad_rows: OnBadRows = "error",
    *,
    fit: Fit = "stretch",
    cache: Path | None = None,
    memory_limit: float | None = None,
) -> InputStore:
    """Read image files into a store, once: what was resized is kept in one file of bytes.

    The images stay in memory if they take no more than ``memory_limit``; otherwise each batch is read from the
    file, so that memory stays bounded whatever their number.

    Args:
        paths: One file per row.
        size: Height and width to resize to, or one number for both.
        problems: Faults of the same rows that were found before; told together with files that cannot be read.
        on_bad_rows: With ``skip`` unreadable files are noted in ``problems``; the caller leaves these rows, which are
            black here, out.
        fit: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle.
        cache: Folder of the kept files; by default ``pictures`` in ``cache_folder()``.
        memory_limit: GiB that may stay in memory; see ``memory_limit_bytes``.

    Raises:
        InputError: Names the first ten files that cannot be read.
    """
    shape = (3, size, size) if isinstance(size, int) else (3, *size)
    found = Problems("images", list(map(str, paths))) if problems is None else problems
    parts: list[str | int] = [VERSION, *shape, fit]
    for row, path in enumerate(paths):
        parts += [os.path.abspath(path), *_stamp(path, row, found)]
    file = (cache_folder() / "pictures" if cache is None else cache) / f"{digest(parts)}.npy"
    limit = memory_limit_bytes(memory_limit)
    kept = _kept(file, (len(paths), *shape), limit)
    if kept is None:
        remove(file)
        looked = faults_of(lambda row: check_whole(paths[row], shape[1:]), paths, "looking at images")
        for row, fault in looked:  # before the long work of reading them whole
            found.add(row, fault)
        found.raise_if_any(on_bad_rows)
        _check_room(file.parent, len(paths) * math.prod(shape))
        beside = file.with_suffix(".json")
        made_once(file, partial(_decode, paths=paths, shape=shape, fit=fit, looked=looked, beside=beside))
        if (kept := _kept(file, (len(paths), *shape), limit)) is None:
            raise InputError(f"{file} changes while it is read: let nothing else write there")
    values, faults = kept
    for row, fault in faults:
        found.add(row, fault)
    found.raise_if_any(on_bad_rows)
    _tell_if_dark(values, found.place)
    sizes = f"{values.nbytes / 2**30:.2f} GiB, limit {limit / 2**30:.2f} GiB"
    if values.nbytes <= limit:
        return ArrayStore(torch.from_numpy(np.array(values)), place=f"in memory ({sizes})")
    return StreamedStore(file, place=f"streamed from {file} ({sizes})")


def _stamp(path: Path, row: int, found: Problems) -> tuple[int, int]:
    """Return what changes when a file is written again: its length and its time."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        found.add(row, f"{path} is missing" if isinstance(error, FileNotFoundError) else f"{path} {fault_of(error)}")
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _kept(file: Path, shape: tuple[int, ...], limit: int) -> tuple[NDArray[np.uint8], list[tuple[int, str]]] | None:
    """Return the images of a file and the faults of those that could not be read, or None if it has to be made again.

    The checksum beside it is compared where the images are read into memory anyway, not where they are streamed.
    """
    values = mapped_array(file)
    try:
        beside = json.loads(plain(file.with_suffix(".json")).read_text(encoding="utf-8"))
        faults = [(int(row), str(fault)) for row, fault in beside["faults"] if 0 <= row < shape[0]]
        checksum = beside["crc32"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if values is None or values.shape != shape or values.dtype != np.uint8:
        return None
    return (values, faults) if values.nbytes > limit or zlib.crc32(values.data) == checksum else None


def _tell_if_dark(values: NDArray[np.uint8], place: str) -> None:
    """Warn where all images are dark; of others a first one mostly shows that they are not."""
    rows = range(0, len(values), max(1, len(values) // LOOKED_AT))
    if len(values) and all(int(values[row].max()) < DARK for row in rows):
        warnings.warn(
            f"{place}: the images are dark: no value reaches {DARK} of 255, as where twelve bits stand in files of "
            "sixteen; if they should not be, write them with values of the full range",
            InputWarning,
            stacklevel=3,
        )


def _decode(
    temporary: Path,
    paths: Sequence[Path],
    shape: tuple[int, int, int],
    fit: Fit,
    looked: list[tuple[int, str]],
    beside: Path,
) -> None:
    """Write the images, and ``beside`` them a checksum and what could not be read, also that of ``looked``."""
    unreadable = {row for row, _ in looked}
    values = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=(len(paths), *shape))

    def read(row: int) -> None:
        if row not in unreadable:
            values[row] = read_image(paths[row], shape[1:], fit)

    bad = looked + faults_of(read, paths, "reading images")
    values.flush()
    write_text(beside, json.dumps({"crc32": zlib.crc32(values.data), "faults": bad}))


def _check_room(folder: Path, needed: int) -> None:
    free = disk_of(folder).free
    if free < needed:
        raise InputError(
            f"{folder}: the resized images need {needed / 2**30:.1f} GiB, but the disk has {free / 2**30:.1f} GiB "
            "free: make room, name another folder by LOGIT_CORRECTION_CACHE, or give a smaller --data.size"
        )


#: The table of a folder; where it is, the names of folders mean nothing.
METADATA = "metadata.csv"

#: Folders that programs leave behind, beside those whose names begin with a dot.
_LEFT_BEHIND = ("__MACOSX", "__pycache__")

#: Folders that a message names.
MOST_NAMED = 10


@dataclass(frozen=True)
class FoundImages:
    """The images in some folders.

    Attributes:
        files: n files, folder by folder, in order.
        names: n names, within the root of all.
        folders: For each file, in which of the folders it was found.
        problems: What is wrong with links among them.
        notes: What a user should be told: what was left out.
    """

    files: list[Path]
    names: list[str]
    folders: list[Path]
    problems: Problems
    notes: list[str]


def is_hidden(name: str) -> bool:
    """Return whether a file or a folder of this name is none of the user's.

    >>> is_hidden("._cat.png"), is_hidden("__MACOSX"), is_hidden("_cat.png")
    (True, True, False)
    """
    return name.startswith(".") or name in _LEFT_BEHIND


def visible_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, in order.

    Raises:
        InputError: If a link there leads to nothing.
    """
    visible = sorted(path for path in folder.iterdir() if not is_hidden(path.name))
    for path in visible:
        if path.is_symlink() and not path.exists():
            raise InputError(f"{path} {_fault_of_link(path, '')}: remove it, or put a folder of images there")
    return [path for path in visible if path.is_dir()]


def visible_files(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the files and the links in a folder and in those below it, and whether each is a link.

    Raises:
        InputError: If a folder cannot be looked into.
    """
    try:
        with os.scandir(folder) as opened:
            entries = [entry for entry in opened if not is_hidden(entry.name)]
    except OSError as error:
        raise InputError(f"{folder} cannot be looked into ({error.strerror}): permit it, or remove it") from error
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from visible_files(folder / entry.name)
        elif entry.is_symlink() or entry.is_file():
            yield folder / entry.name, entry.is_symlink()


def folders_with_splits(root: Path) -> tuple[dict[Path, str | None], list[str]]:
    """Return the folders in a folder, each with the split that it is, and what a user should be told.

    All are splits, or all are labels, whose split is None. They are splits if each has the name of one and there are
    several; one alone is a split if it holds folders rather than images.

    Raises:
        InputError: If some look like splits and others do not.
    """
    folders = visible_folders(root)
    splits = {folder: split_name(folder.name, numbers=False) for folder in folders}
    others = format_first([folder.name for folder, split in splits.items() if split is None], MOST_NAMED)
    if not others and (len(folders) > 1 or any(map(_holds_folders, folders))):
        return splits, []
    if any(split == "train" and _holds_folders(folder) for folder, split in splits.items()):
        raise InputError(
            f"{root} holds folders of splits and others ({others}): give either train, valid and test, each with a "
            "folder per label, or a folder per label; if train is a label, rename its folder"
        )
    labels = [folder.name for folder, split in splits.items() if split is not None]
    notes = [f"{root}: {', '.join(labels)} is taken for a label and not for a split, as {others} beside it name none"]
    return dict.fromkeys(folders), notes if labels and others else []


def find_images(root: Path, folders: Iterable[Path]) -> FoundImages:
    """Find the images in folders and in all below them.

    Args:
        root: The folder of all; links may not leave it.
        folders: Folders in it, or itself.

    Raises:
        InputError: If they hold no images, or one cannot be looked into.
    """
    found: list[tuple[Path, Path]] = []
    links: set[Path] = set()
    notes: list[str] = []
    other: list[Path] = []
    for folder in folders:
        own: list[Path] = []
        for path, link in visible_files(folder):
            # A link that leads to no file is told of, whatever its name: it may stand for a folder of images.
            is_image = path.suffix.lower() in SUFFIXES or (link and not path.is_file())
            (own if is_image else other).append(path)
            if link:
                links.add(path)
        if not own:
            notes.append(f"{folder} holds no image ({', '.join(SUFFIXES)})")
        found += [(path, folder) for path in sorted(own)]
    if other:  # in one line: each folder may hold what its owner's computer puts into every folder
        what = "1 file is no image" if len(other) == 1 else f"{len(other):,} files are no images"
        notes.append(f"{what} by name and left out: {format_faults([str(path) for path in sorted(other)])}")
    if not found:
        raise InputError(f"{root} holds no images ({', '.join(SUFFIXES)})")
    files = [path for path, _ in found]
    names = [path.relative_to(root).as_posix() for path in files]
    problems = Problems(str(root), names)
    _note_links(files, links, os.path.realpath(root), problems)
    return FoundImages(files, names, [folder for _, folder in found], problems, notes)


def _holds_folders(folder: Path) -> bool:
    """Return whether a folder holds folders and, beside them, no images."""
    return bool(visible_folders(folder)) and not any(path.suffix.lower() in SUFFIXES for path in folder.iterdir())


def _note_links(files: list[Path], links: set[Path], base: str, problems: Problems) -> None:
    """Note links, and files in linked folders, that lead to no file within ``base``."""
    outside = {folder for folder in {path.parent for path in files} if not is_within(folder, base)}
    for row, path in enumerate(files):
        fault = _fault_of_link(path, base) if path in links or path.parent in outside else None
        if fault is not None:
            problems.add(row, fault)


def _fault_of_link(path: Path, base: str) -> str | None:
    """Return what is wrong with a link, or with a file in a linked folder; None with any other file."""
    try:
        path.stat()
    except OSError as error:
        return "is a link that leads to itself" if error.errno == errno.ELOOP else "is a link to nothing"
    if not is_within(path, base):
        return f"is a link that leaves the folder, to {os.path.realpath(path)}: put the file itself there"
    return None if path.is_file() else "is a link to a folder: put the folder itself there"
