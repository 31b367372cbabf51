"""Ten corruptions of CIFAR-10-C (Hendrycks and Dietterich, 2019) for 32x32 images: those published as type 0.

Images are whole batches of unsigned bytes. The parameters of severity 1 to 5 are those published for 32x32
images; the code and its random numbers are our own, so images are alike but not the same, byte for byte.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from logit_correction.seeds import derive_seed
from logit_correction.threads import map_in_threads

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

#: Raised when the same options give other images than before.
RECIPE = 1

#: Images that are corrupted at once; more need more memory and are not faster.
_CHUNK = 250

GLASS, ICE = np.array([52, 78, 112]) / 255, np.array([232, 243, 252]) / 255
WATER, MUD = np.array([175, 238, 238]) / 255, np.array([63, 42, 20]) / 255

#: Brightness of red, green and blue in grey.
GREY = np.array([0.299, 0.587, 0.114])


def corrupt(images: NDArray[np.uint8], name: str, severity: int, index: Integers, seed: int = 0) -> NDArray[np.uint8]:
    """Corrupt images; each result depends on its image, its number and the options alone.

    The random numbers of an image come from a stream of its own and are the same at every severity.

    >>> grey = np.full((1, 32, 32, 3), 100, np.uint8)
    >>> corrupt(grey, "Brightness", 1, np.array([0]))[0, 0, 0].tolist()
    [113, 113, 113]
    """
    change, parameters = CORRUPTIONS[name]
    result, key = np.empty_like(images), derive_seed(seed, "corruption", name)
    for start in range(0, len(images), _CHUNK):
        rows = slice(start, start + _CHUNK)
        changed = change(images[rows] / 255, RandomStreams(key, index[rows]), *parameters[severity - 1])
        result[rows] = np.rint(np.clip(changed, 0, 1) * 255).astype(np.uint8)
    return result


def corrupt_all(
    images: NDArray[np.uint8],
    attribute: Integers,
    names: Sequence[str],
    severity: int,
    seed: int = 0,
    workers: int = 1,
) -> NDArray[np.uint8]:
    """Corrupt every image (M, 3, H, W) in its own way, by the name of its attribute (M,); image m has number m."""
    result = np.empty_like(images)

    def work(piece: tuple[str, Integers]) -> None:
        name, rows = piece
        upright = np.ascontiguousarray(images[rows].transpose(0, 2, 3, 1))
        result[rows] = corrupt(upright, name, severity, rows, seed).transpose(0, 3, 1, 2)

    pieces = []
    for value, name in enumerate(names):
        rows = (attribute == value).nonzero()[0]
        pieces += [(name, rows[start : start + _CHUNK]) for start in range(0, len(rows), _CHUNK)]
    for _ in map_in_threads(work, pieces, "corrupting images, once", len(images), workers):
        pass
    return result


# Each corruption takes images (N, H, W, 3) in [0, 1], their random numbers, and the parameters of a severity.


def snow(
    images: Floats,
    streams: RandomStreams,
    mean: float,
    spread: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    weight: float,
) -> Floats:
    """Streaks of white that fall at 45 to 135 degrees, twice, over a whitened image."""
    height, width = images.shape[1:3]
    flakes = mean + spread * streams.normal(height, width)
    flakes = zoom_matrix(height, zoom) @ flakes @ zoom_matrix(width, zoom).T
    flakes = np.clip(np.where(flakes < threshold, 0, flakes), 0, 1)
    flakes = motion_blur(flakes, radius, sigma, 45 * streams.symmetric(1)[:, 0] - 90)
    pale = np.maximum(images, (images @ GREY * 1.5 + 0.5)[..., None])
    return weight * images + (1 - weight) * pale + (flakes + flakes[:, ::-1, ::-1])[..., None]


def frost(images: Floats, streams: RandomStreams, image: float, ice: float) -> Floats:
    """Ice on a window: a texture that is computed, where CIFAR-10-C cuts it out of photographs, not ours to give away.

    So numbers on this corruption come close to published ones without being the same.
    """
    texture = frost_texture(streams, *images.shape[1:3])[..., None]
    return image * images + ice * (GLASS + (ICE - GLASS) * texture)


def frost_texture(streams: RandomStreams, height: int, width: int) -> Floats:
    """Return the thickness of ice in [0, 1], (N, height, width).

    Needles of ice grow along three directions 60 degrees apart, turned at random in each image and bent a
    little; grains lie between them, and some regions of the glass are covered more than others.
    """

    def field(spectrum: NDArray[Any]) -> Floats:
        """Return the field of a spectrum with mean 0 and standard deviation 1 in each image."""
        values = np.fft.irfft2(spectrum, s=(height, width))
        values -= values.mean(axis=(1, 2), keepdims=True)
        return np.asarray(values / np.maximum(values.std(axis=(1, 2), keepdims=True), 1e-12))

    turn = np.pi * streams.uniform(1)[:, 0]
    white = np.fft.rfft2(streams.normal(7, height, width))
    down, right = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    frequency = np.hypot(down, right)
    smooth = np.exp(-((frequency / 0.06) ** 2))
    cover, bend_down, bend_right = (field(white[:, i] * smooth) for i in range(3))
    grains = field(white[:, 3] * frequency**0.5)
    needles = np.full(cover.shape, -np.inf)
    for branch in range(3):
        angle = (turn + branch * np.pi / 3)[:, None, None]
        along = right * np.cos(angle) + down * np.sin(angle)
        across = down * np.cos(angle) - right * np.sin(angle)
        # Long in one direction, fine in the other: low frequencies along, high ones across.
        spectrum = np.exp(-((along / 0.065) ** 2) - (across / 0.32) ** 2) * np.abs(across)
        needles = np.maximum(needles, field(white[:, 4 + branch] * spectrum))
    y, x = np.meshgrid(np.arange(height, dtype=np.float64), np.arange(width), indexing="ij")
    bent = sample(needles[..., None], y + 1.2 * bend_down, x + 1.2 * bend_right, half_sample=True)[..., 0]
    return 1 / (1 + np.exp(-(1.7 * bent + 0.3 * grains + 1.2 * cover - 1.6)))


def fog(images: Floats, streams: RandomStreams, amount: float, decay: float) -> Floats:
    """A bank of fog over the image, darkened so that its brightest value stays."""
    height, width = images.shape[1:3]
    size = 1 << (max(height, width) - 1).bit_length()
    bank = plasma(streams.symmetric(size, size), decay)[:, :height, :width, None]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    return (images + amount * bank) * brightest / (brightest + amount)


def plasma(noise: Floats, decay: float) -> Floats:
    """Return fractal clouds in [0, 1] by the diamond-square scheme on a torus.

    Every point is the mean of four points of the coarser level plus noise (N, S, S) in (-1, 1), which is ``decay``
    squared times weaker from level to level; S is a power of two.
    """
    clouds, step, strength = np.zeros_like(noise), noise.shape[1], 1.0
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


def water(
    images: Floats,
    streams: RandomStreams,
    mean: float,
    spread: float,
    smoothness: float,
    threshold: float,
    weight: float,
) -> Floats:
    """Spatter of water: drops that reflect, embossed away from their rims."""
    from scipy.ndimage import binary_erosion, correlate, distance_transform_edt, uniform_filter

    liquid = gaussian_blur(mean + spread * streams.normal(*images.shape[1:3]), smoothness)
    liquid = np.where(liquid < threshold, 0, liquid)
    wet = liquid > 0
    rim = wet & ~binary_erosion(wet, np.ones((1, 3, 3), bool), border_value=1)
    # Images lie so far apart along the first axis that none is near to the rims of another.
    away = distance_transform_edt(~rim, sampling=(1e6, 1, 1)) if rim.any() else np.full(rim.shape, 20.0)
    away = np.floor(uniform_filter(np.minimum(away, 20), (0, 3, 3), mode="mirror") + 1e-9).astype(np.int64)
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])[None]
    relief = np.clip(correlate(_equalized(away), emboss, mode="mirror"), 0, 255)
    light = liquid * uniform_filter(relief, (0, 3, 3), mode="mirror")
    gloss = light / np.maximum(light.max(axis=(1, 2), keepdims=True), 1e-9)
    return images + weight * gloss[..., None] * WATER


def _equalized(levels: NDArray[np.int64]) -> Floats:
    """Spread the whole numbers (N, H, W), 0..20, of each image over 0..255 by their ranks."""
    counts = (levels[..., None] == np.arange(21)).sum(axis=(1, 2))
    below = counts.cumsum(axis=1)
    lowest = np.take_along_axis(below, (counts > 0).argmax(axis=1)[:, None], axis=1)
    total = levels.shape[1] * levels.shape[2]
    scale = np.rint(255 * (below - lowest) / np.maximum(total - lowest, 1))
    return np.take_along_axis(scale, levels.reshape(len(levels), -1), axis=1).reshape(levels.shape)


def mud(
    images: Floats,
    streams: RandomStreams,
    mean: float,
    spread: float,
    smoothness: float,
    threshold: float,
    softness: float,
) -> Floats:
    """Spatter of mud: opaque drops with soft rims."""
    liquid = gaussian_blur(mean + spread * streams.normal(*images.shape[1:3]), smoothness)
    dirt = gaussian_blur((liquid > threshold).astype(np.float64), softness)[..., None]
    dirt = np.where(dirt < 0.8, 0, dirt)
    return images * (1 - dirt) + MUD * dirt


def brightness(images: Floats, streams: RandomStreams, amount: float) -> Floats:
    """Raise the value of hue-saturation-value, at most to 1."""
    value = images.max(axis=3, keepdims=True)
    raised = np.minimum(value + amount, 1)
    # Hue and saturation stay where the three values keep their ratios; black has neither and turns grey.
    return np.where(value > 0, images * (raised / np.where(value > 0, value, 1)), raised)


def saturate(images: Floats, streams: RandomStreams, factor: float, offset: float) -> Floats:
    """Multiply and raise the saturation: pale at severity 1 and 2, garish from 3 on; grey counts as red."""
    value = images.max(axis=3, keepdims=True)
    spread = value - images.min(axis=3, keepdims=True)
    old = spread / np.where(value > 0, value, 1)
    new = np.clip(old * factor + offset, 0, 1)
    changed = value - (value - images) * (new / np.where(old > 0, old, 1))
    # Without a hue, hue-saturation-value means red.
    reddened = value * np.concatenate([np.ones_like(new), 1 - new, 1 - new], axis=3)
    return np.where(old > 0, changed, reddened)


def contrast(images: Floats, streams: RandomStreams, factor: float) -> Floats:
    """Draw each channel towards its mean: (x - m) c + m."""
    mean = images.mean(axis=(1, 2), keepdims=True)
    return (images - mean) * factor + mean


def jpeg(images: Floats, streams: RandomStreams, quality: int) -> Floats:
    """Write and read as JPEG."""
    result = np.empty_like(images)
    for row, values in enumerate(np.rint(images * 255).astype(np.uint8)):
        stream = io.BytesIO()
        Image.fromarray(values).save(stream, "JPEG", quality=quality)
        with Image.open(stream) as image:
            result[row] = np.asarray(image)
    return result / 255


def pixelate(images: Floats, streams: RandomStreams, share: float) -> Floats:
    """Shrink to a share of the side by averaging and enlarge again."""
    height, width = images.shape[1:3]
    result = np.empty_like(images)
    for row, values in enumerate(np.rint(images * 255).astype(np.uint8)):
        small = Image.fromarray(values).resize((int(width * share), int(height * share)), Image.Resampling.BOX)
        result[row] = np.asarray(small.resize((width, height), Image.Resampling.BOX))
    return result / 255


def elastic(images: Floats, streams: RandomStreams, strength: float, smoothness: float, reach: float) -> Floats:
    """Tilt and stretch the image by moving three of its points, then shift each pixel along a smooth field.

    Strength and smoothness of the field and reach of the points are fractions of the side.
    """
    height, width = images.shape[1:3]
    strength, smoothness, reach = (min(height, width) * part for part in (strength, smoothness, reach))
    middle, arm = np.array([width // 2, height // 2]), min(height, width) // 3
    before = middle + arm * np.array([[1, 1], [1, -1], [-1, -1]])
    after = before + reach * streams.symmetric(3, 2)
    # Affine map from a position (x, y, 1) of the result to the position in the image, (N, 3, 2).
    back = np.linalg.solve(np.concatenate([after, np.ones((len(after), 3, 1))], axis=2), before.astype(np.float64))
    y, x = np.meshgrid(np.arange(height, dtype=np.float64), np.arange(width), indexing="ij")
    from_x, from_y = (
        back[:, 0, i, None, None] * x + back[:, 1, i, None, None] * y + back[:, 2, i, None, None] for i in (0, 1)
    )
    tilted = sample(images, from_y, from_x, half_sample=False)
    if not strength:
        return tilted
    across, down = (
        strength * gaussian_blur(streams.symmetric(height, width), smoothness, "reflect", truncate=3) for _ in range(2)
    )
    return sample(tilted, y + down, x + across, half_sample=True)


def _each(*values: float) -> tuple[tuple[float], ...]:
    return tuple((value,) for value in values)


#: Name, in the order of the classes -> the corruption, and its parameters at severity 1 to 5.
CORRUPTIONS: dict[str, tuple[Callable[..., Floats], tuple[tuple[Any, ...], ...]]] = {
    "Snow": (
        snow,
        (
            (0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
            (0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
        ),
    ),
    "Frost": (frost, ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "Fog": (fog, ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))),
    "Brightness": (brightness, _each(0.05, 0.1, 0.15, 0.2, 0.3)),
    "Contrast": (contrast, _each(0.75, 0.5, 0.4, 0.3, 0.15)),
    "Spatter": (
        lambda images, streams, change, *parameters: change(images, streams, *parameters),  # water or mud
        (
            (water, 0.62, 0.1, 0.7, 0.7, 0.5),
            (water, 0.65, 0.1, 0.8, 0.7, 0.5),
            (water, 0.65, 0.3, 1.0, 0.69, 0.5),
            (mud, 0.65, 0.1, 0.7, 0.69, 0.6),
            (mud, 0.65, 0.1, 0.5, 0.68, 0.6),
        ),
    ),
    "Elastic": (elastic, ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03))),
    "JPEG": (jpeg, _each(80, 65, 58, 50, 40)),
    "Pixelate": (pixelate, _each(0.95, 0.9, 0.85, 0.75, 0.65)),
    "Saturate": (saturate, ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))),
}


# -- What corruptions are made of


class RandomStreams:
    """N streams, each a counter-based generator keyed by (seed, number of the image).

    Everything is derived from the raw words of Philox, which NumPy keeps the same in all versions; its
    distributions it does not.
    """

    def __init__(self, seed: int, index: Integers) -> None:
        """Start the streams of a seed for images (N,) of these numbers."""
        key = np.array([seed, 0], np.uint64)
        self._words = []
        for number in index.astype(np.uint64):
            key[1] = number
            self._words.append(np.random.Philox(key=key))

    def __len__(self) -> int:
        return len(self._words)

    def uniform(self, *shape: int) -> Floats:
        """Return the next numbers of every stream, (N, *shape), uniform in the open interval (0, 1)."""
        count = int(np.prod(shape, dtype=np.int64))
        raw = np.empty((len(self), count), np.uint64)
        for row, words in enumerate(self._words):
            raw[row] = words.random_raw(count)
        return (((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(len(self), *shape)

    def symmetric(self, *shape: int) -> Floats:
        """Return numbers uniform in (-1, 1), (N, *shape)."""
        return 2 * self.uniform(*shape) - 1

    def normal(self, *shape: int) -> Floats:
        """Return standard normal numbers, (N, *shape)."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(*shape)), np.float64)


def gaussian_blur(images: Floats, sigma: float, mode: str = "nearest", truncate: float = 4.0) -> Floats:
    """Blur (N, H, W) or (N, H, W, C) over height and width by a kernel that ends after so many standard deviations."""
    from scipy.ndimage import gaussian_filter

    sigmas = (0, sigma, sigma, 0)[: images.ndim]
    return np.asarray(gaussian_filter(images, sigmas, mode=mode, truncate=truncate))


def motion_blur(images: Floats, radius: int, sigma: float, degrees: Floats) -> Floats:
    """Blur each image along a direction of its own (N,), as ImageMagick's motion blur does.

    The kernel is one-sided: pixel p takes pixels p, p + d, p + 2d, ... of falling Gaussian weight, 2 radius + 1 in all,
    rounded to whole pixels, edges repeated.
    """
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    angle = np.deg2rad(degrees)[:, None]
    across = np.ceil(steps * np.cos(angle) - 0.5).astype(np.int64)
    down = np.ceil(steps * np.sin(angle) - 0.5).astype(np.int64)
    height, width = images.shape[1:3]
    number = np.arange(len(images))[:, None, None]
    blurred = np.zeros_like(images)
    for step, weight in zip(steps, weights, strict=True):
        if weight < 1e-6:  # far below one grey level
            break
        rows = np.clip(np.arange(height) + down[:, step, None], 0, height - 1)
        columns = np.clip(np.arange(width) + across[:, step, None], 0, width - 1)
        blurred += weight * images[number, rows[:, :, None], columns[:, None, :]]
    return blurred


def zoom_matrix(size: int, factor: float) -> Floats:
    """Return the linear map (size, size) that zooms a line of pixels about its middle, by linear interpolation.

    The middle ``ceil(size / factor)`` pixels are stretched ``factor`` times and cut to ``size`` again.
    """
    kept = math.ceil(size / factor)
    stretched = round(kept * factor)
    start, cut = (size - kept) // 2, (stretched - size) // 2
    position = start + (cut + np.arange(size)) * ((kept - 1) / max(stretched - 1, 1))
    return np.clip(1 - np.abs(position[:, None] - np.arange(size)), 0, None)


def sample(images: Floats, rows: Floats, columns: Floats, half_sample: bool) -> Floats:
    """Read images (N, H, W, C) at real positions (N, H, W), bilinearly; beyond the edge they are mirrored.

    With ``half_sample`` at the pixel's outer edge, so that the edge pixel comes twice, rather than at its middle.
    """
    from scipy.ndimage import map_coordinates

    mode, number = "reflect" if half_sample else "mirror", np.arange(len(images))[:, None, None, None]
    places = np.broadcast_arrays(number, rows[..., None], columns[..., None], np.arange(images.shape[3]))
    return np.asarray(map_coordinates(images, places, order=1, mode=mode), np.float64)
