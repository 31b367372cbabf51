"""What all views of images share: parts of rows, averages over a grid, and small images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d

from logit_correction.errors import InputError
from logit_correction.views.base import EVERYTHING, View, ViewInputs

#: Values (rows x channels x pixels) that are looked at together: so few stay in the processor's cache, which makes
#: views twice as quick as parts of ten times the size.
_VALUES = 1 << 17
#: Sides from which large structure is looked at in an image that was made smaller.
_LARGE = 64
#: Weights of red, green and blue in brightness, after ITU-R BT.601.
_LUMA = (0.299, 0.587, 0.114)


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


def brightness(images: Tensor) -> Tensor:
    """Return the brightness (B, H, W) in 0..255 of images (B, C, H, W), unsigned bytes.

    Three channels are weighted as red, green and blue, others averaged.

    >>> brightness(torch.full((1, 3, 1, 2), 100, dtype=torch.uint8))
    tensor([[[100., 100.]]])
    """
    if images.shape[1] != 3:
        return images.float().mean(1)
    red, green, blue = (images[:, channel].float() * weight for channel, weight in enumerate(_LUMA))
    return red.add_(green).add_(blue)


def halved(images: Tensor) -> Tensor:
    """Return images (B, C, H, W), floats, halved by averaging until their shorter side is below 64 pixels.

    >>> halved(torch.zeros(1, 3, 224, 300)).shape
    torch.Size([1, 3, 56, 75])
    """
    while min(images.shape[2:]) >= _LARGE:
        images = avg_pool2d(images, 2)
    return images


def quantiles(values: Tensor, shares: Sequence[float]) -> Tensor:
    """Return values that given shares of the last axis lie below: (..., P) -> (..., Q), none of them interpolated.

    >>> quantiles(torch.tensor([[3.0, 1.0, 2.0]]), [0, 0.5])
    tensor([[1., 2.]])
    """
    # NumPy sorts short rows several times as fast as PyTorch does.
    in_order = np.sort(values.numpy(), axis=-1)
    return torch.from_numpy(in_order[..., [round(share * (values.shape[-1] - 1)) for share in shares]])


class ImageView(View):
    """A view that looks at the bytes of each image by itself; a subclass writes ``look``.

    Attributes:
        least_side: Images of a shorter side hold so little that the view sees about everything in them.
    """

    needs = "images"
    least_side: int = 0

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        """Return the view where the inputs are images."""
        view, shape = cls(), inputs.image_shape
        if shape is None:
            return []
        if min(shape[1:]) < cls.least_side:
            view.breadth = EVERYTHING
        return [view]

    def can_look(self, inputs: ViewInputs) -> bool:
        """Return whether there are images."""
        return inputs.image_shape is not None

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the features of all rows, (N, F)."""
        return torch.cat([self.look(images) for images in image_parts(inputs)])

    @abstractmethod
    def look(self, images: Tensor) -> Tensor:
        """Return the features (B, F) of the images (B, C, H, W), unsigned bytes."""
