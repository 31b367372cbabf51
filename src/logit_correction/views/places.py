"""Each cell of a grid over the image alone: it catches a mark in one place and tells a person where to look."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor

from logit_correction.views.base import EVERYTHING, View, ViewInputs
from logit_correction.views.images import ImageView, area_average, brightness, image_parts

#: Rows and columns of the grid.
_GRID = 4
#: Rows and columns of points in a cell between which changes of brightness are looked at.
_POINTS = 8
#: The cells' names in words; the others are told by their numbers.
_WORDS = {
    (1, 1): "the cell in the top left corner",
    (1, _GRID): "the cell in the top right corner",
    (_GRID, 1): "the cell in the bottom left corner",
    (_GRID, _GRID): "the cell in the bottom right corner",
}


class Places(ImageView):
    """The colours of one cell of a grid of 4 x 4, and where in it brightness changes.

    Of each channel of the cell: mean, standard deviation, least and greatest value. Of the brightness, averaged to
    8 x 8 points: the absolute differences of neighbours, which outline a mark whatever lies behind it. 124 numbers of a
    colour image.
    """

    sentence = "one cell of a grid of 4 x 4 over the image"
    breadth = 0
    least_side = 16  # cells of smaller images hold a few points each, and together they are the image
    together = 4  # the corners; nine of the sixteen cells told ten handwritten digits apart

    def __init__(self, row: int, column: int, shared: _Shared | None = None) -> None:
        """Choose the cell.

        Args:
            row: 1..4 from the top.
            column: 1..4 from the left.
            shared: Where the cells of one grid keep what they looked at together; by default the cell is alone.
        """
        self.name = f"places:{row},{column}"
        self.sentence = f"{_in_words(row, column)} (row {row}, column {column} of a grid of {_GRID} x {_GRID})"
        self._cell = (row - 1, column - 1)
        self._shared = shared
        if shared is not None:
            shared.cells.add(self)

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        """Return the 16 cells where the inputs are images."""
        if inputs.image_shape is None:
            return []
        shared = _Shared()
        cells: list[View] = [cls(row, column, shared) for row in range(1, _GRID + 1) for column in range(1, _GRID + 1)]
        if min(inputs.image_shape[1:]) < cls.least_side:
            for cell in cells:
                cell.breadth = EVERYTHING
        return cells

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_shared": None}  # a copy or a cell read back from a file is alone

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the numbers of the cell of all rows, (N, 4 C + 112) in [0, 1]."""
        return super().features(inputs) if self._shared is None else self._shared.take(inputs, self)

    def look(self, images: Tensor) -> Tensor:
        """Return the numbers (B, 4 C + 112) in [0, 1] of the cell of the images (B, C, H, W), unsigned bytes."""
        height, width = (_span(index, length) for index, length in zip(self._cell, images.shape[2:], strict=True))
        part = images[:, :, height, width].float()
        flat = part.flatten(2)
        mean = flat.mean(2)
        deviation = (flat - mean.unsqueeze(2)).square().mean(2).sqrt()
        points = area_average(brightness(part).unsqueeze(1), _POINTS, _POINTS)
        changes = [points.diff(dim=axis).abs_().flatten(1) for axis in (2, 3)]
        return torch.cat([mean, deviation, flat.amin(2), flat.amax(2), *changes], dim=1) / 255


class _Shared:
    """What the cells of one grid look at together: the images are read once, not once for each cell.

    Only cells that somebody still holds are looked at. The numbers of each are kept until it takes them, and only of
    the inputs asked for last.

    Attributes:
        cells: The cells of the grid.
    """

    def __init__(self) -> None:
        self.cells: weakref.WeakSet[Places] = weakref.WeakSet()
        self._inputs: weakref.ref[ViewInputs] | None = None
        self._found: dict[str, Tensor] = {}

    def take(self, inputs: ViewInputs, cell: Places) -> Tensor:
        """Return one cell's numbers (N, 4 C + 112), and forget them."""
        same = self._inputs is not None and self._inputs() is inputs
        if not same or cell.name not in self._found:
            cells = list(self.cells)
            parts: dict[str, list[Tensor]] = {other.name: [] for other in cells}
            for images in image_parts(inputs, values=1 << 19):
                for other in cells:
                    parts[other.name].append(other.look(images))
            self._found = {name: torch.cat(parts.pop(name)) for name in list(parts)}
            self._inputs = weakref.ref(inputs)
        return self._found.pop(cell.name)


def _in_words(row: int, column: int) -> str:
    """Name a cell.

    >>> _in_words(1, 4), _in_words(1, 2), _in_words(2, 1), _in_words(2, 3)
    ('the cell in the top right corner', 'a cell at the top edge', 'a cell at the left edge', 'a cell near the centre')
    """
    if (row, column) in _WORDS:
        return _WORDS[row, column]
    for edge, here in (("top", row == 1), ("bottom", row == _GRID), ("left", column == 1), ("right", column == _GRID)):
        if here:
            return f"a cell at the {edge} edge"
    return "a cell near the centre"


def _span(index: int, length: int) -> slice:
    """Return the pixels of one row or column of cells; they overlap only where there are fewer pixels than cells."""
    start = min(index * length // _GRID, length - 1)
    return slice(start, max(start + 1, (index + 1) * length // _GRID))
