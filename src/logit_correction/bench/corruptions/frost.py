"""Frost on a window: a texture that is computed, since the photographs of CIFAR-10-C are not ours to give away."""

from __future__ import annotations

import numpy as np

from logit_correction.bench.corruptions import geometry
from logit_correction.bench.corruptions.streams import Floats, Streams

#: Weights of the image and of the frost.
FROST = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))

#: Colours of bare glass and of ice.
GLASS, ICE = np.array([52, 78, 112]) / 255, np.array([232, 243, 252]) / 255


def frost(images: Floats, severity: int, streams: Streams) -> Floats:
    """Mix a x + b f with a frost texture f, (a, b) = (1, .2), (1, .3), (.9, .4), (.85, .4), (.75, .45).

    CIFAR-10-C cuts f out of photographs of frosted windows. Here f is ``frost_texture``, so that numbers on
    this corruption come close to published ones without being the same.
    """
    image, ice = FROST[severity - 1]
    height, width = images.shape[1:3]
    texture = frost_texture(streams, height, width)[..., None]
    return image * images + ice * (GLASS + (ICE - GLASS) * texture)


def frost_texture(streams: Streams, height: int, width: int) -> Floats:
    """Return the thickness of ice in [0, 1], (N, height, width).

    Needles of ice grow along three directions 60 degrees apart, turned at random in each image and bent a
    little; grains lie between them, and some regions of the glass are covered more than others.
    """
    turn = np.pi * streams.uniform(1)[:, 0]
    white = np.fft.rfft2(streams.normal(7, height, width))
    down = np.fft.fftfreq(height)[:, None]
    right = np.fft.rfftfreq(width)
    frequency = np.hypot(down, right)
    smooth = np.exp(-((frequency / 0.06) ** 2))
    cover, bend_down, bend_right = (_standard(white[:, i] * smooth, height, width) for i in range(3))
    grains = _standard(white[:, 3] * frequency**0.5, height, width)
    needles = np.full(cover.shape, -np.inf)
    for branch in range(3):
        angle = (turn + branch * np.pi / 3)[:, None, None]
        along = right * np.cos(angle) + down * np.sin(angle)
        across = down * np.cos(angle) - right * np.sin(angle)
        # Long in one direction, fine in the other: low frequencies along, high ones across.
        spectrum = np.exp(-((along / 0.065) ** 2) - (across / 0.32) ** 2) * np.abs(across)
        needles = np.maximum(needles, _standard(white[:, 4 + branch] * spectrum, height, width))
    y, x = np.meshgrid(np.arange(height, dtype=np.float64), np.arange(width), indexing="ij")
    bent = geometry.sample(needles[..., None], y + 1.2 * bend_down, x + 1.2 * bend_right, half_sample=True)[..., 0]
    return 1 / (1 + np.exp(-(1.7 * bent + 0.3 * grains + 1.2 * cover - 1.6)))


def _standard(spectrum: np.ndarray, height: int, width: int) -> Floats:
    """Return the field of a spectrum with mean 0 and standard deviation 1 in each image."""
    field = np.fft.irfft2(spectrum, s=(height, width))
    field -= field.mean(axis=(1, 2), keepdims=True)
    return np.asarray(field / np.maximum(field.std(axis=(1, 2), keepdims=True), 1e-12))
