"""How much of an image is coarse and how much is fine, and traces of compression: blur, noise, JPEG."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from logit_correction.views.images import ImageView, brightness

#: Bands of the power spectrum at most.
_BANDS = 16
#: Side of the blocks that JPEG compresses by themselves.
_BLOCK = 8
#: Power of rounding to bytes, for an image in [0, 1]: less than that tells nothing.
_FLOOR = 1e-6
#: Added to differences of neighbours, in bytes.
_LEAST = 0.25


class Spectrum(ImageView):
    """The power spectrum of the grey image, averaged over directions, and how its neighbouring pixels differ.

    For images of 32 pixels and more 38 numbers: the logarithm of the mean power in 16 bands of rising frequency; the
    share of power above half the greatest frequency, and its logarithm; the logarithm of the mean absolute difference
    of neighbours in both directions; the same at each of the eight phases of a grid of 8 pixels, relative to the mean
    of all; and that across the borders of the blocks relative to that inside, which rises with JPEG compression.
    """

    name = "spectrum"
    sentence = "blur, noise and compression: how much of the image is coarse and how much is fine"
    breadth = 1
    least_side = 16

    def look(self, images: Tensor) -> Tensor:
        """Return the statistics of the images.

        Args:
            images: (B, C, H, W) unsigned bytes. Three channels are weighted as red, green and blue.

        Returns:
            (B, 22 + bands): bands is half the shorter side, from 1 to 16.
        """
        grey = brightness(images)
        return torch.cat([_power(grey / 255), _blocks(grey), _blocks(grey.transpose(1, 2))], dim=1)


def _power(grey: Tensor) -> Tensor:
    """Return log power in bands and the share of fine detail: (B, H, W) in [0, 1] -> (B, bands + 2)."""
    window, bands, every, fine = _window(*grey.shape[1:])
    # The window fades the edges out: they would look like fine detail where the image does not repeat.
    centred = (grey - grey.mean((1, 2), keepdim=True)) * window
    spectrum = torch.view_as_real(torch.fft.rfft2(centred)).square_().sum(3).flatten(1)
    share = (spectrum @ fine + _FLOOR * fine.sum()) / (spectrum @ every + _FLOOR * every.sum().clamp_min(1))
    share = share.clamp_min(_FLOOR).unsqueeze(1)
    return torch.cat([(spectrum @ bands + _FLOOR).log(), share, share.log()], dim=1)


@lru_cache(maxsize=8)
def _window(height: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what a size of images needs; S = H * (W // 2 + 1) is the length of its spectrum.

    Returns:
        Window (H, W) whose squares add up to 1, so that white noise has its variance as power in each frequency;
        (S, bands) weights that average a spectrum over each band; (S,) weights that add up all its frequencies, and
        those above half the greatest.
    """
    sides = [torch.hann_window(length + 2, periodic=False)[1:-1] for length in (height, width)]
    window = sides[0].unsqueeze(1) * sides[1]
    window = window / window.square().sum().sqrt()
    down, across = torch.fft.fftfreq(height).unsqueeze(1), torch.fft.rfftfreq(width)
    radius = (down.square() + across.square()).sqrt().flatten()
    # Half of the frequencies are left out as mirror images; those of the first and last column have theirs inside.
    every = torch.full((height, width // 2 + 1), 2.0)
    every[:, 0] = 1
    if width % 2 == 0:
        every[:, -1] = 1
    every = every.flatten()
    every[0] = 0  # the mean is no frequency
    count = min(_BANDS, max(1, min(height, width) // 2))
    band = (radius * 2 * count).round().long().sub(1).clamp(0, count - 1)
    bands = one_hot(band, count) * every.unsqueeze(1)
    return window, bands / bands.sum(0).clamp_min(1), every, every * (radius > 0.25)


def _blocks(grey: Tensor) -> Tensor:
    """Return differences of neighbours along the last axis: (B, H, W) in 0..255 -> (B, 10).

    Logarithms of: their mean; their mean at each phase of the grid relative to it; at block borders relative to inside.
    """
    width = grey.shape[2]
    if width < 2:
        return grey.new_zeros(grey.shape[0], 2 + _BLOCK)
    profile = grey.diff(dim=2).abs_().mean(1)
    phase = torch.arange(width - 1) % _BLOCK
    weight = one_hot(phase, _BLOCK).float()
    present = weight.sum(0) > 0
    mean = profile.mean(1, keepdim=True)
    at_phase = torch.where(present, profile @ (weight / weight.sum(0).clamp_min(1)), mean)
    border, inside = at_phase[:, -1:], at_phase[:, :-1].mean(1, keepdim=True)
    level, phases, edge, rest = ((value + _LEAST).log() for value in (mean, at_phase, border, inside))
    return torch.cat([level, phases - level, edge - rest], dim=1)
