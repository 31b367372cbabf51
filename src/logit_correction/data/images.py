"""Images: files read by threads, kept as a store of inputs, and found in folders; arrays as people hold them."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from logit_correction.data.cache import cache_folder, digest, kept_array
from logit_correction.data.frames import FILE_COLUMNS, check_columns, texts_of
from logit_correction.data.rows import ALIASES, SHOWN, Learnt, Problems, Reader, Rows, array_store, files_within
from logit_correction.data.table import NEW, ArrayStore, InputStore
from logit_correction.errors import InputError, check_range, format_first, reason_of
from logit_correction.files import canonical, in_threads, is_within, plain, printable
from logit_correction.views.files import IMAGES

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

#: What Pillow calls pixels of more than eight bits; and the numbers that become black and white.
DEEP = ("I", "F")
Range = tuple[float, float]

#: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle; ``centre`` stretches to 8/7 of the
#: size and takes the middle: from 256 x 256 for 224, as torchvision's Resize((256, 256)) and CenterCrop(224).
Resizing = Literal["stretch", "crop", "centre"]

#: Longest side that images are read at where nobody says one; networks of photos want no more.
LARGEST_SIDE = 224


def read_image(
    path: Path, size: tuple[int, int] | None, fit: Resizing = "stretch", of_range: Range | None = None
) -> NDArray[np.uint8]:
    """Read one image file as RGB on white (3, height, width), upright; raises whatever Pillow raises.

    Without a ``size`` it is as large as in the file.
    """
    box = size and (size[1], size[0])
    with Image.open(plain(path), formats=IMAGES) as file:
        # JPEG can be decoded at a half, a quarter or an eighth of its size, which takes a fraction of the time; twice
        # the size that is asked for is kept, so that the resizing below still has something to average over.
        file.draft("RGB", box and (2 * box[0], 2 * box[1]))
        image = ImageOps.exif_transpose(file)
        if image.mode.startswith(DEEP):  # Pillow would clip it
            if of_range is None:
                raise ValueError("its pixels have more than 8 bits, unlike the others': save it with 8 bits")
            low, high = of_range
            grey = (np.nan_to_num(np.asarray(image, np.float64)) - low) / ((high - low) or 1)
            image = Image.fromarray((255 * grey.clip(0, 1)).round().astype(np.uint8))
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            above, image = image.convert("RGBA"), Image.new("RGB", image.size, "white")
            image.paste(above, mask=above)  # below what can be seen through the colour is mostly black
        image = image.convert("RGB")
    if box and fit == "centre":
        image = image.resize((round(box[0] * 8 / 7), round(box[1] * 8 / 7)), Image.Resampling.BILINEAR)
        left = round((image.width - box[0]) / 2)
        top = round((image.height - box[1]) / 2)
        image = image.crop((left, top, left + box[0], top + box[1]))
    elif box and image.size != box:
        resize = ImageOps.fit if fit == "crop" else Image.Image.resize
        image = resize(image, box, Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1))


def looked_at(paths: Sequence[Path]) -> tuple[int, Range | None]:
    """Return what 100 files show: the median shorter side, at most 224, and the range of pixels of more than 8 bits.

    What 12 bits or a sensor fill is unknown, so that the least number becomes black and the greatest white.
    """
    sides, ends = [], list[float]()
    for path in paths[:: max(1, len(paths) // 100)]:
        # What cannot be read is told of when it is read.
        with suppress(Exception), Image.open(plain(path), formats=IMAGES) as file:
            sides.append(min(file.size))
            if file.mode.startswith(DEEP):
                pixels = np.nan_to_num(np.asarray(file, np.float64))
                ends += [float(pixels.min()), float(pixels.max())]
    return min(LARGEST_SIDE, int(np.median(sides))) if sides else LARGEST_SIDE, (min(ends), max(ends)) if ends else None


def image_store(
    paths: Sequence[Path],
    size: tuple[int, int],
    problems: Problems,
    fit: Resizing = "stretch",
    of_range: Range | None = None,
    skip: Iterable[int] = (),
) -> InputStore:
    """Read image files into a store, once: what was resized is kept in one file of bytes.

    Unreadable files are black, and noted in ``problems``; rows that it holds already are not read, nor are those to
    ``skip``.
    """
    shape = (len(paths), 3, *size)
    skip = frozenset(problems.of_row).union(skip)
    version = 7  # another whenever an image would come out otherwise, so that what was kept before is not taken
    parts: list[str | int] = [version, *shape[1:], fit, str(of_range)]
    for row, path in enumerate(paths):
        stamp = path.stat() if row not in skip and path.exists() else None  # changes when a file is written again
        # The time of modification can be set to what it was, that of the last change of any kind cannot.
        stamps = () if stamp is None else (stamp.st_size, stamp.st_mtime_ns, stamp.st_ctime_ns)
        parts += [os.path.abspath(path), *stamps]
    file = cache_folder() / "pictures" / f"{digest(parts)}.npy"
    needed = math.prod(shape)

    def write(temporary: Path) -> list[tuple[int, str]]:
        if shutil.disk_usage(file.parent).free < needed:  # to write to the map of a full disk would end the process
            fix = "name another folder by LOGIT_CORRECTION_CACHE, or give a smaller --data.size"
            raise InputError(f"{file.parent} has no room for {needed / 2**30:.1f} GiB of images: {fix}")
        values = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        return _read_into(values, paths, skip, fit, of_range, "reading images")

    values, faults = kept_array(file, write)
    for row, fault in faults:
        problems.add(row, fault)
    return ArrayStore(torch.from_numpy(values))


def read_sizes(paths: Sequence[Path]) -> Tensor:
    """Return height and width of each image as a person sees it, (n, 2) long, from the head of its file alone."""

    def read_size(path: Path) -> tuple[int, int]:
        with Image.open(plain(path), formats=IMAGES) as file:
            width, height = file.size
            lies_on_its_side = file.getexif().get(ExifTags.Base.Orientation, 1) >= 5
        return (width, height) if lies_on_its_side else (height, width)

    return torch.tensor(list(in_threads(read_size, paths)), dtype=torch.long).reshape(-1, 2)


def _read_into(
    values: NDArray[np.uint8],
    paths: Sequence[Path],
    skip: Iterable[int],
    fit: Resizing,
    of_range: Range | None,
    title: str = "",
) -> list[tuple[int, str]]:
    """Read images into (n, 3, H, W), by threads, and return which cannot be read, and why; ``title`` is shown."""

    def fault(row: int) -> str | None:
        try:
            if row not in skip:
                values[row] = read_image(paths[row], (values.shape[2], values.shape[3]), fit, of_range)
        except UnidentifiedImageError:
            return "is no image that Pillow can read"
        except Exception as error:  # SyntaxError is among them
            return f"cannot be read ({reason_of(error)})"
        return None

    return [(row, why) for row, why in enumerate(in_threads(fault, range(len(paths)), title)) if why]


class Images(Reader):
    """Reads new images: files, tables that name files, and arrays."""

    def __init__(
        self,
        size: tuple[int, int] | int | None,
        fit: Resizing = "stretch",
        scale: float = 1.0,
        column: str | None = None,
        root: Path | None = None,
    ) -> None:
        """Choose height and width, a factor of the pixels, and of tables the column of files and their folder.

        Without a size ``learn`` chooses it, by the files of training.
        """
        if isinstance(size, int):
            check_range("--data.size", size, 1)
            size = (size, size)
        self.size, self.resizing, self.scale, self.column, self.root = size, fit, scale, column, root
        self.range: Range | None = None

    def prepare(self, preparation: Mapping[str, Any]) -> None:
        super().prepare(preparation)
        if "range" in preparation:
            self.range = (float(preparation["range"][0]), float(preparation["range"][1]))
        if self.size is None:
            self.size = (preparation["size"],) * 2

    def check(self, rows: Rows) -> tuple[list[Path], list[str], list[str]]:
        """Return the files of all rows, and their names."""
        if rows.files is not None:
            return list(rows.files), list(rows.names), []
        files, names = self._named(rows, self.root or rows.folder or Path())
        return files, [printable(name or "") for name in names], []

    def _named(self, rows: Rows, folder: Path, also: Path | None = None) -> tuple[list[Path], list[str | None]]:
        """Return the files in a folder that the rows of a table name, and these names."""
        assert rows.frame is not None
        column = self.column or next((name for name in FILE_COLUMNS if name in rows.frame), FILE_COLUMNS[0])
        check_columns(rows.frame, rows.place, [column])
        names = texts_of(rows.frame, column, as_written=True)
        return files_within(folder, names, rows.problems, column, also=also), names

    def fit(self, read: list[Path], train: Tensor, problems: Problems) -> None:
        """Find out the size of the images, and the range of pixels of more than 8 bits."""
        side, self.range = looked_at(read)
        self.size = self.size or (side, side)

    def encode(self, read: list[Path], problems: Problems) -> Learnt:
        """Return a store of all images of a training, which are read once."""
        assert self.size is not None
        told, preparation = (
            f"resized to {self.size[0]}x{self.size[1]}, {self.resizing}",
            dict[str, Any](size=self.size[0]),
        )
        if self.range is not None:
            told += f", {self.range[0]:g} black and {self.range[1]:g} white"
            preparation["range"] = [*self.range]
        store = image_store(read, self.size, problems, self.resizing, self.range)
        return Learnt(store, {"files": read}, {"images": told}, preparation)

    def transform(self, rows: Rows) -> tuple[InputStore, dict[str, Any]]:
        """Return images as a network takes them, and their files; those that cannot be read are noted, and black."""
        if rows.values is not None:
            return array_store(images_of(rows.values), rows.problems, self.scale), {}
        if rows.frame is not None:
            paths, _ = self._named(rows, rows.folder or self.root or Path(), also=self.root)
        elif rows.files is not None:
            paths = list(rows.files)
        else:
            raise InputError("this model takes images: give image files, or arrays")
        assert self.size is not None
        images = np.zeros((len(paths), 3, *self.size), dtype=np.uint8)
        for row, fault in _read_into(images, paths, rows.problems.of_row, self.resizing, self.range):
            rows.problems.add(row, fault)
        return ArrayStore(torch.from_numpy(images), self.scale), {"files": paths}


def images_of(values: NDArray[Any]) -> NDArray[Any]:
    """Return images, channels first or last, as (n, C, H, W), unsigned bytes or float32 in [0, 1].

    The axis of length 1 or 3 tells where channels are; NaN and infinity stay.

    >>> images_of(np.zeros((5, 28, 28, 3))).shape
    (5, 3, 28, 28)
    """
    axis = next((axis for axis in (1, 3) if values.ndim == 4 and values.shape[axis] in (1, 3)), None)
    if axis is None:
        raise InputError(f"images have shape {values.shape}: give (rows, channels, height, width) or (rows, height, "
                         "width, channels), with 1 or 3 channels")  # fmt: skip
    if values.dtype != np.uint8:
        finite = values[np.isfinite(values)] if values.dtype.kind in "fb" else np.full(1, -1)
        if finite.size and (finite.min() < 0 or finite.max() > 1):
            raise InputError("images must be unsigned bytes or floats in [0, 1]: scale them")
        values = values.astype(np.float32, copy=False)
    return np.ascontiguousarray(np.moveaxis(values, axis, 1))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in ("__MACOSX", "__pycache__")


def visible_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, in order."""
    return sorted(path for path in folder.iterdir() if not _is_hidden(path.name) and path.is_dir())


def visible_files(folder: Path) -> list[Path]:
    """Return the files in a folder and in those below it, in order, links to folders among them."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be looked into ({error.strerror}): permit it, or remove it")

    found: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        found += [Path(place, name) for name in (*files, *links) if not _is_hidden(name)]
    return sorted(found)


def label_folders(root: Path) -> dict[Path, str | None]:
    """Return the folder of every label with its split, None where folders are no splits.

    Folders are splits if each has the name of one and there are several, or one that holds folders. ``InputError`` if
    folders of labels seem to hold those of other labels.
    """
    lost = next((path for path in root.iterdir() if path.is_symlink() and not path.exists()), None)
    if lost is not None:
        raise InputError(f"{lost} is a link to nothing: remove it, or put a folder of images there")
    splits = {folder: ALIASES.get(folder.name.strip().lower()) for folder in visible_folders(root)}
    has_images = {folder: any(path.suffix.lower() in SUFFIXES for path in folder.iterdir()) for folder in splits}
    inner = {folder: [] if has_images[folder] else visible_folders(folder) for folder in splits}
    if all(splits.values()) and (len(splits) > 1 or any(inner.values())):
        found = {label: split for folder, split in splits.items() for label in visible_folders(folder)}
        return found | {folder: NEW for folder, split in splits.items() if split == NEW and has_images[folder]}
    names = [path.name for folders in inner.values() for path in folders]
    if any(splits[folder] and inner[folder] for folder in splits) or len({n for n in names if names.count(n) > 1}) > 1:
        holding = next(folder for folder in splits if inner[folder])
        raise InputError(
            f"{root} holds folders that hold folders ({format_first(sorted(set(names)), 10)}): give one of them, "
            f"such as {holding}; if they are the labels, list their images in a CSV and give that"
        )
    return dict.fromkeys(splits)


def find_images(root: Path, folders: Mapping[Path, str | None]) -> tuple[Rows, list[str]]:
    """Find the images in folders of ``root``, or in itself, and in all below them; links may not leave it.

    Returns:
        The rows, with the name of the folder as their label, with its split where it has one, and with what is wrong
        with links; and what to tell.
    """
    # A link that leads to no file is told of, whatever its name: it may stand for a folder of images.
    found = {folder: visible_files(folder) for folder in folders}
    files = [(path, folder) for folder, paths in found.items() for path in paths
             if path.suffix.lower() in SUFFIXES or not path.is_file()]  # fmt: skip
    if not files:
        raise InputError(f"{root} holds no images ({', '.join(SUFFIXES)})")
    taken = {path for path, _ in files}
    notes = [f"{printable(folder)} holds no image ({', '.join(SUFFIXES)})"
             for folder, paths in found.items() if taken.isdisjoint(paths)]  # fmt: skip
    other = [printable(path) for paths in found.values() for path in paths if path not in taken]
    if other:  # in one line: each folder may hold what its owner's computer puts into every folder
        notes.append(f"files that are no images by name are left out: {format_first(other, SHOWN, '; ')}")
    # Images that lie in the folder of a split itself have no label.
    names = {
        folder: None if split and folder.parent == root else canonical(printable(folder.name))
        for folder, split in folders.items()
    }
    rows = Rows(
        str(root),
        range(len(files)),
        folder=root,
        files=[path for path, _ in files],
        label=[names[folder] for _, folder in files],
        split=[folders[folder] for _, folder in files] if any(folders.values()) else None,
    )
    base = os.path.realpath(root)
    outside = {folder for folder in {path.parent for path, _ in files} if not is_within(folder, base)}
    for row, (path, _) in enumerate(files):
        if path.parent in outside or (path.is_symlink() and not is_within(path, base)):
            rows.problems.add(row, f"is a link that leaves the folder, to {os.path.realpath(path)}")
        elif not path.is_file():
            rows.problems.add(row, "is a link to no file")
    return rows, notes
