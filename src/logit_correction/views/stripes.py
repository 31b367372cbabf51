"""Regular patterns all over an image, such as the lines of a scanner, a screen or a fabric: direction and width."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from logit_correction.views.images import ImageView, brightness, halved, quantiles

#: Pixels from one stripe to the next, and how many directions are told apart.
_PERIODS, _DIRECTIONS = (3.0, 4.0, 5.0, 6.5), 8
#: Side of the filters, in pixels, and the standard deviation of their window.
_SIDE, _WIDTH = 11, 2.75
#: Share of the places that may have less of a pattern. A photo's own edges lie somewhere, stripes everywhere: what the
#: places with the least of a direction still have tells of them.
_SHARE = 0.1
#: Places along the longer side at most, so that large images take no longer.
_PLACES = 12


class Stripes(ImageView):
    """How much of each direction of stripes even those places have that have little of it.

    The energy of Gabor filters (cosine and sine together, so the phase does not matter) of 4 widths and 8 directions at
    up to 12 x 12 places. Of each the logarithm of what a tenth of the places stay below, less its mean over the
    directions: 32 numbers. Images of 64 pixels and more give as many again, averaged to between 32 and 64 pixels.
    """

    name = "stripes"
    sentence = "stripes and grids all over the image: their direction"
    breadth = 1
    least_side = 16

    def look(self, images: Tensor) -> Tensor:
        """Return the energies (B, 32) or (B, 64) of the images (B, C, H, W), unsigned bytes."""
        grey = brightness(images).unsqueeze(1)
        small = halved(grey)
        looks = [_energies(grey)] if small.shape == grey.shape else [_energies(grey), _energies(small)]
        return torch.cat(looks, dim=1)


def _energies(grey: Tensor) -> Tensor:
    """Return the log energy of each width and direction: (B, 1, H, W) in 0..255 -> (B, 32)."""
    stride = max(1, math.ceil((max(grey.shape[2:]) - _SIDE + 1) / _PLACES))
    waves = conv2d(grey, _filters(min(_SIDE, *grey.shape[2:])), stride=stride)
    energy = waves.square_().flatten(2).unflatten(1, (len(_PERIODS), _DIRECTIONS, 2)).sum(3)
    least = quantiles(energy, [_SHARE]).squeeze(3).add_(1).log_()
    return (least - least.mean(2, keepdim=True)).flatten(1)


@lru_cache(maxsize=4)
def _filters(side: int) -> Tensor:
    """Return Gabor filters (64, 1, side, side) without a mean, of length one; cosine and sine of a pattern in turn."""
    axis = torch.arange(side) - (side - 1) / 2
    window = torch.exp(-(axis.square() + axis.square().unsqueeze(1)) / (2 * _WIDTH**2))
    filters = []
    for period in _PERIODS:
        for direction in range(_DIRECTIONS):
            angle = math.pi * direction / _DIRECTIONS
            turns = 2 * math.pi / period * (axis * math.cos(angle) + axis.unsqueeze(1) * math.sin(angle))
            for wave in (turns.cos(), turns.sin()):
                centred = window * (wave - (window * wave).sum() / window.sum())
                filters.append(centred / centred.norm().clamp_min(1e-6))  # one pixel has no direction
    return torch.stack(filters).unsqueeze(1)
