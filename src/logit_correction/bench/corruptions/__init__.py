"""The nineteen corruptions of CIFAR-10-C (Hendrycks and Dietterich, 2019) for 32x32 images, and the original.

Images are whole batches of unsigned bytes. The parameters of severity 1 to 5 are those published for 32x32
images; the code and its random numbers are our own, so images are alike but not the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from logit_correction.bench.corruptions import blur, digital, noise, weather
from logit_correction.bench.corruptions.frost import frost
from logit_correction.bench.corruptions.streams import Floats, Integers, Streams
from logit_correction.errors import InputError, did_you_mean
from logit_correction.files import in_threads
from logit_correction.seeds import derive_seed

Corruption = Callable[[Floats, int, Streams], Floats]


def original(images: Floats, severity: int, streams: Streams) -> Floats:
    """The image as it is, at every severity."""
    return images


#: Name -> function of images (N, H, W, 3) in [0, 1], the severity 1..5 and the images' random numbers.
CORRUPTIONS: dict[str, Corruption] = {
    "Snow": weather.snow,
    "Frost": frost,
    "Fog": weather.fog,
    "Brightness": digital.brightness,
    "Contrast": digital.contrast,
    "Spatter": weather.spatter,
    "Elastic": digital.elastic,
    "JPEG": digital.jpeg,
    "Pixelate": digital.pixelate,
    "Saturate": digital.saturate,
    "Gaussian noise": noise.gaussian_noise,
    "Shot noise": noise.shot_noise,
    "Impulse noise": noise.impulse_noise,
    "Speckle noise": noise.speckle_noise,
    "Gaussian blur": blur.gaussian_blur,
    "Defocus blur": blur.defocus_blur,
    "Glass blur": blur.glass_blur,
    "Motion blur": blur.motion_blur,
    "Zoom blur": blur.zoom_blur,
    "Original": original,
}

#: The two families that are published as Corrupted CIFAR-10, in the order of the classes.
FAMILIES: dict[str, tuple[str, ...]] = {"type0": tuple(CORRUPTIONS)[:10], "type1": tuple(CORRUPTIONS)[10:]}

#: Raised when the same options give other images than before.
RECIPE = 1

#: Images that are corrupted at once; more need more memory and are not faster.
_CHUNK = 250


def corrupt(images: NDArray[np.uint8], name: str, severity: int, index: Integers, seed: int = 0) -> NDArray[np.uint8]:
    """Corrupt images; each result depends on its image, its number and the options alone.

    The random numbers of an image come from a stream of its own and are the same at every severity. Values are
    rounded to the nearest of 0..255.

    Args:
        images: (N, H, W, 3).
        name: A key of ``CORRUPTIONS``.
        severity: 1..5.
        index: (N,) numbers of the images in the data set, not negative.
        seed: Seed of all streams.

    Returns:
        (N, H, W, 3), a new array.

    Raises:
        InputError: If the name or the severity is unknown.

    >>> grey = np.full((1, 32, 32, 3), 100, np.uint8)
    >>> corrupt(grey, "Brightness", 1, np.array([0]))[0, 0, 0].tolist()
    [113, 113, 113]
    """
    change = CORRUPTIONS[check_name(name)]
    check_severity(severity)
    result = np.empty_like(images)
    key = derive_seed(seed, "corruption", name)
    for start in range(0, len(images), _CHUNK):
        rows = slice(start, start + _CHUNK)
        changed = change(images[rows] / 255, severity, Streams(key, index[rows]))
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
    """Corrupt every image in its own way, on several cores, with a progress bar.

    Args:
        images: (M, 3, H, W); image m has number m.
        attribute: (M,) which of ``names`` each image gets.
        names: Keys of ``CORRUPTIONS``.
        severity: 1..5.
        seed: Seed of the random numbers.
        workers: Threads; the result does not depend on it.

    Returns:
        (M, 3, H, W).
    """
    result = np.empty_like(images)

    def work(piece: tuple[str, Integers]) -> None:
        name, rows = piece
        upright = np.ascontiguousarray(images[rows].transpose(0, 2, 3, 1))
        result[rows] = corrupt(upright, name, severity, rows, seed).transpose(0, 3, 1, 2)

    pieces = []
    for value, name in enumerate(names):
        rows = (attribute == value).nonzero()[0]
        pieces += [(name, rows[start : start + _CHUNK]) for start in range(0, len(rows), _CHUNK)]
    for _ in in_threads(work, pieces, "corrupting images, once", len(images), workers):
        pass
    return result


def check_name(name: str) -> str:
    """Return ``name`` if there is such a corruption.

    Raises:
        InputError: Otherwise.
    """
    if name not in CORRUPTIONS:
        raise InputError(
            f"corruption {name!r} is unknown{did_you_mean(str(name), CORRUPTIONS)}: there are {', '.join(CORRUPTIONS)}"
        )
    return name


def check_severity(severity: int) -> int:
    """Return ``severity`` if it is 1..5.

    Raises:
        InputError: Otherwise.
    """
    if severity not in range(1, 6):
        raise InputError(f"severity is {severity}, but must be 1..5, the levels of CIFAR-10-C")
    return severity
