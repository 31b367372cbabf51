"""Images as text that a page can hold."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

from PIL import Image
from torch import Tensor

_PNG = re.compile(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}")


def png_uris(images: Tensor, longest: int = 128) -> list[str]:
    """Encode images as PNG data URIs.

    Args:
        images: (N, C, H, W) uint8 with one channel (grey) or three (red, green, blue).
        longest: Greater images are made smaller, so that their longer side has so many pixels.

    Returns:
        N strings that begin with ``data:image/png;base64,``.

    Raises:
        ValueError: The images have another shape or type.
    """
    if images.dim() != 4 or images.shape[1] not in (1, 3) or str(images.dtype) != "torch.uint8":
        found = f"{str(images.dtype).removeprefix('torch.')} {tuple(images.shape)}"
        raise ValueError(f"images must be uint8 (N, 1 or 3, H, W), but are {found}")
    uris = []
    for pixels in images.cpu().permute(0, 2, 3, 1).numpy():
        stream = io.BytesIO()
        image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
        image.thumbnail((longest, longest))
        image.save(stream, "png", optimize=True)
        uris.append("data:image/png;base64," + base64.b64encode(stream.getvalue()).decode())
    return uris


def checked_uri(text: Any) -> str | None:
    """Return ``text`` if it is a PNG data URI, else None: a page loads nothing from elsewhere."""
    return text if isinstance(text, str) and _PNG.fullmatch(text) else None


def image_width(uri: str) -> int:
    """Return the width in pixels of a PNG data URI."""
    start = base64.b64decode(uri.partition(",")[2][:32])  # signature, length and name of the header, width, height
    return int.from_bytes(start[16:20], "big")
