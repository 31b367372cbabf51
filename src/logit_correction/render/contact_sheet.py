"""A contact sheet: small images in a grid with names, as one PNG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

#: Longer side of an image on the sheet: smaller ones are enlarged by a whole factor, larger ones shrunk.
SIDE = 64

_GAP, _FONT = 4, 12
_PAPER, _INK, _EMPTY = (255, 255, 255), (29, 36, 48), (233, 235, 238)


def contact_sheet(
    cells: Sequence[Sequence[Tensor]], row_names: Sequence[str], column_names: Sequence[str], per_cell: int
) -> Image.Image:
    """Draw images in named rows and columns; a cell with too few images is filled up with grey.

    Args:
        cells: For each row and column (n, C, H, W) uint8, n at most ``per_cell``; one or three channels.
        row_names: One name per row.
        column_names: One name per column.
        per_cell: Images of a cell, one below the other.

    Returns:
        A Pillow image.

    Raises:
        ValueError: If the images are no grey or colour images of unsigned bytes.
    """
    example = next(cell for row in cells for cell in row if len(cell))
    if example.shape[1] not in (1, 3) or str(example.dtype) != "torch.uint8":
        raise ValueError(f"images must be uint8 (n, 1 or 3, H, W), but are {example.dtype} {tuple(example.shape)}")
    font = ImageFont.load_default(_FONT)
    width, height = _display_size(example.shape[3], example.shape[2])
    cell_width = max(width + _GAP, *(_length(font, name) + 2 * _GAP for name in column_names))
    left = max(_length(font, name) for name in row_names) + 3 * _GAP
    top = _FONT + 3 * _GAP if any(column_names) else _GAP
    cell_height = per_cell * (height + 1) + _GAP
    size = (left + len(column_names) * cell_width, top + len(row_names) * cell_height)
    sheet = Image.new("RGB", size, _PAPER)
    draw = ImageDraw.Draw(sheet)
    for column, name in enumerate(column_names):
        draw.text((left + column * cell_width, _GAP), name, _INK, font)
    for row, name in enumerate(row_names):
        down = top + row * cell_height
        draw.text((_GAP, down + (cell_height - _GAP - _FONT) // 2), name, _INK, font)
        for column, cell in enumerate(cells[row]):
            for i in range(per_cell):
                place = (left + column * cell_width, down + i * (height + 1))
                if i < len(cell):
                    sheet.paste(_scaled(cell[i], (width, height)), place)
                else:
                    draw.rectangle((*place, place[0] + width - 1, place[1] + height - 1), _EMPTY)
    return sheet


def _display_size(width: int, height: int) -> tuple[int, int]:
    longest = max(width, height)
    if longest <= SIDE:
        return width * (SIDE // longest), height * (SIDE // longest)
    return max(1, width * SIDE // longest), max(1, height * SIDE // longest)


def _scaled(image: Tensor, size: tuple[int, int]) -> Image.Image:
    values = image.cpu().permute(1, 2, 0).numpy()
    drawn = Image.fromarray(values if values.shape[2] == 3 else values[:, :, 0]).convert("RGB")
    # Enlarged pixels stay squares, so that one sees what the network sees.
    enlarged = size[0] >= drawn.width
    return drawn.resize(size, Image.Resampling.NEAREST if enlarged else Image.Resampling.BOX)


def _length(font: Any, name: str) -> int:
    return int(font.getlength(name)) + 1
