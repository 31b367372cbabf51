"""Reading one picture file, or a few that were not part of the training data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.problems import listed
from logit_correction.types import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

#: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle.
Fit = Literal["stretch", "crop"]


def read_picture(path: Path, size: tuple[int, int], fit: Fit = "stretch") -> NDArray[np.uint8]:
    """Read one picture file as RGB, upright, resized to ``size`` (height, width).

    Returns:
        (3, height, width).

    Raises:
        Exception: Whatever Pillow raises on a damaged file; SyntaxError is among it.
    """
    from PIL import Image, ImageOps

    box = (size[1], size[0])
    with Image.open(path) as image:
        # JPEG can be decoded at a half, a quarter or an eighth of its size, which takes a fraction of the time; twice
        # the size that is asked for is kept, so that the resizing below still has something to average over.
        image.draft("RGB", (2 * box[0], 2 * box[1]))
        picture = _eight_bits(ImageOps.exif_transpose(image)).convert("RGB")
    if picture.size != box:
        if fit == "crop":
            picture = ImageOps.fit(picture, box, Image.Resampling.BILINEAR)
        else:
            picture = picture.resize(box, Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(picture, dtype=np.uint8).transpose(2, 0, 1))


def _eight_bits(image: Image) -> Image:
    """Bring grey pictures of sixteen bits to eight; Pillow would clip them."""
    from PIL import Image

    if not image.mode.startswith("I"):
        return image
    values: NDArray[Any] = np.asarray(image).astype(np.int64)
    return Image.fromarray((values.clip(0, 65_535) >> 8).astype(np.uint8))


def fault_of(error: Exception) -> str:
    """Return in a few words why a picture could not be read."""
    from PIL import UnidentifiedImageError

    if isinstance(error, FileNotFoundError):
        return "is missing"
    if isinstance(error, UnidentifiedImageError):
        return "is no picture that Pillow can read"
    return f"cannot be read ({' '.join(str(error).split()) or type(error).__name__})"


class UnreadablePictures(InputError):
    """Names the first ten picture files that cannot be read.

    Attributes:
        faults: Every file with what is wrong with it.
    """

    def __init__(self, faults: list[str]) -> None:
        """Make the message."""
        self.faults = faults
        count = "a picture" if len(faults) == 1 else f"{len(faults)} pictures"
        super().__init__(f"{count} cannot be read: {listed(faults)}: mend or leave out")


def read_pictures(paths: Sequence[Path], size: tuple[int, int], fit: Fit = "stretch") -> Tensor:
    """Read picture files as RGB, resized to ``size``.

    Args:
        paths: Picture files.
        size: (height, width).
        fit: How a picture of other proportions is brought to ``size``.

    Returns:
        (len(paths), 3, height, width) uint8.

    Raises:
        UnreadablePictures: Names the first ten files that cannot be read.
    """
    pictures = torch.zeros((len(paths), 3, *size), dtype=torch.uint8)
    bad: list[str] = []
    for i, path in enumerate(paths):
        try:
            pictures[i] = torch.from_numpy(read_picture(path, size, fit))
        except Exception as error:  # a damaged file makes Pillow raise many kinds, SyntaxError among them
            bad.append(f"{path} {fault_of(error)}")
    if bad:
        raise UnreadablePictures(bad)
    return pictures
