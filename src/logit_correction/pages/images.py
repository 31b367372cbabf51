"""Images of rows: as text that a page can hold, and as a contact sheet."""

from __future__ import annotations

import base64
import io
import re
from typing import TYPE_CHECKING, Any, cast

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from logit_correction.errors import InputError

if TYPE_CHECKING:
    from logit_correction.data.table import DataTable

#: Longer side of an image on a contact sheet: smaller ones are enlarged by a whole factor, larger ones shrunk.
SIDE = 64

#: Of more labels or attributes no images are drawn.
MOST_CELLS = 40

_PNG = re.compile(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}")
_GAP, _FONT = 4, 12
_PAPER, _INK, _EMPTY = (255, 255, 255), (29, 36, 48), (233, 235, 238)


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
    uris = []
    for image in _drawn(images):
        stream = io.BytesIO()
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


def sheet_of(table: DataTable, split: str, per_cell: int) -> Image.Image:
    """Draw the first images of each group of a split, or of each label where attributes are unknown.

    Raises:
        InputError: If the inputs are no images, or the split is empty.
    """
    rows, known = table.split[split], table.has_attributes(split)
    first = table.inputs.images(rows[:1]) if len(rows) else None
    if first is None:
        what = "holds no images, so there is nothing to draw" if len(rows) else "has no rows"
        raise InputError(f"The {split} split {what}: take another split or source, or leave --out out")
    labels = [str(name) for name in table.label_names[:MOST_CELLS]]
    columns = [str(name) for name in table.attribute_names[:MOST_CELLS]] if known else [""] * 8
    size = _drawn(first)[0].size
    small = max(size) <= SIDE
    width, height = (side * (SIDE // max(size)) if small else max(1, side * SIDE // max(size)) for side in size)
    font = ImageFont.load_default(_FONT)
    cell_width = max(width + _GAP, *(int(font.getlength(name)) + 1 + 2 * _GAP for name in columns))
    left = max(int(font.getlength(name)) + 1 for name in labels) + 3 * _GAP
    top, cell_height = _FONT + 3 * _GAP if known else _GAP, per_cell * (height + 1) + _GAP
    sheet = Image.new("RGB", (left + len(columns) * cell_width, top + len(labels) * cell_height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for column, name in enumerate(columns):
        draw.text((left + column * cell_width, _GAP), name, _INK, font)
    for y, name in enumerate(labels):
        draw.text((_GAP, top + y * cell_height + (cell_height - _GAP - _FONT) // 2), name, _INK, font)
        mine = rows[table.label[rows] == y]
        for column in range(len(columns)):
            own = mine[table.attribute[mine] == column] if known else mine[column * per_cell :]
            images = _drawn(cast(Tensor, table.inputs.images(own[:per_cell])))
            for i in range(per_cell):
                place = left + column * cell_width, top + y * cell_height + i * (height + 1)
                if i < len(images):
                    # Enlarged pixels stay squares, so that one sees what the network sees.
                    way = Image.Resampling.NEAREST if small else Image.Resampling.BOX
                    sheet.paste(images[i].convert("RGB").resize((width, height), way), place)
                else:
                    draw.rectangle((*place, place[0] + width - 1, place[1] + height - 1), _EMPTY)
    return sheet


def _drawn(images: Tensor) -> list[Image.Image]:
    """Return images (N, 1 or 3, H, W) of bytes as Pillow's."""
    if images.dim() != 4 or images.shape[1] not in (1, 3) or str(images.dtype) != "torch.uint8":
        found = f"{str(images.dtype).removeprefix('torch.')} {tuple(images.shape)}"
        raise ValueError(f"images must be uint8 (N, 1 or 3, H, W), but are {found}")
    arrays = images.cpu().permute(0, 2, 3, 1).numpy()
    return [Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]) for pixels in arrays]
