"""Weather: snow, fog and spatter; frost has a file of its own."""

from __future__ import annotations

import numpy as np

from logit_correction.bench.corruptions import geometry
from logit_correction.bench.corruptions.streams import Floats, Streams

#: Mean and spread of the flakes' brightness, zoom, threshold, radius and sigma of their motion, weight of the image.
SNOW = (
    (0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
    (0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
)
#: Amount, and how much weaker each finer level is.
FOG = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))
#: Mean and spread of the liquid, its smoothness and threshold, weight of water or softness of mud.
SPATTER = (
    (0.62, 0.1, 0.7, 0.7, 0.5),
    (0.65, 0.1, 0.8, 0.7, 0.5),
    (0.65, 0.3, 1.0, 0.69, 0.5),
    (0.65, 0.1, 0.7, 0.69, 0.6),
    (0.65, 0.1, 0.5, 0.68, 0.6),
)
#: Severities from this one on are spattered with mud rather than with water.
FIRST_MUD = 4
WATER, MUD = np.array([175, 238, 238]) / 255, np.array([63, 42, 20]) / 255

#: Brightness of red, green and blue in grey.
GREY = np.array([0.299, 0.587, 0.114])


def snow(images: Floats, severity: int, streams: Streams) -> Floats:
    """Streaks of white that fall at 45 to 135 degrees, twice, over a whitened image."""
    mean, spread, factor, threshold, radius, sigma, weight = SNOW[severity - 1]
    height, width = images.shape[1:3]
    flakes = mean + spread * streams.normal(height, width)
    flakes = geometry.zoom_matrix(height, factor) @ flakes @ geometry.zoom_matrix(width, factor).T
    flakes = np.clip(np.where(flakes < threshold, 0, flakes), 0, 1)
    flakes = geometry.motion_blur(flakes, int(radius), sigma, 45 * streams.symmetric(1)[:, 0] - 90)
    pale = np.maximum(images, (images @ GREY * 1.5 + 0.5)[..., None])
    return weight * images + (1 - weight) * pale + (flakes + flakes[:, ::-1, ::-1])[..., None]


def fog(images: Floats, severity: int, streams: Streams) -> Floats:
    """A bank of fog over the image, darkened so that its brightest value stays."""
    amount, decay = FOG[severity - 1]
    height, width = images.shape[1:3]
    size = 1 << (max(height, width) - 1).bit_length()
    bank = plasma(streams.symmetric(size, size), decay)[:, :height, :width, None]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    return (images + amount * bank) * brightest / (brightest + amount)


def plasma(noise: Floats, decay: float) -> Floats:
    """Return fractal clouds in [0, 1] by the diamond-square scheme on a torus.

    Every point is the mean of four points of the coarser level plus noise, and noise is ``decay`` squared times
    weaker from level to level.

    Args:
        noise: (N, S, S) numbers in (-1, 1), one for each point; S is a power of two.
        decay: Greater than one: smooth; near one: rough.

    Returns:
        (N, S, S).
    """
    size = noise.shape[1]
    clouds = np.zeros_like(noise)
    step, strength = size, 1.0
    while step > 1:
        half = step // 2
        coarse, middle = np.s_[:, ::step, ::step], np.s_[:, half::step, half::step]
        below = clouds[coarse] + np.roll(clouds[coarse], -1, axis=1)
        clouds[middle] = (below + np.roll(below, -1, axis=2)) / 4 + strength * noise[middle]
        for axis, edge in ((1, np.s_[:, ::step, half::step]), (2, np.s_[:, half::step, ::step])):
            corners = clouds[coarse] + np.roll(clouds[coarse], -1, axis=3 - axis)
            centres = clouds[middle] + np.roll(clouds[middle], 1, axis=axis)
            clouds[edge] = (corners + centres) / 4 + strength * noise[edge]
        step, strength = half, strength / decay**2
    clouds -= clouds.min(axis=(1, 2), keepdims=True)
    return np.asarray(clouds / clouds.max(axis=(1, 2), keepdims=True))


def spatter(images: Floats, severity: int, streams: Streams) -> Floats:
    """Drops of water up to severity 3, of mud from 4 on."""
    mean, spread, smoothness, threshold, weight = SPATTER[severity - 1]
    liquid = mean + spread * streams.normal(*images.shape[1:3])
    liquid = geometry.gaussian_blur(liquid, smoothness)
    if severity < FIRST_MUD:
        return images + weight * _gloss(np.where(liquid < threshold, 0, liquid))[..., None] * WATER
    mud = geometry.gaussian_blur((liquid > threshold).astype(np.float64), weight)[..., None]
    mud = np.where(mud < 0.8, 0, mud)
    return images * (1 - mud) + MUD * mud


def _gloss(liquid: Floats) -> Floats:
    """Return how strongly drops (N, H, W), 0 where it is dry, reflect: in [0, 1], embossed away from their rims."""
    from scipy.ndimage import binary_erosion, correlate, distance_transform_edt, uniform_filter

    wet = liquid > 0
    rim = wet & ~binary_erosion(wet, np.ones((1, 3, 3), bool), border_value=1)
    # Images lie so far apart along the first axis that none is near to the rims of another.
    away = distance_transform_edt(~rim, sampling=(1e6, 1, 1)) if rim.any() else np.full(rim.shape, 20.0)
    away = np.floor(uniform_filter(np.minimum(away, 20), (0, 3, 3), mode="mirror") + 1e-9).astype(np.int64)
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])[None]
    relief = np.clip(correlate(_equalized(away), emboss, mode="mirror"), 0, 255)
    light = liquid * uniform_filter(relief, (0, 3, 3), mode="mirror")
    return np.asarray(light / np.maximum(light.max(axis=(1, 2), keepdims=True), 1e-9))


def _equalized(levels: np.ndarray) -> Floats:
    """Spread the whole numbers (N, H, W), 0..20, of each image over 0..255 by their ranks."""
    counts = (levels[..., None] == np.arange(21)).sum(axis=(1, 2))
    below = counts.cumsum(axis=1)
    lowest = np.take_along_axis(below, (counts > 0).argmax(axis=1)[:, None], axis=1)
    total = levels.shape[1] * levels.shape[2]
    scale = np.rint(255 * (below - lowest) / np.maximum(total - lowest, 1))
    return np.take_along_axis(scale, levels.reshape(len(levels), -1), axis=1).reshape(levels.shape)
