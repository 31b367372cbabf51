"""What all views of images share: parts of rows, averages over a grid, and small images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from logit_correction.errors import InputError
from logit_correction.views.base import EVERYTHING, View, ViewInputs

#: Values (rows x channels x pixels) that are looked at together: so few stay in the processor's cache, which makes
#: views twice as quick as parts of ten times the size.
_VALUES = 1 << 17


def image_parts(inputs: ViewInputs, values: int = _VALUES) -> Iterator[Tensor]:
    """Yield the images of all rows in order, in parts of at most ``values`` values, but of one row at least.

    Raises:
        InputError: If the inputs are no images.
    """
    for rows in inputs.image_chunks():
        images = inputs.images(rows)
        if images is None:
            raise InputError("a view of images is asked for, but the inputs are no images")
        yield from images.split(max(1, values // max(1, images[0:1].numel())))


def area_average(images: Tensor, height: int, width: int) -> Tensor:
    """Average each image over the cells of a grid.

    Args:
        images: (B, C, H, W) unsigned bytes or floats.
        height: Rows of the grid.
        width: Columns of the grid. Where they do not divide the image's, neighbouring cells share pixels.

    Returns:
        (B, C, height, width) float32 in the units of ``images``.

    >>> area_average(torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4), 2, 2)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    return adaptive_avg_pool2d(images.float(), (height, width))


class ImageView(View):
    """A view that looks at the bytes of each image by itself; a subclass writes ``look``.

    Attributes:
        least_side: Images of a shorter side hold so little that the view sees about everything in them.
    """

    least_side: int = 0

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        """Return the view where the inputs are images."""
        return [] if inputs.image_shape is None else [cls().for_shape(inputs.image_shape)]

    def for_shape(self, shape: tuple[int, int, int]) -> ImageView:
        """Return the view itself, told how large the images are."""
        if min(shape[1:]) < self.least_side:
            self.breadth = EVERYTHING
        return self

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the features of all rows, (N, F)."""
        return torch.cat([self.look(images) for images in image_parts(inputs)])

    @abstractmethod
    def look(self, images: Tensor) -> Tensor:
        """Return the features (B, F) of the images (B, C, H, W), unsigned bytes."""
