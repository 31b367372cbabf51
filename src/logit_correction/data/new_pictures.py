"""Reading picture files that were not part of the training data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from logit_correction.types import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def read_pictures(paths: Sequence[Path], size: tuple[int, int]) -> Tensor:
    """Read picture files as RGB, resized to ``size``.

    Args:
        paths: Picture files.
        size: (height, width).

    Returns:
        (len(paths), 3, height, width) uint8.

    Raises:
        InputError: Names the first ten files that cannot be read.
    """
    from PIL import Image

    pictures = torch.zeros((len(paths), 3, *size), dtype=torch.uint8)
    bad: list[str] = []
    for i, path in enumerate(paths):
        try:
            with Image.open(path) as image:
                picture = image.convert("RGB")
        except Exception as error:  # a damaged file makes Pillow raise many kinds, SyntaxError among them
            bad.append(f"{path} ({error})")
            continue
        if picture.size != (size[1], size[0]):
            picture = picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        pictures[i] = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    if bad:
        more = f" and {len(bad) - 10} more" if len(bad) > 10 else ""
        count = "a picture" if len(bad) == 1 else f"{len(bad)} pictures"
        raise InputError(f"{count} cannot be read: {'; '.join(bad[:10])}{more}: mend or leave out")
    return pictures
