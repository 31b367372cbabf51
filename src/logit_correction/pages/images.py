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
    for image in _drawn(images):
        stream = io.BytesIO()
        image.thumbnail((longest, longest))
        image.save(stream, "png", optimize=True)
        uris.append("data:image/png;base64," + base64.b64encode(stream.getvalue()).decode())
    return uris


def is_picture(text: Any) -> bool:
    """Return whether ``text`` is a PNG data URI: a page loads nothing from elsewhere."""
    return isinstance(text, str) and _PNG.fullmatch(text) is not None


def _drawn(images: Tensor) -> list[Image.Image]:
    """Return images (N, 1 or 3, H, W) of bytes as Pillow's."""
    if images.dim() != 4 or images.shape[1] not in (1, 3) or str(images.dtype) != "torch.uint8":
        found = f"{str(images.dtype).removeprefix('torch.')} {tuple(images.shape)}"
        raise ValueError(f"images must be uint8 (N, 1 or 3, H, W), but are {found}")
    arrays = images.cpu().permute(0, 2, 3, 1).numpy()
    return [Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]) for pixels in arrays]
