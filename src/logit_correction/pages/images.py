"""Images of rows as text that a page can hold."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

from PIL import Image
from torch import Tensor

_PNG = re.compile(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}")


def png_uris(images: Tensor, longest: int = 128) -> list[str]:
    """Encode images (N, 1 or 3, H, W) uint8 as PNG data URIs, their longer side at most ``longest`` pixels."""
    uris = []
    for pixels in images.cpu().permute(0, 2, 3, 1).numpy():
        stream, image = io.BytesIO(), Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
        image.thumbnail((longest, longest))
        image.save(stream, "png", optimize=True)
        uris.append("data:image/png;base64," + base64.b64encode(stream.getvalue()).decode())
    return uris


def is_picture(text: Any) -> bool:
    """Return whether ``text`` is a PNG data URI: a page loads nothing from elsewhere."""
    return isinstance(text, str) and _PNG.fullmatch(text) is not None
