"""Images: files read by threads, kept as a store of inputs, and found in folders; arrays as people hold them."""

from __future__ import annotations

import math
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from logit_correction.data.cache import cache_array, compute_digest, get_cache_folder
from logit_correction.data.frames import FILE_COLUMNS, check_columns, convert_column_to_texts
from logit_correction.data.rows import (
    MAX_SHOWN,
    SPLIT_ALIASES,
    FittedInputs,
    Reader,
    RowErrors,
    Rows,
    build_array_store,
    find_files_within,
)
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import NEW
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import format_first, format_list, format_option, format_reason
from logit_correction.paths import is_within, reject_special_file
from logit_correction.threads import map_in_threads
from logit_correction.unicode_text import escape_undecodable, normalize_text
from logit_correction.views.files import IMAGE_FORMATS

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

#: What Pillow calls pixels of more than eight bits.
DEEP = ("I", "F")

#: The pixels that most pictures have, and the others that are told apart: each has a range of its own.
BYTES = "8 bits"
DEPTHS = ("12 bits", "16 bits", "16 bits with a sign", "32 bits", "32 bits with a sign", "floats")

#: Depth of pixels -> the numbers that become black and white.
Range = tuple[float, float]
Ranges = Mapping[str, Range]

#: A pixel lies outside of a range if it is further off than one step of 255, a picture if so many of its pixels do.
OUTSIDE = 0.001

#: Pictures whose pixels, of 0 to 255, lie closer together are told: 12 of 16 bits fill no more.
DIM = 16

#: Orientation in EXIF -> what sets a picture upright.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

#: Tags of EXIF and TIFF: how a picture is turned, the bits of a number, and whether it has a sign.
ORIENTATION = 0x0112
BITS_PER_SAMPLE = 258
SAMPLE_FORMAT = 339

#: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle; ``centre`` stretches to 8/7 of the
#: size and takes the middle: from 256 x 256 for 224, as torchvision's Resize((256, 256)) and CenterCrop(224).
Resizing = Literal["stretch", "crop", "centre"]

#: Longest side that images are read at where nobody says one; networks of photos want no more.
DEFAULT_MAX_SIDE = 224


class Picture(NamedTuple):
    """A picture that was read.

    Attributes:
        pixels: (3, height, width) unsigned bytes.
        depth: Which pixels its file holds: ``8 bits`` or one of ``DEPTHS``.
        is_outside: Whether pixels lie outside of the range, so that they became black or white.
        is_animated: Whether the file holds further frames or pages, which are not read.
    """

    pixels: NDArray[np.uint8]
    depth: str
    is_outside: bool
    is_animated: bool


def find_depth(file: Image.Image) -> str:
    """Return which pixels a file declares: ``8 bits`` or one of ``DEPTHS``."""
    if not file.mode.startswith(DEEP):
        return BYTES
    if file.mode.startswith("F"):
        return "floats"
    tags = getattr(file, "tag_v2", {}) if file.format == "TIFF" else {}
    bits = next(iter(np.atleast_1d(tags.get(BITS_PER_SAMPLE, 16))))
    sign = 2 in np.atleast_1d(tags.get(SAMPLE_FORMAT, 1))
    return f"{bits} bits" + " with a sign" * sign


def find_orientation(file: Image.Image) -> int:
    """Return how a picture is turned by its EXIF, 1 where that cannot be read: the picture can."""
    try:
        return int(file.getexif().get(ORIENTATION, 1))
    except Exception:  # SyntaxError is among what Pillow raises
        return 1


@contextmanager
def without_exif_warnings() -> Iterator[None]:
    """Keep Pillow from telling of EXIF that it cannot read, without the file's name: nothing is lost but a turn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Corrupt EXIF data", UserWarning)
        yield


def read_picture(
    path: Path, size: tuple[int, int] | None, fit: Resizing = "stretch", ranges: Ranges | None = None
) -> Picture:
    """Read one image file as RGB on white, upright; raises whatever Pillow raises.

    Args:
        path: The file.
        size: Height and width; None for those of the file.
        fit: How it is resized.
        ranges: For pixels of more than 8 bits, the numbers that become black and white; None takes those of the file.
    """
    box = size and (size[1], size[0])
    is_outside = False
    with Image.open(reject_special_file(path), formats=IMAGE_FORMATS) as file:
        depth = find_depth(file)
        is_animated = bool(getattr(file, "is_animated", False))
        # JPEG can be decoded at a half, a quarter or an eighth of its size, which takes a fraction of the time; twice
        # the size that is asked for is kept, so that the resizing below still has something to average over.
        file.draft("RGB", box and (2 * box[0], 2 * box[1]))
        turn = UPRIGHT.get(find_orientation(file))
        image: Image.Image = file if turn is None else file.transpose(turn)
        if depth != BYTES:  # Pillow would clip it
            numbers = np.nan_to_num(np.asarray(image, np.float64))
            if ranges is not None and depth not in ranges:
                known = ", ".join(ranges) or BYTES
                raise ValueError(f"its pixels have {depth}, and the others' {known}: save it as the others are")
            low, high = (float(numbers.min()), float(numbers.max())) if ranges is None else ranges[depth]
            grey = (numbers - low) / ((high - low) or 1)
            is_outside = bool(np.mean((grey < -1 / 255) | (grey > 256 / 255)) > OUTSIDE)
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
    pixels = np.ascontiguousarray(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1))
    return Picture(pixels, depth, is_outside, is_animated)


def read_image(
    path: Path, size: tuple[int, int] | None, fit: Resizing = "stretch", ranges: Ranges | None = None
) -> NDArray[np.uint8]:
    """Return the pixels (3, height, width) of one image file; see ``read_picture``."""
    return read_picture(path, size, fit, ranges).pixels


def survey_image_files(paths: Sequence[Path]) -> tuple[int, dict[str, Range]]:
    """Return what 100 files show: the median shorter side, at most 224, and the range of each depth over 8 bits.

    What 12 bits or a sensor fill is unknown, so that the least number becomes black and the greatest white.
    """
    sides = []
    ends: dict[str, list[float]] = {}
    for path in paths[:: max(1, len(paths) // 100)]:
        # What cannot be read is told of when it is read.
        with (
            suppress(Exception),
            without_exif_warnings(),
            Image.open(reject_special_file(path), formats=IMAGE_FORMATS) as file,
        ):
            sides.append(min(file.size))
            depth = find_depth(file)
            if depth != BYTES:
                pixels = np.nan_to_num(np.asarray(file, np.float64))
                ends.setdefault(depth, []).extend([float(pixels.min()), float(pixels.max())])
    side = min(DEFAULT_MAX_SIDE, int(np.median(sides))) if sides else DEFAULT_MAX_SIDE
    return side, {depth: (min(several), max(several)) for depth, several in sorted(ends.items())}


class PictureFacts(NamedTuple):
    """What was seen while pictures were read, as plain values: each list holds rows.

    Attributes:
        faults: Row and reason of each that could not be read.
        depths: Depth of pixels -> the rows that have it.
        outside: Those with pixels outside of the range of their depth.
        animated: Those of several frames or pages.
        constant: Those of one colour throughout.
        dim: Others whose pixels are nearly equal.
    """

    faults: list[tuple[int, str]]
    depths: dict[str, list[int]]
    outside: list[int]
    animated: list[int]
    constant: list[int]
    dim: list[int]


def read_store(
    paths: Sequence[Path],
    size: tuple[int, int],
    problems: RowErrors,
    fit: Resizing,
    ranges: Ranges,
    skip: Iterable[int] = (),
) -> tuple[InputStore, PictureFacts]:
    """Read image files into a store, once: what was resized is kept in one file of bytes.

    Unreadable files are black, and noted in ``problems``; rows that it holds already are not read, nor are those to
    ``skip``.
    """
    shape = (len(paths), 3, *size)
    skip = frozenset(problems.by_row).union(skip)
    version = 8  # another whenever an image would come out otherwise, so that what was kept before is not taken
    parts: list[str | int] = [version, *shape[1:], fit, str(sorted(ranges.items()))]
    for row, path in enumerate(paths):
        stamp = path.stat() if row not in skip and path.exists() else None  # changes when a file is written again
        # The time of modification can be set to what it was, that of the last change of any kind cannot.
        stamps = () if stamp is None else (stamp.st_size, stamp.st_mtime_ns, stamp.st_ctime_ns)
        parts += [os.path.abspath(path), *stamps]
    file = get_cache_folder() / "pictures" / f"{compute_digest(parts)}.npy"
    needed = math.prod(shape)

    def write(temporary: Path) -> PictureFacts:
        if shutil.disk_usage(file.parent).free < needed:  # to write to the map of a full disk would end the process
            fix = f"name another folder by LOGIT_CORRECTION_CACHE, or give a smaller {format_option('data.size')}"
            raise InputError(f"{file.parent} has no room for {needed / 2**30:.1f} GiB of images: {fix}")
        values = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        return _read_into(values, paths, skip, fit, ranges, "reading images")

    values, kept = cache_array(file, write)
    facts = PictureFacts(*kept)
    for row, fault in facts.faults:
        problems.add(row, fault)
    return ArrayStore(torch.from_numpy(values)), facts


def build_image_store(
    paths: Sequence[Path],
    size: tuple[int, int],
    problems: RowErrors,
    fit: Resizing = "stretch",
    skip: Iterable[int] = (),
) -> InputStore:
    """Read image files of 8 bits into a store; see ``read_store``."""
    return read_store(paths, size, problems, fit, {}, skip)[0]


def _read_into(
    values: NDArray[np.uint8],
    paths: Sequence[Path],
    skip: Iterable[int],
    fit: Resizing,
    ranges: Ranges,
    title: str = "",
) -> PictureFacts:
    """Read images into (n, 3, H, W), by threads, and return what was seen; ``title`` is shown."""

    def read(row: int) -> tuple[str, bool, bool, int] | str | None:
        try:
            if row in skip:
                return None
            picture = read_picture(paths[row], (values.shape[2], values.shape[3]), fit, ranges)
        except UnidentifiedImageError:
            return "is no image that Pillow can read"
        except Exception as error:  # SyntaxError is among them
            return f"cannot be read ({format_reason(error)})"
        values[row] = picture.pixels
        spread = int(np.ptp(picture.pixels.reshape(3, -1), axis=1).max())
        return picture.depth, picture.is_outside, picture.is_animated, spread

    facts = PictureFacts([], {}, [], [], [], [])
    with without_exif_warnings():
        for row, seen in enumerate(map_in_threads(read, range(len(paths)), title)):
            if isinstance(seen, str):
                facts.faults.append((row, seen))
            elif seen is not None:
                depth, is_outside, is_animated, spread = seen
                facts.depths.setdefault(depth, []).append(row)
                _append_if(facts.outside, row, is_outside)
                _append_if(facts.animated, row, is_animated)
                _append_if(facts.constant, row, spread == 0)
                _append_if(facts.dim, row, 0 < spread <= DIM)
    return facts


class ImageReader(Reader):
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

        Without a size ``fit_transform`` chooses it, by the files of training.
        """
        if isinstance(size, int):
            check_range(format_option("data.size"), size, 1)
            size = (size, size)
        self.size, self.resizing, self.scale, self.column, self.root = size, fit, scale, column, root
        self.ranges: dict[str, Range] = {}
        self.depths: list[str] = []
        self.allows_constant: bool | None = None

    def load_state(self, preparation: Mapping[str, Any]) -> None:
        super().load_state(preparation)
        ranges = preparation.get("ranges", {})
        if "range" in preparation:  # as runs of earlier versions had it
            ranges = dict.fromkeys(DEPTHS, preparation["range"])
        self.ranges = {depth: (float(low), float(high)) for depth, (low, high) in ranges.items()}
        self.depths = list(preparation.get("depths", ()))
        self.allows_constant = preparation.get("allows_constant", True)
        if self.size is None:
            self.size = (preparation["size"],) * 2

    def validate(self, rows: Rows) -> tuple[list[Path], list[str], list[str]]:
        """Return the files of all rows, and their names."""
        if rows.files is not None:
            return list(rows.files), list(rows.names), []
        files, names = self._named(rows, self.root or rows.folder or Path())
        return files, [escape_undecodable(name or "") for name in names], []

    def _named(self, rows: Rows, folder: Path, also: Path | None = None) -> tuple[list[Path], list[str | None]]:
        """Return the files in a folder that the rows of a table name, and these names."""
        assert rows.frame is not None
        column = self.column or next((name for name in FILE_COLUMNS if name in rows.frame), FILE_COLUMNS[0])
        check_columns(rows.frame, rows.place, [column])
        names = convert_column_to_texts(rows.frame, column, as_written=True)
        return find_files_within(folder, names, rows.errors, column, also=also), names

    def fit(self, read: list[Path], train: Tensor, problems: RowErrors) -> None:
        """Find out the size of the images, and the range of pixels of more than 8 bits."""
        side, self.ranges = survey_image_files([read[row] for row in train.tolist()])
        self.size = self.size or (side, side)
        self.depths = []
        self.allows_constant = None

    def encode(self, read: list[Path], problems: RowErrors) -> FittedInputs:
        """Return a store of all images of a training, which are read once.

        A picture of one colour is a bad row, unless most of those of the training are.
        """
        assert self.size is not None
        store, facts = read_store(read, self.size, problems, self.resizing, self.ranges)
        if self.allows_constant is None:
            self.depths = sorted(facts.depths)
            self.allows_constant = 2 * len(facts.constant) > sum(map(len, facts.depths.values()))
        self._tell(facts, problems)
        told = f"resized to {self.size[0]}x{self.size[1]}, {self.resizing}"
        for depth, (low, high) in self.ranges.items():
            told += f"; of {depth}: {low:g} black and {high:g} white"
        preparation = {"size": self.size[0], "depths": self.depths, "allows_constant": self.allows_constant}
        if self.ranges:
            preparation["ranges"] = {depth: [*ends] for depth, ends in self.ranges.items()}
        notes = problems.describe_remarks()
        if len(facts.depths) > 1:
            count = [f"{depth} in {len(rows):,}" for depth, rows in sorted(facts.depths.items())]
            notes += (f"pixels of several depths, each with a range of its own: {format_list(count)} pictures",)
        return FittedInputs(store, {"files": read}, {"images": told}, preparation, notes)

    def _tell(self, facts: PictureFacts, problems: RowErrors) -> None:
        """Note what was seen while pictures were read: bad rows, and remarks."""
        for row in [] if self.allows_constant else facts.constant:
            problems.add(row, "is of one colour throughout, after it was read")
        for depth, rows in facts.depths.items():
            if self.depths and depth not in self.depths:
                fact = f"pixels have {depth}, and those of training {format_list(self.depths)},"
                problems.remark(fact, "save them as those of training", len(rows), problems.rows[rows[0]])
        for rows, fact, consequence in (
            (facts.outside, "pixels lie outside of the training range", "they count as black or white"),
            (facts.animated, "there are several frames or pages", "the first alone is read"),
            (facts.dim, "pixels are nearly equal", "they may have another depth than others"),
        ):
            if rows:
                problems.remark(fact, consequence, len(rows), problems.rows[rows[0]])

    def find_unreadable(self, read: list[Path], problems: RowErrors) -> None:
        """Note the files that cannot be read."""
        images = np.zeros((len(read), 3, 8, 8), dtype=np.uint8)
        ranges = self.ranges or survey_image_files(read)[1]
        for row, fault in _read_into(images, read, frozenset(problems.by_row), self.resizing, ranges).faults:
            problems.add(row, fault)

    def transform(self, rows: Rows) -> tuple[InputStore, dict[str, Any]]:
        """Return images as a network takes them, and their files; those that cannot be read are noted, and black."""
        if rows.values is not None:
            return build_array_store(convert_to_channels_first(rows.values), rows.errors, self.scale), {}
        if rows.frame is not None:
            paths, _ = self._named(rows, rows.folder or self.root or Path(), also=self.root)
        elif rows.files is not None:
            paths = list(rows.files)
        else:
            raise InputError("this model takes images: give image files, or arrays")
        assert self.size is not None
        images = np.zeros((len(paths), 3, *self.size), dtype=np.uint8)
        facts = _read_into(images, paths, frozenset(rows.errors.by_row), self.resizing, self.ranges)
        for row, fault in facts.faults:
            rows.errors.add(row, fault)
        self._tell(facts, rows.errors)
        return ArrayStore(torch.from_numpy(images), self.scale), {"files": paths}


def _append_if(rows: list[int], row: int, condition: bool) -> None:
    if condition:
        rows.append(row)


def convert_to_channels_first(values: NDArray[Any]) -> NDArray[Any]:
    """Return images, channels first or last, as (n, C, H, W), unsigned bytes or float32 in [0, 1].

    The axis of length 1 or 3 tells where channels are; NaN and infinity stay.

    >>> convert_to_channels_first(np.zeros((5, 28, 28, 3))).shape
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


#: What computers and network drives put into folders, in small letters; beside names that begin with ``HIDDEN``.
JUNK = (
    "__macosx",
    "__pycache__",
    "$recycle.bin",
    "#recycle",
    "recycler",
    "system volume information",
    "lost+found",
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
)
HIDDEN = (".", "@")


def is_hidden(name: str) -> bool:
    """Return whether a file or a folder is none that a person has put there."""
    return name.startswith(HIDDEN) or name.casefold() in JUNK


def list_visible_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, in order."""
    return sorted(path for path in folder.iterdir() if not is_hidden(path.name) and path.is_dir())


def list_visible_files(folder: Path, hidden: list[Path] | None = None) -> list[Path]:
    """Return the files in a folder and in those below it, in order, links to folders among them.

    Hidden folders that hold something, and hidden files that are images by name, are added to ``hidden``.
    """

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be looked into ({error.strerror}): permit it, or remove it")

    found: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        if hidden is not None:
            hidden += find_hidden(Path(place), folders, files)
        folders[:] = [name for name in folders if not is_hidden(name)]
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        found += [Path(place, name) for name in (*files, *links) if not is_hidden(name)]
    return sorted(found)


def find_hidden(place: Path, folders: Iterable[str], files: Iterable[str]) -> list[Path]:
    """Return the hidden folders in a place that hold something, and the hidden files that are images by name."""
    holding = [place / name for name in folders if is_hidden(name) and os.access(place / name, os.R_OK)]
    holding = [folder for folder in holding if os.listdir(folder)]
    return holding + [place / name for name in files if is_hidden(name) and Path(name).suffix.lower() in IMAGE_SUFFIXES]


def find_label_folders(root: Path) -> dict[Path, str | None]:
    """Return the folder of every label with its split, None where folders are no splits.

    Folders are splits if each has the name of one and there are several, or one that holds folders. ``InputError`` if
    folders of labels seem to hold those of other labels.
    """
    there = [path for path in root.iterdir() if not is_hidden(path.name)]
    lost = next((path for path in there if path.is_symlink() and not path.exists()), None)
    if lost is not None:
        raise InputError(f"{lost} is a link to nothing: remove it, or put a folder of images there")
    splits = {folder: SPLIT_ALIASES.get(folder.name.strip().lower()) for folder in list_visible_folders(root)}
    has_images = {
        folder: any(path.suffix.lower() in IMAGE_SUFFIXES and not is_hidden(path.name) for path in folder.iterdir())
        for folder in splits
    }
    inner = {folder: [] if has_images[folder] else list_visible_folders(folder) for folder in splits}
    if all(splits.values()) and (len(splits) > 1 or any(inner.values())):
        found = {label: split for folder, split in splits.items() for label in list_visible_folders(folder)}
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
    hidden: list[Path] = []
    for place in {root, *(folder.parent for folder in folders)} - {*folders}:  # what lies beside folders of labels
        hidden += find_hidden(place, [path.name for path in place.iterdir() if path.is_dir()], [])
    found = {folder: list_visible_files(folder, hidden) for folder in folders}
    files = [(path, folder) for folder, paths in found.items() for path in paths
             if path.suffix.lower() in IMAGE_SUFFIXES or not path.is_file()]  # fmt: skip
    if not files:
        raise InputError(f"{root} holds no images ({', '.join(IMAGE_SUFFIXES)})")
    taken = {path for path, _ in files}
    notes = [f"{escape_undecodable(folder)} holds no image ({', '.join(IMAGE_SUFFIXES)})"
             for folder, paths in found.items() if taken.isdisjoint(paths)]  # fmt: skip
    other = [escape_undecodable(path) for paths in found.values() for path in paths if path not in taken]
    if hidden:
        names_of_hidden = [escape_undecodable(path.relative_to(root)) for path in sorted(hidden)]
        what = "what computers put into folders is not read"
        notes.append(f"{what}: {format_first(names_of_hidden, MAX_SHOWN, '; ')}")
    if other:  # in one line: each folder may hold what its owner's computer puts into every folder
        notes.append(f"files that are no images by name are left out: {format_first(other, MAX_SHOWN, '; ')}")
    # Images that lie in the folder of a split itself have no label.
    names = {
        folder: None if split and folder.parent == root else normalize_text(escape_undecodable(folder.name))
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
            rows.errors.add(row, f"is a link that leaves the folder, to {os.path.realpath(path)}")
        elif not path.is_file():
            rows.errors.add(row, "is a link to no file")
    return rows, notes
