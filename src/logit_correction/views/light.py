"""From which side an image is lit: what brightness does from pixel to pixel, over all of the image."""

from __future__ import annotations

import torch
from torch import Tensor

from logit_correction.views.images import ImageView, brightness, halved, quantiles

#: Pixels between the neighbours that are compared.
_STEPS = (1, 3)
#: Slopes, in units of the logarithm a pixel, beyond which a difference counts as an edge of a thing and no longer more.
_EDGES = (0.01, 0.03, 0.1, 0.3)
#: Shares of the slopes that lie below.
_SHARES = (0.25, 0.5, 0.75)
#: Added to bytes before the logarithm, so that rounding of the dark ones does not count.
_DARK = 4


class Light(ImageView):
    """The slope of brightness from left to right and from top to bottom, by statistics that few edges do not move.

    Light from a side multiplies brightness by a little more from each pixel to the next, everywhere; the edges of
    things are great and go either way. So of the differences of the logarithm between pixels 1 and 3 apart, in both
    directions: the quartiles, and the mean after the differences are bounded, softly, at four widths. 28 numbers.
    Images of 64 pixels and more are averaged to between 32 and 64.
    """

    name = "light"
    sentence = "the side that the image is lit from: how brightness rises and falls across all of it"
    breadth = 1
    least_side = 16

    def look(self, images: Tensor) -> Tensor:
        """Return the slopes (B, 28) of the images (B, C, H, W), unsigned bytes."""
        light = halved(brightness(images).unsqueeze(1)).squeeze(1).add(_DARK).log_()
        looks: list[Tensor] = []
        for step in _STEPS:
            for turned in (light, light.transpose(1, 2)):
                apart = min(step, turned.shape[2] - 1)  # one pixel has no slope
                slope = (turned[:, :, apart:] - turned[:, :, : turned.shape[2] - apart]).flatten(1) / step
                looks += quantiles(slope, _SHARES).unbind(1)
                looks += [(slope / edge).tanh_().mean(1) for edge in _EDGES]
        return torch.stack(looks, dim=1)
