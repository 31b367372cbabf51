"""Ten corruptions of CIFAR-10-C (Hendrycks and Dietterich, 2019) for 32x32 images: those published as type 0.

Corrupted CIFAR-10 needs each image in one of ten corruptions, the same in every run. So each image has a random stream
of its own, and a batch of images is corrupted at once. The parameters of severity 1 to 5 (``corruptions.yaml``) are the
published ones; the code and its random numbers are our own, so images are alike but not equal, byte for byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import (
    binary_erosion,
    correlate,
    distance_transform_edt,
    gaussian_filter,
    map_coordinates,
    uniform_filter,
)
from scipy.special import ndtri

from logit_correction.seeds import derive_seed
from logit_correction.threads import map_in_threads
from logit_correction.yaml_files import read_yaml_file
from logit_correction_lab.sources.image_marks import compress_as_jpeg

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

#: Raised by one when the same options give other images than before.
RECIPE = 1

#: Images that are corrupted at once; more need more memory and are not faster.
IMAGES_PER_CHUNK = 250

#: Colours in [0, 1].
GLASS = np.array([52, 78, 112]) / 255
ICE = np.array([232, 243, 252]) / 255
WATER = np.array([175, 238, 238]) / 255
MUD = np.array([63, 42, 20]) / 255

#: Brightness of red, green and blue in grey.
GREY = np.array([0.299, 0.587, 0.114])


def corrupt_images(
    images: NDArray[np.uint8], name: str, severity: int, index: Integers, seed: int = 0
) -> NDArray[np.uint8]:
    """Corrupt images; each result depends only on its image, its number and the options.

    The random numbers of an image come from a stream of its own and are the same at every severity.

    Args:
        images: (N, H, W, 3).
        name: A key of ``CORRUPTIONS``.
        severity: 1 to 5, stronger from one to the next.
        index: (N,) numbers of the images, which choose their streams.
        seed: Seed of the streams.

    >>> grey = np.full((1, 32, 32, 3), 100, np.uint8)
    >>> corrupt_images(grey, "Brightness", 1, np.array([0]))[0, 0, 0].tolist()
    [113, 113, 113]
    """
    parameters = {parameter: values[severity - 1] for parameter, values in _SEVERITIES[name].items()}
    streams = RandomStreams(derive_seed(seed, "corruption", name), index)
    corrupted = CORRUPTIONS[name](images / 255, streams, **parameters)
    return np.rint(np.clip(corrupted, 0, 1) * 255).astype(np.uint8)


def corrupt_by_attribute(
    images: NDArray[np.uint8], attribute: Integers, names: Sequence[str], severity: int, seed: int, workers: int
) -> NDArray[np.uint8]:
    """Corrupt each image by the corruption that its attribute names.

    Args:
        images: (M, 3, H, W); image m has the number m.
        attribute: (M,) places in ``names``.
        names: Keys of ``CORRUPTIONS``.
        severity: 1 to 5.
        seed: Seed of the random streams.
        workers: Number of threads.
    """
    result = np.empty_like(images)

    def corrupt_chunk(chunk: tuple[str, Integers]) -> None:
        name, rows = chunk
        channels_last = np.ascontiguousarray(images[rows].transpose(0, 2, 3, 1))
        result[rows] = corrupt_images(channels_last, name, severity, rows, seed).transpose(0, 3, 1, 2)

    chunks = []
    for value, name in enumerate(names):
        rows = np.flatnonzero(attribute == value)
        chunks += [(name, rows[start : start + IMAGES_PER_CHUNK]) for start in range(0, len(rows), IMAGES_PER_CHUNK)]
    list(map_in_threads(corrupt_chunk, chunks, "corrupting images, once", len(images), workers))
    return result


# -- Corruptions: each takes images (N, H, W, 3) in [0, 1], their random streams, and its parameters


def add_snow(
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
    """Whiten the image and add streaks of white, twice, that fall at 45 to 135 degrees.

    Args:
        images: (N, H, W, 3) in [0, 1].
        streams: N random streams.
        mean: Mean of the noise that flakes are cut from.
        spread: Its standard deviation.
        zoom: How many times flakes are enlarged.
        threshold: Noise below it is set to 0.
        radius: Length of streaks in pixels.
        sigma: Standard deviation of their blur in pixels.
        weight: Weight of the image against the whitened one.
    """
    height, width = images.shape[1:3]
    flakes = mean + spread * streams.draw_normal(height, width)
    flakes = make_zoom_matrix(height, zoom) @ flakes @ make_zoom_matrix(width, zoom).T
    flakes = np.clip(np.where(flakes < threshold, 0, flakes), 0, 1)
    flakes = motion_blur(flakes, radius, sigma, 45 * streams.draw_symmetric(1)[:, 0] - 90)
    pale = np.maximum(images, (images @ GREY * 1.5 + 0.5)[..., None])
    return weight * images + (1 - weight) * pale + (flakes + flakes[:, ::-1, ::-1])[..., None]


def add_frost(images: Floats, streams: RandomStreams, image_weight: float, ice_weight: float) -> Floats:
    """Add ice as on a window: a computed texture, where CIFAR-10-C cuts it out of photographs that are not free.

    So accuracies on this corruption come close to published ones without being equal.
    """
    texture = _generate_ice_thickness(streams, *images.shape[1:3])[..., None]
    return image_weight * images + ice_weight * (GLASS + (ICE - GLASS) * texture)


def _generate_ice_thickness(streams: RandomStreams, height: int, width: int) -> Floats:
    """Return the thickness of ice in [0, 1], (N, height, width).

    Needles of ice grow along three directions 60 degrees apart, turned at random in each image and bent a
    little; grains lie between them, and some regions of the glass are covered more than others.
    """

    def filter_noise(number: int, transfer: Floats) -> Floats:
        """Return white noise filtered by a transfer function, with mean 0 and standard deviation 1 in each image."""
        values = np.fft.irfft2(white[:, number] * transfer, s=(height, width))
        values -= values.mean(axis=(1, 2), keepdims=True)
        return values / np.maximum(values.std(axis=(1, 2), keepdims=True), 1e-12)

    turn = np.pi * streams.draw_uniform(1)[:, 0]
    white = np.fft.rfft2(streams.draw_normal(7, height, width))
    down = np.fft.fftfreq(height)[:, None]
    right = np.fft.rfftfreq(width)
    frequency = np.hypot(down, right)
    smooth = np.exp(-((frequency / 0.06) ** 2))
    cover, bend_down, bend_right = (filter_noise(number, smooth) for number in range(3))
    grains = filter_noise(3, frequency**0.5)
    needles = []
    for branch in range(3):
        angle = (turn + branch * np.pi / 3)[:, None, None]
        along = right * np.cos(angle) + down * np.sin(angle)
        across = down * np.cos(angle) - right * np.sin(angle)
        # Long in one direction, fine in the other: low frequencies along, high ones across.
        needle = np.exp(-((along / 0.065) ** 2) - (across / 0.32) ** 2) * np.abs(across)
        needles.append(filter_noise(4 + branch, needle))
    y, x = np.indices((height, width), dtype=np.float64)
    rows = y + 1.2 * bend_down
    bent = sample_bilinear(np.max(needles, axis=0)[..., None], rows, x + 1.2 * bend_right, "reflect")[..., 0]
    return 1 / (1 + np.exp(-(1.7 * bent + 0.3 * grains + 1.2 * cover - 1.6)))


def add_fog(images: Floats, streams: RandomStreams, amount: float, decay: float) -> Floats:
    """Add a bank of fog, and darken the image so that its brightest value stays; ``decay`` smooths the fog."""
    height, width = images.shape[1:3]
    size = 1 << (max(height, width) - 1).bit_length()
    bank = generate_fractal_clouds(streams.draw_symmetric(size, size), decay)[:, :height, :width, None]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    return (images + amount * bank) * brightest / (brightest + amount)


def generate_fractal_clouds(noise: Floats, decay: float) -> Floats:
    """Return fractal clouds in [0, 1], (N, S, S), by the diamond-square scheme on a torus.

    Args:
        noise: (N, S, S) in (-1, 1), added to each point, which else is the mean of four points of the coarser level; S
            is a power of two.
        decay: Its square is how many times weaker the noise is from level to level.
    """
    clouds = np.zeros_like(noise)
    step = noise.shape[1]
    strength = 1.0
    while step > 1:
        half = step // 2
        coarse = np.s_[:, ::step, ::step]
        middle = np.s_[:, half::step, half::step]
        below = clouds[coarse] + np.roll(clouds[coarse], -1, axis=1)
        clouds[middle] = (below + np.roll(below, -1, axis=2)) / 4 + strength * noise[middle]
        for axis, edge in ((1, np.s_[:, ::step, half::step]), (2, np.s_[:, half::step, ::step])):
            corners = clouds[coarse] + np.roll(clouds[coarse], -1, axis=3 - axis)
            centres = clouds[middle] + np.roll(clouds[middle], 1, axis=axis)
            clouds[edge] = (corners + centres) / 4 + strength * noise[edge]
        step = half
        strength /= decay**2
    clouds -= clouds.min(axis=(1, 2), keepdims=True)
    return clouds / clouds.max(axis=(1, 2), keepdims=True)


def add_splashes(
    images: Floats,
    streams: RandomStreams,
    liquid: str,
    mean: float,
    spread: float,
    smoothness: float,
    threshold: float,
) -> Floats:
    """Splash water, drops that reflect, embossed away from their rims, or mud, opaque drops with soft rims.

    Args:
        images: (N, H, W, 3) in [0, 1].
        streams: N random streams.
        liquid: ``water`` or ``mud``.
        mean: Mean of the noise that drops are cut from.
        spread: Its standard deviation.
        smoothness: Standard deviation in pixels of the blur of this noise.
        threshold: Noise below it is set to 0.
    """
    thickness = mean + spread * streams.draw_normal(*images.shape[1:3])
    thickness = gaussian_filter(thickness, (0, smoothness, smoothness), mode="nearest")
    if liquid == "mud":
        dirt = gaussian_filter((thickness > threshold).astype(float), (0, 0.6, 0.6), mode="nearest")[..., None]
        dirt = np.where(dirt < 0.8, 0, dirt)
        return images * (1 - dirt) + MUD * dirt
    thickness = np.where(thickness < threshold, 0, thickness)
    wet = thickness > 0
    rim = wet & ~binary_erosion(wet, np.ones((1, 3, 3), bool), border_value=1)
    # Images lie so far apart along the first axis that none is near to the rims of another.
    away = distance_transform_edt(~rim, sampling=(1e6, 1, 1)) if rim.any() else np.full(rim.shape, 20.0)
    away = np.floor(uniform_filter(np.minimum(away, 20), (0, 3, 3), mode="mirror") + 1e-9).astype(np.int64)
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])[None]
    relief = np.clip(correlate(_equalize_histogram(away), emboss, mode="mirror"), 0, 255)
    light = thickness * uniform_filter(relief, (0, 3, 3), mode="mirror")
    gloss = light / np.maximum(light.max(axis=(1, 2), keepdims=True), 1e-9)
    return images + 0.5 * gloss[..., None] * WATER


def _equalize_histogram(levels: NDArray[np.int64]) -> Floats:
    """Spread the whole numbers (N, H, W), 0..20, of each image over 0..255 by their ranks."""
    counts = (levels[..., None] == np.arange(21)).sum(axis=(1, 2))
    below = counts.cumsum(axis=1)
    lowest = np.take_along_axis(below, (counts > 0).argmax(axis=1)[:, None], axis=1)
    scale = np.rint(255 * (below - lowest) / np.maximum(below[:, -1:] - lowest, 1))
    return np.take_along_axis(scale, levels.reshape(len(levels), -1), axis=1).reshape(levels.shape)


def increase_brightness(images: Floats, streams: RandomStreams, amount: float) -> Floats:
    """Raise the value of hue-saturation-value, at most to 1."""
    value = images.max(axis=3, keepdims=True)
    raised = np.minimum(value + amount, 1)
    # Hue and saturation stay where the three values keep their ratios; black has neither and turns grey.
    return np.where(value > 0, images * (raised / np.where(value > 0, value, 1)), raised)


def change_saturation(images: Floats, streams: RandomStreams, factor: float, offset: float) -> Floats:
    """Multiply and raise the saturation: pale at severity 1 and 2, garish from 3 on; grey counts as red."""
    value = images.max(axis=3, keepdims=True)
    spread = value - images.min(axis=3, keepdims=True)
    old = spread / np.where(value > 0, value, 1)
    new = np.clip(old * factor + offset, 0, 1)
    changed = value - (value - images) * (new / np.where(old > 0, old, 1))
    # Without a hue, hue-saturation-value means red.
    reddened = value * np.concatenate([np.ones_like(new), 1 - new, 1 - new], axis=3)
    return np.where(old > 0, changed, reddened)


def reduce_contrast(images: Floats, streams: RandomStreams, contrast_scale: float) -> Floats:
    """Move each value towards the mean of its channel: (x - mean) contrast_scale + mean."""
    mean = images.mean(axis=(1, 2), keepdims=True)
    return (images - mean) * contrast_scale + mean


def add_jpeg_artefacts(images: Floats, streams: RandomStreams, quality: int) -> Floats:
    """Write and read as JPEG."""
    return _apply_to_each_image(images, lambda image: compress_as_jpeg(image, quality))


def pixelate_images(images: Floats, streams: RandomStreams, share: float) -> Floats:
    """Shrink to a share of the side by averaging and enlarge again."""

    def pixelate_image(image: Image.Image) -> Image.Image:
        small = image.resize((int(image.width * share), int(image.height * share)), Image.Resampling.BOX)
        return small.resize(image.size, Image.Resampling.BOX)

    return _apply_to_each_image(images, pixelate_image)


def _apply_to_each_image(images: Floats, change: Callable[[Image.Image], Image.Image]) -> Floats:
    pixels = np.rint(images * 255).astype(np.uint8)
    return np.stack([np.asarray(change(Image.fromarray(image)), np.float64) for image in pixels]) / 255


def warp_elastically(
    images: Floats, streams: RandomStreams, strength: float, smoothness: float, reach: float
) -> Floats:
    """Tilt and stretch the image by moving three of its points, then shift each pixel along a smooth field.

    Args:
        images: (N, H, W, 3) in [0, 1].
        streams: N random streams.
        strength: Largest shift along the field, as a fraction of the side.
        smoothness: Standard deviation of the blur of the field, as a fraction of the side.
        reach: How far the three points move at most, as a fraction of the side.
    """
    height, width = images.shape[1:3]
    side = min(height, width)
    before = np.array([width // 2, height // 2]) + side // 3 * np.array([[1, 1], [1, -1], [-1, -1]])
    after = before + side * reach * streams.draw_symmetric(3, 2)
    # Affine map from a position (x, y, 1) of the result to the position in the image, (N, 3, 2).
    back = np.linalg.solve(np.concatenate([after, np.ones((len(after), 3, 1))], axis=2), before.astype(np.float64))
    y, x = np.indices((height, width), dtype=np.float64)
    across, down, shift = back[..., None, None].transpose(1, 2, 0, 3, 4)
    from_x, from_y = across * x + down * y + shift
    tilted = sample_bilinear(images, from_y, from_x, "mirror")
    if not strength:
        return tilted
    sigma = side * smoothness
    right, below = (
        side * strength * gaussian_filter(streams.draw_symmetric(height, width), (0, sigma, sigma), truncate=3)
        for _ in range(2)
    )
    return sample_bilinear(tilted, y + below, x + right, "reflect")


#: Name, in the order of the classes -> the corruption.
CORRUPTIONS: dict[str, Callable[..., Floats]] = {
    "Snow": add_snow,
    "Frost": add_frost,
    "Fog": add_fog,
    "Brightness": increase_brightness,
    "Contrast": reduce_contrast,
    "Spatter": add_splashes,
    "Elastic": warp_elastically,
    "JPEG": add_jpeg_artefacts,
    "Pixelate": pixelate_images,
    "Saturate": change_saturation,
}

_SEVERITIES = read_yaml_file(Path(__file__).with_name("corruptions.yaml"))


# -- What corruptions are made of


class RandomStreams:
    """N random streams, each a counter-based generator keyed by (seed, number of the image).

    All numbers are derived from the raw words of Philox, which NumPy keeps the same in all versions; its
    distributions it does not.
    """

    def __init__(self, seed: int, index: Integers) -> None:
        """Start the streams of a seed for the images (N,) of these numbers."""
        self._generators = [np.random.Philox(key=np.array([seed, number], np.uint64)) for number in index.tolist()]

    def draw_uniform(self, *shape: int) -> Floats:
        """Return the next numbers of every stream, (N, *shape), uniform in the open interval (0, 1)."""
        raw = np.stack([generator.random_raw(math.prod(shape)) for generator in self._generators])
        return (((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(-1, *shape)

    def draw_symmetric(self, *shape: int) -> Floats:
        """Return numbers uniform in (-1, 1), (N, *shape)."""
        return 2 * self.draw_uniform(*shape) - 1

    def draw_normal(self, *shape: int) -> Floats:
        """Return standard normal numbers, (N, *shape)."""
        return ndtri(self.draw_uniform(*shape))


def motion_blur(images: Floats, radius: int, sigma: float, degrees: Floats) -> Floats:
    """Return each image blurred along a direction, as ImageMagick's motion blur does.

    The kernel is one-sided: pixel p takes pixels p, p + d, p + 2d, ... of falling Gaussian weight, 2 radius + 1 in all,
    rounded to whole pixels, edges repeated.

    Args:
        images: (N, H, W).
        radius: Half the length of the kernel in pixels.
        sigma: Standard deviation of the kernel in pixels.
        degrees: (N,) direction of each image's blur.
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


def make_zoom_matrix(size: int, factor: float) -> Floats:
    """Return the linear map (size, size) that zooms a line of pixels about its middle, by linear interpolation.

    Args:
        size: Number of pixels.
        factor: The middle ``ceil(size / factor)`` pixels are stretched so many times and cut to ``size`` again.
    """
    num_shown = math.ceil(size / factor)
    num_stretched = round(num_shown * factor)
    first = (size - num_shown) // 2
    cut = (num_stretched - size) // 2
    position = first + (cut + np.arange(size)) * ((num_shown - 1) / max(num_stretched - 1, 1))
    return np.clip(1 - np.abs(position[:, None] - np.arange(size)), 0, None)


def sample_bilinear(images: Floats, rows: Floats, columns: Floats, mode: str) -> Floats:
    """Return images read at real positions, by linear interpolation; beyond the edge they are mirrored.

    Args:
        images: (N, H, W, C).
        rows: (N, H, W) position along the height.
        columns: (N, H, W) position along the width.
        mode: ``reflect`` mirrors at the outer edge of the last pixel, which so comes twice, ``mirror`` at its middle.
    """
    number = np.arange(len(images))[:, None, None, None]
    places = np.broadcast_arrays(number, rows[..., None], columns[..., None], np.arange(images.shape[3]))
    return map_coordinates(images, places, order=1, mode=mode)
