"""Images as people hold them in Python: the order of their channels, and the values of their pixels."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logit_correction.errors import InputError

#: Where images have their channels: (n, C, H, W) or (n, H, W, C).
Channels: TypeAlias = Literal["first", "last"]

#: How many channels an image may have.
COUNTS = (1, 3)


def channels_first(images: NDArray[Any], channels: Channels | None = None) -> NDArray[Any]:
    """Return images (n, C, H, W).

    Args:
        images: (n, C, H, W) or (n, H, W, C), with 1 or 3 channels.
        channels: Which of them; None tells it by the axis of length 1 or 3.

    Raises:
        InputError: If neither fits, or both do and nobody said which.

    >>> channels_first(np.zeros((5, 28, 28, 3))).shape
    (5, 3, 28, 28)
    >>> channels_first(np.zeros((5, 3, 28, 3)))
    Traceback (most recent call last):
    ...
    logit_correction.errors.InputError: images have shape (5, 3, 28, 3), of which axis 1 or axis 3 may be the channels:
    give channels="first" or channels="last"
    """
    if channels not in (None, "first", "last"):
        raise InputError(f'channels is {channels!r}, but must be "first", "last" or None')
    fits = {"first": images.shape[1] in COUNTS, "last": images.shape[3] in COUNTS}
    if channels is None and all(fits.values()):
        raise InputError(
            f"images have shape {images.shape}, of which axis 1 or axis 3 may be the channels: give "
            'channels="first" or channels="last"'
        )
    found = channels or ("first" if fits["first"] else "last")
    if not fits[found]:
        wanted = {None: "", "first": " first", "last": " last"}[channels]
        raise InputError(
            f"images have shape {images.shape}, but must be (rows, channels, height, width) or (rows, height, width, "
            f"channels), with 1 or 3 channels{wanted}"
        )
    return images if found == "first" else np.moveaxis(images, 3, 1)


def checked_values(images: NDArray[Any]) -> NDArray[Any]:
    """Return images as unsigned bytes or float32 in [0, 1]; NaN and infinity stay, for those who tell of rows.

    Raises:
        InputError: If they are of another type, or finite values lie outside.

    >>> checked_values(np.array([0, 255]))
    Traceback (most recent call last):
    ...
    logit_correction.errors.InputError: images are of type int64, but must be unsigned bytes or floats in [0, 1]
    """
    wanted = "but must be unsigned bytes or floats in [0, 1]"
    if images.dtype.kind not in "fb" and images.dtype != np.uint8:
        raise InputError(f"images are of type {images.dtype}, {wanted}")
    if images.dtype == np.uint8 or not images.size:
        return images
    images = images.astype(np.float32, copy=False)
    ends = images.min(), images.max()
    if not np.isfinite(ends).all():
        finite = images[np.isfinite(images)]
        ends = (finite.min(), finite.max()) if finite.size else (0, 0)
    if ends[0] < 0 or ends[1] > 1:
        raise InputError(f"images lie between {ends[0]:g} and {ends[1]:g}, {wanted}: scale them")
    return images
