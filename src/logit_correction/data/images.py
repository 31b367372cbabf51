"""Images: files read by threads, kept as a store of inputs, and found in folders; arrays as people hold them."""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from logit_correction.data.cache import cache_folder, digest, made_once, mapped_array, memory_limit_bytes, remove
from logit_correction.data.frames import file_column, texts_of
from logit_correction.data.rows import Problems, files_within, format_faults, split_name
from logit_correction.data.stores import ArrayStore, InputStore, StreamedStore
from logit_correction.errors import InputError, format_first, reason_of
from logit_correction.files import disk_of, in_threads, is_within, plain, write_text

if TYPE_CHECKING:
    from logit_correction.data.reader import Rows

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

#: The table of a folder; where it is, the names of folders mean nothing.
METADATA = "metadata.csv"

#: Changes whenever an image would come out otherwise, so that what was kept before is not taken.
VERSION = 4

#: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle.
Fit = Literal["stretch", "crop"]

#: Where images in arrays have their channels: (n, C, H, W) or (n, H, W, C).
Channels: TypeAlias = Literal["first", "last"]


def read_image(path: Path | BinaryIO, size: tuple[int, int], fit: Fit = "stretch") -> NDArray[np.uint8]:
    """Read one image file, or the bytes of one, as RGB on white, upright, resized to ``size`` (height, width).

    Returns:
        (3, height, width).

    Raises:
        Exception: Whatever Pillow raises on a damaged file; SyntaxError is among it.
    """
    box = (size[1], size[0])
    with Image.open(plain(path) if isinstance(path, Path) else path) as file:
        # JPEG can be decoded at a half, a quarter or an eighth of its size, which takes a fraction of the time; twice
        # the size that is asked for is kept, so that the resizing below still has something to average over.
        file.draft("RGB", (2 * box[0], 2 * box[1]))
        image = _on_white(_eight_bits(ImageOps.exif_transpose(file)))
    if image.size != box:
        if fit == "crop":
            image = ImageOps.fit(image, box, Image.Resampling.BILINEAR)
        else:
            image = image.resize(box, Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1))


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


def format_resizing(size: tuple[int, int], fit: Fit) -> str:
    """Say how images were brought to their size.

    >>> format_resizing((32, 32), "crop")
    'resized to 32x32, middle'
    """
    return f"resized to {size[0]}x{size[1]}, {'middle' if fit == 'crop' else 'stretched'}"


def printable(name: str | Path) -> str:
    r"""Return the name of a file with what is not UTF-8 in it as an escape.

    >>> printable("caf\udce9.png")
    'caf\\udce9.png'
    """
    return str(name).encode("utf-8", "backslashreplace").decode()


def faults_of(read: Callable[[int], object], count: int, title: str = "") -> list[tuple[int, str]]:
    """Call ``read`` with the number of every image, by threads, and return which cannot be read, and why.

    Args:
        read: Reads one image; may raise anything, as Pillow does on damaged files.
        count: How many there are.
        title: What is being done, shown where there are many; without one nothing is.
    """

    def fault(row: int) -> str | None:
        try:
            read(row)
        except FileNotFoundError:
            return "is missing"
        except UnidentifiedImageError:
            return "is no image that Pillow can read"
        except Exception as error:  # SyntaxError is among them
            return f"cannot be read ({reason_of(error)})"
        return None

    return [(row, why) for row, why in enumerate(in_threads(fault, range(count), title)) if why]


def image_store(
    paths: Sequence[Path],
    size: tuple[int, int],
    problems: Problems | None = None,
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
        size: Height and width to resize to.
        problems: Unreadable files, which are black here, are noted in it, and rows that it holds are not read; without
            one unreadable files are an error.
        fit: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle.
        cache: Folder of the kept files; by default ``pictures`` in ``cache_folder()``.
        memory_limit: GiB that may stay in memory; see ``memory_limit_bytes``.

    Raises:
        InputError: Names the first ten files that cannot be read.
    """
    shape = (len(paths), 3, *size)
    found = Problems("images", [printable(path) for path in paths]) if problems is None else problems
    parts: list[str | int] = [VERSION, *shape[1:], fit]
    skip = frozenset(found.of_row)
    for row, path in enumerate(paths):
        stamp = path.stat() if row not in skip and path.exists() else None  # changes when a file is written again
        parts += [os.path.abspath(path), *((-1, -1) if stamp is None else (stamp.st_size, stamp.st_mtime_ns))]
    file = (cache_folder() / "pictures" if cache is None else cache) / f"{digest(parts)}.npy"
    limit = memory_limit_bytes(memory_limit)
    kept = _kept(file, shape, limit)
    if kept is None:
        remove(file)
        needed = math.prod(shape)
        if disk_of(file.parent).free < needed:
            raise InputError(
                f"{file.parent}: the disk has no room for {needed / 2**30:.1f} GiB of resized images: name another "
                "folder by LOGIT_CORRECTION_CACHE, or give a smaller --data.size"
            )
        made_once(file, partial(_decode, file=file, paths=paths, skip=skip, shape=shape, fit=fit))
        if (kept := _kept(file, shape, limit)) is None:
            raise InputError(f"{file} changes while it is read: let nothing else write there")
    values, faults = kept
    for row, fault in faults:
        found.add(row, fault)
    if problems is None:
        found.raise_if_any(fix="fix or leave out")
    sizes = f"{values.nbytes / 2**30:.2f} GiB, limit {limit / 2**30:.2f} GiB"
    if values.nbytes <= limit:
        return ArrayStore(torch.from_numpy(np.array(values)), place=f"in memory ({sizes})")
    return StreamedStore(file, place=f"streamed from {file} ({sizes})")


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


def _decode(
    temporary: Path, file: Path, paths: Sequence[Path], skip: frozenset[int], shape: tuple[int, ...], fit: Fit
) -> None:
    """Write the images, and beside ``file``, where they will lie, a checksum and what could not be read."""
    values = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)

    def read(row: int) -> None:
        if row not in skip:
            values[row] = read_image(paths[row], (shape[2], shape[3]), fit)

    bad = faults_of(read, len(paths), "reading images")
    values.flush()
    write_text(file.with_suffix(".json"), json.dumps({"crc32": zlib.crc32(values.data), "faults": bad}))


class Images:
    """Reads new images: files, tables that name files, and arrays."""

    def __init__(
        self,
        size: tuple[int, int],
        fit: Fit = "stretch",
        scale: float = 1.0,
        column: str | None = None,
        root: Path | None = None,
    ) -> None:
        """Choose height and width, a factor of the pixels, and of tables the column of files and their folder."""
        self.size, self.fit, self.scale, self.column, self.root = size, fit, scale, column, root

    def transform(self, rows: Rows, problems: Problems) -> tuple[InputStore, dict[str, Any]]:
        """Return images as a network takes them, and their files; those that cannot be read are noted, and black.

        Raises:
            InputError: If rows are no images and name no files.
        """
        if rows.values is not None:
            return array_store(images_of(rows.values), problems, self.scale), {}
        if rows.frame is not None:
            column = self.column or file_column(rows.frame, problems.place)
            names = texts_of(rows.frame, column)
            folder = rows.folder or self.root or Path()
            paths = files_within(folder, names, problems, column, also=self.root)
        elif rows.files is not None:
            paths = list(rows.files)
        else:
            raise InputError("this model takes images: give image files, or arrays")
        images = np.zeros((len(paths), 3, *self.size), dtype=np.uint8)

        def read(row: int) -> None:
            if row not in problems.of_row:
                images[row] = read_image(paths[row], self.size, self.fit)

        for row, fault in faults_of(read, len(paths)):
            problems.add(row, fault)
        return ArrayStore(torch.from_numpy(images), self.scale), {"files": paths}


def array_store(values: NDArray[Any], problems: Problems, scale: float = 1.0) -> ArrayStore:
    """Return rows of numbers as a store of bytes or of float32; those that are not finite are noted, and 0."""
    finite = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    for row in np.flatnonzero(~finite).tolist():
        problems.add(row, "its input holds NaN or infinity")
    if values.dtype != np.uint8:
        values = np.where(finite.reshape(-1, *[1] * (values.ndim - 1)), values, 0).astype(np.float32)
    return ArrayStore(torch.from_numpy(np.require(values, requirements=["C", "W"])), scale)


def images_of(values: NDArray[Any], channels: Channels | None = None) -> NDArray[Any]:
    """Return images (n, C, H, W) as unsigned bytes or float32 in [0, 1]; NaN and infinity stay.

    Args:
        values: (n, C, H, W) or (n, H, W, C), with 1 or 3 channels.
        channels: Which of them; None tells it by the axis of length 1 or 3.

    Raises:
        InputError: If shape, type or finite values do not fit, or channels could be first or last.

    >>> images_of(np.zeros((5, 28, 28, 3))).shape
    (5, 3, 28, 28)
    """
    fits = values.ndim == 4 and {"first": values.shape[1] in (1, 3), "last": values.shape[3] in (1, 3)}
    found = channels or ("first" if fits and fits["first"] else "last")
    if not fits or not fits.get(found):
        raise InputError(f"images have shape {values.shape}: give (rows, channels, height, width) or (rows, height, "
                         "width, channels), with 1 or 3 channels")  # fmt: skip
    if channels is None and all(fits.values()):
        raise InputError(
            f'images of shape {values.shape} may have channels first or last: give channels="first" or "last"'
        )
    if values.dtype != np.uint8:
        finite = values[np.isfinite(values)] if values.dtype.kind in "fb" else np.full(1, -1)
        if finite.size and (finite.min() < 0 or finite.max() > 1):
            raise InputError("images must be unsigned bytes or floats in [0, 1]: scale them")
        values = values.astype(np.float32, copy=False)
    return np.ascontiguousarray(values if found == "first" else np.moveaxis(values, 3, 1))


class FoundImages(NamedTuple):
    """The images in some folders: files, names within the root, the folder of each, faults of links, and notes."""

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
    return name.startswith(".") or name in ("__MACOSX", "__pycache__")


def visible_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, in order."""
    return sorted(path for path in folder.iterdir() if not is_hidden(path.name) and path.is_dir())


def visible_files(folder: Path) -> list[Path]:
    """Return the files in a folder and in those below it, in order, links to folders among them."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be looked into ({error.strerror}): permit it, or remove it")

    found: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not is_hidden(name)]
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        found += [Path(place, name) for name in (*files, *links) if not is_hidden(name)]
    return sorted(found)


def label_folders(root: Path) -> tuple[dict[Path, str | None], list[str]]:
    """Return the folder of every label with its split, None where folders are no splits, and what to tell.

    Folders are splits if each has the name of one and there are several, or one that holds folders.

    Raises:
        InputError: If some look like splits and others do not, or folders of labels hold those of other labels.
    """
    folders = visible_folders(root)
    lost = next((path for path in root.iterdir() if path.is_symlink() and not path.exists()), None)
    if lost is not None:
        raise InputError(f"{lost} is a link to nothing: remove it, or put a folder of images there")
    splits = {folder: split_name(folder.name, numbers=False) for folder in folders}
    others = format_first([printable(folder.name) for folder, split in splits.items() if split is None], 10)
    if not others and (len(folders) > 1 or any(map(_holds_folders, folders))):
        return {label: split for folder, split in splits.items() for label in visible_folders(folder)}, []
    if any(split == "train" and _holds_folders(folder) for folder, split in splits.items()):
        raise InputError(
            f"{root} holds folders of splits and others ({others}): give either train, valid and test, each with a "
            "folder per label, or a folder per label; if train is a label, rename its folder"
        )
    inner = [path.name for folder in folders if _holds_folders(folder) for path in visible_folders(folder)]
    if len({name for name in inner if inner.count(name) > 1}) > 1:
        raise InputError(
            f"{root} holds folders ({others}) that hold the same folders ({format_first(sorted(set(inner)), 10)}): "
            f"give one of them, such as {folders[0]}; if they are the labels, list their images in {root / METADATA}"
        )
    labels = [folder.name for folder, split in splits.items() if split is not None]
    notes = [f"{root}: {', '.join(labels)} is taken for a label and not for a split, as {others} beside it name none"]
    return dict.fromkeys(folders), notes if labels and others else []


def _holds_folders(folder: Path) -> bool:
    """Return whether a folder holds folders and, beside them, no images."""
    return bool(visible_folders(folder)) and not any(path.suffix.lower() in SUFFIXES for path in folder.iterdir())


def find_images(root: Path, folders: Iterable[Path]) -> FoundImages:
    """Find the images in folders of ``root``, or in itself, and in all below them; links may not leave it.

    Raises:
        InputError: If they hold no images, or one cannot be looked into.
    """
    files: list[Path] = []
    of_file: list[Path] = []
    notes: list[str] = []
    other: list[str] = []
    for folder in folders:
        # A link that leads to no file is told of, whatever its name: it may stand for a folder of images.
        images = {path: path.suffix.lower() in SUFFIXES or not path.is_file() for path in visible_files(folder)}
        own = [path for path, is_image in images.items() if is_image]
        other += [printable(path) for path, is_image in images.items() if not is_image]
        if not own:
            notes.append(f"{folder} holds no image ({', '.join(SUFFIXES)})")
        files, of_file = files + own, of_file + [folder] * len(own)
    if other:  # in one line: each folder may hold what its owner's computer puts into every folder
        what = "1 file is no image" if len(other) == 1 else f"{len(other):,} files are no images"
        notes.append(f"{what} by name and left out: {format_faults(sorted(other))}")
    if not files:
        raise InputError(f"{root} holds no images ({', '.join(SUFFIXES)})")
    names = [printable(path.relative_to(root).as_posix()) for path in files]
    problems, base = Problems(str(root), names), os.path.realpath(root)
    outside = {folder for folder in {path.parent for path in files} if not is_within(folder, base)}
    for row, path in enumerate(files):
        if not path.is_file():
            problems.add(row, "is a link to nothing" if not path.exists() else "is a link to a folder")
        elif path.parent in outside or (path.is_symlink() and not is_within(path, base)):
            problems.add(
                row, f"is a link that leaves the folder, to {os.path.realpath(path)}: put the file itself there"
            )
    return FoundImages(files, names, of_file, problems, notes)
