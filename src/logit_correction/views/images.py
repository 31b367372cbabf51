"""Views of images: what they share, and simple summaries: colours, edges of the frame, a thumbnail, light, places."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d

from logit_correction.finding import RICH
from logit_correction.types import ViewInputs
from logit_correction.views.base import View


class ImageView(View):
    """A view that looks at the bytes of each image by itself; a subclass writes ``look``.

    Attributes:
        least_side: Images of a shorter side hold so little that the view would see about everything in them.
    """

    needs = "images, for most views of 16 pixels a side at least"
    least_side: int = 0

    def can_look(self, inputs: ViewInputs) -> bool:
        shape = inputs.image_shape
        return shape is not None and min(shape[1:]) >= self.least_side

    def features(self, inputs: ViewInputs) -> Tensor:
        return torch.cat([self.look(images) for images in image_parts(inputs)])

    @abstractmethod
    def look(self, images: Tensor) -> Tensor:
        """Return the features (B, F) of the images (B, C, H, W), unsigned bytes."""


def image_parts(inputs: ViewInputs, values: int = 1 << 17) -> Iterator[Tensor]:
    """Yield the images of all rows in order, in parts of at most ``values`` values, but of one row at least.

    So few stay in the processor's cache, which makes most views twice as quick as parts of ten times the size.
    """
    for rows in inputs.chunks():
        images = inputs.images(rows)
        assert images is not None
        yield from images.split(max(1, values // max(1, images[0:1].numel())))


def brightness(images: Tensor) -> Tensor:
    """Return the brightness (B, H, W) in 0..255 of images (B, C, H, W), unsigned bytes.

    Three channels are weighted as red, green and blue, after ITU-R BT.601, others averaged.
    """
    if images.shape[1] != 3:
        return images.float().mean(1)
    red, green, blue = (images[:, channel].float() * weight for channel, weight in enumerate((0.299, 0.587, 0.114)))
    return red.add_(green).add_(blue)


def halved(images: Tensor) -> Tensor:
    """Return images (B, C, H, W), floats, halved by averaging until their shorter side is below 64 pixels."""
    while min(images.shape[2:]) >= 64:
        images = avg_pool2d(images, 2)
    return images


def quantiles(values: Tensor, shares: Sequence[float]) -> Tensor:
    """Return values that given shares of the last axis lie below: (..., P) -> (..., Q), none of them interpolated."""
    # NumPy sorts short rows several times as fast as PyTorch does.
    in_order = np.sort(values.numpy(), axis=-1)
    return torch.from_numpy(in_order[..., [round(share * (values.shape[-1] - 1)) for share in shares]])


class Thumbnail(ImageView):
    """The image averaged to 4 x 4 points: 16 numbers for each channel."""

    name = "thumbnail"
    breadth = RICH
    least_side = 16

    def look(self, images: Tensor) -> Tensor:
        return adaptive_avg_pool2d(images.float(), 4).flatten(1) / 255


class Colour(ImageView):
    """Mean, standard deviation, extremes and five quantiles of each channel: 27 numbers of a colour image."""

    name = "colour"

    def look(self, images: Tensor) -> Tensor:
        """Return (B, 9 C) in [0, 1]: the means of all channels, then deviations, maxima, minima and quantiles."""
        flat = images.flatten(2)
        in_order = torch.from_numpy(np.sort(flat.numpy(), axis=-1, kind="stable"))  # of bytes, ten times as quick
        # Quantiles are linear between neighbouring pixels, as ``torch.quantile`` has them.
        position = torch.tensor((0.05, 0.25, 0.5, 0.75, 0.95), dtype=torch.float64) * (flat.shape[2] - 1)
        below, above = (in_order[..., place.long()].double() for place in (position.floor(), position.ceil()))
        inner = torch.lerp(below, above, position - position.floor()).transpose(1, 2).flatten(1)
        return (torch.cat([_moments(flat.double()), in_order[..., -1], in_order[..., 0], inner], dim=1) / 255).float()


def _moments(points: Tensor) -> Tensor:
    """Return means, then deviations (B, 2 C) of points (B, C, P); they are whole numbers, so that sums are exact."""
    mean = points.mean(2)
    return torch.cat([mean, (points.square().mean(2) - mean.square()).clamp_min(0).sqrt()], dim=1)


class Border(ImageView):
    """Mean and standard deviation of each channel in a frame, in the centre, and the difference of the two.

    The frame is an eighth of the shorter side wide, and one pixel at least. With the same of its outer half these are
    24 numbers of a colour image.
    """

    name = "border"
    least_side = 3  # else there is no centre

    def look(self, images: Tensor) -> Tensor:
        """Return (B, 8 C): frame, centre, frame less centre, and the outer half of the frame.

        Each is means, then standard deviations.
        """
        side = min(images.shape[2:])
        down, across = (torch.minimum(place, place.flip(0)) for place in map(torch.arange, images.shape[2:]))
        depth, points = torch.minimum(down.unsqueeze(1), across), images.double()
        in_frame, in_outer = depth < max(1, round(side / 8)), depth < max(1, round(side / 16))
        frame, centre, outer = (_moments(points[..., place]) for place in (in_frame, ~in_frame, in_outer))
        return (torch.cat([frame, centre, frame - centre, outer], dim=1) / 255).float()


class Light(ImageView):
    """The slope of brightness from left to right and from top to bottom, by 28 statistics that few edges do not move.

    Light from a side multiplies brightness by a little more from each pixel to the next, everywhere; the edges of
    things are great and go either way. So of the differences of the logarithm between pixels 1 and 3 apart, in both
    directions: the quartiles, and the mean after the differences are bounded, softly, at four slopes. Images of 64
    pixels and more are averaged to between 32 and 64.
    """

    name = "light"
    least_side = 16

    def look(self, images: Tensor) -> Tensor:
        # 4 is added to bytes before the logarithm, so that rounding of the dark ones does not count.
        light = halved(brightness(images).unsqueeze(1)).squeeze(1).add(4).log_()
        looks: list[Tensor] = []
        for step in (1, 3):
            for turned in (light, light.transpose(1, 2)):
                slope = (turned[:, :, step:] - turned[:, :, :-step]).flatten(1) / step
                looks += quantiles(slope, (0.25, 0.5, 0.75)).unbind(1)
                looks += [(slope / edge).tanh_().mean(1) for edge in (0.01, 0.03, 0.1, 0.3)]
        return torch.stack(looks, dim=1)


class Places(ImageView):
    """The colours of one cell of a grid of 4 x 4, and where in it brightness changes.

    Of each channel of the cell: mean, standard deviation, least and greatest value. Of the brightness, averaged to
    8 x 8 points: the absolute differences of neighbours, which outline a mark whatever lies behind it. 124 numbers of a
    colour image.
    """

    breadth = 0
    least_side = 16  # cells of smaller images hold a few points each, and together they are the image
    together = 4  # the corners; nine of the sixteen cells told ten handwritten digits apart
    grid = 4

    def __init__(self, row: int, column: int) -> None:
        """Choose the cell: row 1..4 from the top, column 1..4 from the left."""
        self.name, self.cell = f"places:{row},{column}", (row - 1, column - 1)

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        cells = [cls(*place) for place in product(range(1, cls.grid + 1), repeat=2)]
        return [cell for cell in cells if cell.can_look(inputs)]

    @classmethod
    def features_together(cls, members: Sequence[View], inputs: ViewInputs) -> list[Tensor]:
        """Read the images once, not once for each cell."""
        cells = [cell for cell in members if isinstance(cell, Places)]
        parts = [[cell.look(images) for cell in cells] for images in image_parts(inputs, values=1 << 19)]
        return [torch.cat(of_cell) for of_cell in zip(*parts, strict=True)]

    def look(self, images: Tensor) -> Tensor:
        sides = zip(self.cell, images.shape[2:], strict=True)
        down, across = (slice(i * side // self.grid, (i + 1) * side // self.grid) for i, side in sides)
        part = images[:, :, down, across].float()
        flat = part.flatten(2)
        mean = flat.mean(2)
        deviation = (flat - mean.unsqueeze(2)).square().mean(2).sqrt()
        points = adaptive_avg_pool2d(brightness(part).unsqueeze(1), 8)
        changes = [points.diff(dim=axis).abs_().flatten(1) for axis in (2, 3)]
        return torch.cat([mean, deviation, flat.amin(2), flat.amax(2), *changes], dim=1) / 255
