"""Images of rows: as text that a page can hold, and as a contact sheet."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
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
    rows = table.split[split]
    if len(rows) == 0 or table.inputs.images(rows[:1]) is None:
        what = "has no rows" if len(rows) == 0 else "holds no images, so there is nothing to draw"
        raise InputError(f"The {split} split {what}: take another split or source, or leave --out out")
    labels, columns = list(table.label_names)[:MOST_CELLS], list(table.attribute_names)[:MOST_CELLS]
    of_label = [rows[table.label[rows] == y] for y in range(len(labels))]
    if table.has_attributes(split):
        groups = [[mine[table.attribute[mine] == a][:per_cell] for a in range(len(columns))] for mine in of_label]
    else:
        columns = [""] * 8
        groups = [[mine[i * per_cell : (i + 1) * per_cell] for i in range(len(columns))] for mine in of_label]
    cells = [[cast(Tensor, table.inputs.images(one)) for one in of_one] for of_one in groups]
    return contact_sheet(cells, labels, columns, per_cell)


def contact_sheet(
    cells: Sequence[Sequence[Tensor]], row_names: Sequence[str], column_names: Sequence[str], per_cell: int
) -> Image.Image:
    """Draw images in named rows and columns; a cell with too few images is filled up with grey.

    Args:
        cells: For each row and column (n, C, H, W) uint8, n at most ``per_cell``; one or three channels.
        row_names: One name per row.
        column_names: One name per column.
        per_cell: Images of a cell, one below the other.

    Raises:
        ValueError: If the images are no grey or colour images of unsigned bytes.
    """
    drawn = [[_drawn(cell) for cell in row] for row in cells]
    size = next(cell for row in drawn for cell in row if cell)[0].size
    longest = max(size)
    width, height = (max(1, side * (SIDE // longest) if longest <= SIDE else side * SIDE // longest) for side in size)
    font = ImageFont.load_default(_FONT)
    cell_width = max(width + _GAP, *(int(font.getlength(name)) + 1 + 2 * _GAP for name in column_names))
    left = max(int(font.getlength(name)) + 1 for name in row_names) + 3 * _GAP
    top = _FONT + 3 * _GAP if any(column_names) else _GAP
    cell_height = per_cell * (height + 1) + _GAP
    sheet = Image.new("RGB", (left + len(column_names) * cell_width, top + len(row_names) * cell_height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for column, name in enumerate(column_names):
        draw.text((left + column * cell_width, _GAP), name, _INK, font)
    for row, name in enumerate(row_names):
        down = top + row * cell_height
        draw.text((_GAP, down + (cell_height - _GAP - _FONT) // 2), name, _INK, font)
        for column, images in enumerate(drawn[row]):
            for i in range(per_cell):
                x, y = left + column * cell_width, down + i * (height + 1)
                if i < len(images):
                    # Enlarged pixels stay squares, so that one sees what the network sees.
                    way = Image.Resampling.NEAREST if longest <= SIDE else Image.Resampling.BOX
                    sheet.paste(images[i].convert("RGB").resize((width, height), way), (x, y))
                else:
                    draw.rectangle((x, y, x + width - 1, y + height - 1), _EMPTY)
    return sheet


def _drawn(images: Tensor) -> list[Image.Image]:
    """Return images (N, 1 or 3, H, W) of bytes as Pillow's."""
    if images.dim() != 4 or images.shape[1] not in (1, 3) or str(images.dtype) != "torch.uint8":
        found = f"{str(images.dtype).removeprefix('torch.')} {tuple(images.shape)}"
        raise ValueError(f"images must be uint8 (N, 1 or 3, H, W), but are {found}")
    arrays = images.cpu().permute(0, 2, 3, 1).numpy()
    return [Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]) for pixels in arrays]
