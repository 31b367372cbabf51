"""Reading image files, by threads, with everything that is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from logit_correction.data.memory import SHARE, free_memory
from logit_correction.data.problems import format_faults
from logit_correction.errors import InputError, reason_of
from logit_correction.files import plain
from logit_correction.threads import in_threads, thread_count

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
