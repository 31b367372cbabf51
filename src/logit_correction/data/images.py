"""The reader of images: files decoded by threads, resized to one size, and kept so that each is decoded once."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import UnidentifiedImageError
from torch import Tensor

from logit_correction.data.cache import cache_array, compute_digest, get_cache_folder
from logit_correction.data.cells import check_required_columns, convert_to_texts
from logit_correction.data.image_files import (
    DEPTHS,
    Picture,
    Range,
    Ranges,
    Resizing,
    ignore_image_warnings,
    infer_side_and_ranges,
    read_picture,
)
from logit_correction.data.image_folders import find_files_within
from logit_correction.data.reader import PreparedInputs, Reader, build_array_store, convert_to_channels_first
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import format_list, format_option, format_reason
from logit_correction.threads import map_in_threads
from logit_correction.unicode_text import escape_undecodable

#: Columns of a table that may hold the names of files; the first that is there counts.
FILE_COLUMNS = ("path", "file", "filename", "file_name", "image", "img_filename", "image_id")

#: Part of the name of kept images; another whenever one would be decoded otherwise, so that old ones are not taken.
PICTURES_VERSION = 10

#: Height and width at which images are decoded only to see whether they can be.
PROBE_SIZE = (8, 8)

#: Trait of pictures -> what is remarked of their rows, and what follows.
REMARKS = {
    "outside": ("pixels lie outside of the training range", "they count as black or white"),
    "animated": ("there are several frames or pages", "the first alone is read"),
    "dim": ("pixels are nearly equal", "they may have another depth than others"),
}


class PictureFacts(NamedTuple):
    """Facts about images that were decoded, as plain values: the rows of each.

    Attributes:
        faults: Reason -> those that could not be read for it.
        depths: Depth of pixels -> those that have it.
        traits: Trait of ``Picture`` -> those that have it.
    """

    faults: dict[str, list[int]]
    depths: dict[str, list[int]]
    traits: dict[str, list[int]]


def read_image_store(
    paths: Sequence[Path],
    size: tuple[int, int],
    errors: RowErrors,
    resizing: Resizing = "stretch",
    ranges: Ranges | None = None,
    skip: Iterable[int] = (),
    cached: bool = True,
) -> tuple[ArrayStore, PictureFacts]:
    """Read image files into a store.

    Args:
        paths: M image files.
        size: Height and width of the images of the store.
        errors: Where unreadable files are noted, which are black; rows that are bad already are not read.
        resizing: How images are resized.
        ranges: For each depth of more than 8 bits, the numbers that become black and white; without it such images are
            unreadable.
        skip: Further rows that are not read.
        cached: Whether the resized images are kept in a file of bytes, so that they are read once; else in memory.
    """
    shape = (len(paths), 3, *size)
    ranges = ranges or {}
    skip = frozenset(errors.by_row).union(skip)
    if cached:
        values, plain_facts = _cache_images(paths, shape, skip, resizing, ranges)
        facts = PictureFacts(*plain_facts)
    else:
        values = np.zeros(shape, np.uint8)
        facts = _read_images_into(values, paths, skip, resizing, ranges)
    for fault, rows in facts.faults.items():
        for row in rows:
            errors.add(row, fault)
    return ArrayStore(torch.from_numpy(values)), facts


def _cache_images(
    paths: Sequence[Path], shape: tuple[int, ...], skip: Collection[int], resizing: Resizing, ranges: Ranges
) -> tuple[NDArray[np.uint8], Any]:
    """Return images (n, 3, H, W) mapped from a file, and facts about them as a list of plain values."""
    parts: list[str | int] = [PICTURES_VERSION, *shape[1:], resizing, str(sorted(ranges.items()))]
    for row, path in enumerate(paths):
        parts.append(os.path.abspath(path))
        if row not in skip and path.exists():
            stamp = path.stat()
            # The time of modification can be set to what it was, that of the last change of any kind cannot.
            parts += [stamp.st_size, stamp.st_mtime_ns, stamp.st_ctime_ns]
    file = get_cache_folder() / "pictures" / f"{compute_digest(parts)}.npy"

    def write(temporary: Path) -> PictureFacts:
        num_bytes = math.prod(shape)
        if shutil.disk_usage(file.parent).free < num_bytes:  # writing to a map on a full disk ends the process
            remedy = f"name another folder by LOGIT_CORRECTION_CACHE, or give a smaller {format_option('data.size')}"
            raise InputError(f"{file.parent} has no room for {num_bytes / 2**30:.1f} GiB of images: {remedy}")
        values = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        return _read_images_into(values, paths, skip, resizing, ranges, "reading images")

    return cache_array(file, write)


def _read_images_into(
    values: NDArray[np.uint8],
    paths: Sequence[Path],
    skip: Collection[int],
    resizing: Resizing,
    ranges: Ranges,
    title: str = "",
) -> PictureFacts:
    """Read images into (n, 3, H, W), by threads, and return facts about them; a progress bar shows ``title``."""

    def read(row: int) -> Picture | str:
        """Return the picture of a row, or why it is bad."""
        try:
            picture = read_picture(paths[row], values.shape[2:], resizing, ranges)
        except UnidentifiedImageError:
            return "is not an image that Pillow can read"
        except Exception as error:  # SyntaxError is among them
            return f"cannot be read ({format_reason(error)})"
        values[row] = picture.pixels
        return picture

    facts = PictureFacts({}, {}, {})
    rows = [row for row in range(len(paths)) if row not in skip]
    with ignore_image_warnings():
        for row, picture in zip(rows, map_in_threads(read, rows, title), strict=True):
            if isinstance(picture, str):
                facts.faults.setdefault(picture, []).append(row)
                continue
            facts.depths.setdefault(picture.depth, []).append(row)
            for trait in picture.traits:
                facts.traits.setdefault(trait, []).append(row)
    return facts


class ImageReader(Reader):
    """Reads images: files, tables that name files, and arrays."""

    def __init__(
        self,
        size: tuple[int, int] | int | None,
        resizing: Resizing = "stretch",
        scale: float = 1.0,
        column: str | None = None,
        root: Path | None = None,
    ) -> None:
        """Choose the form of the images.

        Args:
            size: Height and width; None takes the median shorter side of the files of training, at most 224.
            resizing: How images are resized.
            scale: Multiplies pixels, after they were brought to [0, 1].
            column: Of tables, the column that names the files; None takes the first of ``FILE_COLUMNS``.
            root: Of tables, the folder of the files; None takes that of the table.
        """
        if isinstance(size, int):
            check_range(format_option("data.size"), size, 1)
            size = (size, size)
        self.size = size
        self.resizing = resizing
        self.scale = scale
        self.column = column
        self.root = root
        self.ranges: dict[str, Range] = {}
        self.range_notes: tuple[str, ...] = ()
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
        paths, names = self._find_row_files(rows, self.root or rows.folder or Path())
        return paths, [escape_undecodable(name or "") for name in names], []

    def _find_row_files(
        self, rows: Rows, folder: Path, fallback: Path | None = None
    ) -> tuple[list[Path], list[str | None]]:
        """Return the files in a folder that the rows of a table name, and these names."""
        assert rows.frame is not None
        column = self.column or next((name for name in FILE_COLUMNS if name in rows.frame), FILE_COLUMNS[0])
        check_required_columns(rows.frame, rows.place, [column])
        names = convert_to_texts(rows.frame[column], as_written=True)
        return find_files_within(folder, names, rows.errors, column, fallback=fallback), names

    def fit(self, parsed_rows: list[Path], train_rows: Tensor, errors: RowErrors) -> None:
        """Choose the size of the images, and the range of pixels of more than 8 bits."""
        side, self.ranges, self.range_notes = infer_side_and_ranges([parsed_rows[row] for row in train_rows.tolist()])
        self.size = self.size or (side, side)
        self.depths = []
        self.allows_constant = None

    def build_inputs(self, parsed_rows: list[Path], errors: RowErrors) -> PreparedInputs:
        """Return a store of all images of a training, which are read once.

        An image of one colour is a bad row, unless most of those of the training are.
        """
        assert self.size is not None
        store, facts = read_image_store(parsed_rows, self.size, errors, self.resizing, self.ranges)
        if self.allows_constant is None:
            self.depths = sorted(facts.depths)
            self.allows_constant = 2 * len(facts.traits.get("constant", ())) > sum(map(len, facts.depths.values()))
        self._add_remarks_of_facts(facts, errors)
        form = f"resized to {self.size[0]}x{self.size[1]}, {self.resizing}"
        for depth, (low, high) in self.ranges.items():
            form += f"; of {depth}: {low:g} black and {high:g} white"
        preparation = {"size": self.size[0], "depths": self.depths, "allows_constant": self.allows_constant}
        if self.ranges:
            preparation["ranges"] = {depth: [*ends] for depth, ends in self.ranges.items()}
        notes = self.range_notes + errors.describe_remarks()
        if len(facts.depths) > 1:
            counts = [f"{depth} in {len(rows):,}" for depth, rows in sorted(facts.depths.items())]
            notes += (f"pixels of several depths, each with a range of its own: {format_list(counts)} pictures",)
        return PreparedInputs(store, {"files": parsed_rows}, {"images": form}, preparation, notes)

    def _add_remarks_of_facts(self, facts: PictureFacts, errors: RowErrors) -> None:
        """Note bad rows, and what users should know of others."""
        for row in () if self.allows_constant else facts.traits.get("constant", ()):
            errors.add(row, "is of one colour throughout, after it was read")
        remarks = [(*REMARKS[trait], rows) for trait, rows in facts.traits.items() if trait in REMARKS]
        for depth, rows in facts.depths.items():
            if self.depths and depth not in self.depths:
                fact = f"pixels have {depth}, and those of training {format_list(self.depths)},"
                remarks.append((fact, "save them as those of training", rows))
        for fact, consequence, rows in remarks:
            errors.add_remark(fact, consequence, len(rows), errors.row_names[rows[0]])

    def check_readable(self, parsed_rows: list[Path], errors: RowErrors) -> None:
        ranges = self.ranges or infer_side_and_ranges(parsed_rows)[1]
        read_image_store(parsed_rows, PROBE_SIZE, errors, self.resizing, ranges, cached=False)

    def transform(self, rows: Rows) -> tuple[InputStore, dict[str, Any]]:
        """Return new images as a network takes them, and their files; unreadable ones are noted, and black."""
        if rows.values is not None:
            return build_array_store(convert_to_channels_first(rows.values), rows.errors, self.scale), {}
        if rows.frame is not None:
            paths, _ = self._find_row_files(rows, rows.folder or self.root or Path(), fallback=self.root)
        elif rows.files is not None:
            paths = list(rows.files)
        else:
            raise InputError("this model takes images: give image files, or arrays")
        assert self.size is not None
        store, facts = read_image_store(paths, self.size, rows.errors, self.resizing, self.ranges, cached=False)
        self._add_remarks_of_facts(facts, rows.errors)
        return ArrayStore(store.values, self.scale), {"files": paths}
