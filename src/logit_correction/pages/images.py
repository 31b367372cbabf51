"""Images of rows: as text that a page can hold, and as a contact sheet."""

from __future__ import annotations

import base64
import io
import re
from typing import TYPE_CHECKING, Any, cast

from PIL import Image, ImageDraw, ImageFont, ImageOps
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


def sheet_of(table: DataTable, split: str, per_cell: int) -> Image.Image:
    """Draw the first images of each group of a split, or of each label where attributes are unknown."""
    rows, known = table.split[split], table.has_attributes(split)
    first = table.inputs.images(rows[:1]) if len(rows) else None
    if first is None:
        what = "holds no images, so there is nothing to draw" if len(rows) else "has no rows"
        raise InputError(f"The {split} split {what}: take another split or source, or leave --out out")
    labels = [str(name) for name in table.label_names[:MOST_CELLS]]
    columns = [str(name) for name in table.attribute_names[:MOST_CELLS]] if known else [""] * 8
    # Enlarged pixels stay squares, so that one sees what the network sees.
    side = max(_drawn(first)[0].size)
    way = Image.Resampling.NEAREST if side <= SIDE else Image.Resampling.BOX
    side = side * (SIDE // side) if side <= SIDE else SIDE
    font = ImageFont.load_default(_FONT)
    cell_width = max(side + _GAP, *(int(font.getlength(name)) + 1 + 2 * _GAP for name in columns))
    left = max(int(font.getlength(name)) + 1 for name in labels) + 3 * _GAP
    top, cell_height = _FONT + 3 * _GAP if known else _GAP, per_cell * (side + 1) + _GAP
    sheet = Image.new("RGB", (left + len(columns) * cell_width, top + len(labels) * cell_height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for column, name in enumerate(columns):
        draw.text((left + column * cell_width, _GAP), name, _INK, font)
    for y, name in enumerate(labels):
        draw.text((_GAP, top + y * cell_height + (cell_height - _GAP - _FONT) // 2), name, _INK, font)
        mine = rows[table.label[rows] == y]
        for column in range(len(columns)):
            own = mine[table.attribute[mine] == column] if known else mine[column * per_cell :]
            places = [(left + column * cell_width, top + y * cell_height + i * (side + 1)) for i in range(per_cell)]
            for x, line in places:
                draw.rectangle((x, line, x + side - 1, line + side - 1), _EMPTY)
            images = _drawn(cast(Tensor, table.inputs.images(own[:per_cell])))
            for image, place in zip(images, places, strict=False):
                sheet.paste(ImageOps.contain(image.convert("RGB"), (side, side), way), place)
    return sheet


def _drawn(images: Tensor) -> list[Image.Image]:
    """Return images (N, 1 or 3, H, W) of bytes as Pillow's."""
    if images.dim() != 4 or images.shape[1] not in (1, 3) or str(images.dtype) != "torch.uint8":
        found = f"{str(images.dtype).removeprefix('torch.')} {tuple(images.shape)}"
        raise ValueError(f"images must be uint8 (N, 1 or 3, H, W), but are {found}")
    arrays = images.cpu().permute(0, 2, 3, 1).numpy()
    return [Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]) for pixels in arrays]
