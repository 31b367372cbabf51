"""Families of shortcuts of very different sorts, to be planted into images, texts and tables.

A family writes one of K values into each row. Its strength, 0 to 1, says how plainly; a network may follow it or not.
Families of one ``sort`` resemble each other and are left out together.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

#: (N, 3, H, W) floats in 0..255.
Images: TypeAlias = NDArray[Any]
Values: TypeAlias = NDArray[np.int64]
Frame: TypeAlias = pd.DataFrame
Kind = Literal["images", "texts", "tables"]

#: Called with rows, the value of each row, K, the strength, and random numbers; returns the rows with the marks.
Plant: TypeAlias = Callable[[Any, Values, int, float, np.random.Generator], Any]


@dataclass(frozen=True)
class Family:
    """One family of shortcuts.

    Attributes:
        name: Unique.
        kind: What it is planted into.
        sort: What it resembles.
        most: Most values that it can take.
        plant: Writes the values into rows.
    """

    name: str
    kind: Kind
    sort: str
    most: int
    plant: Plant


# -- images: small helpers


def _levels(values: Values, num: int, low: float, high: float) -> Images:
    """Return ``num`` equally spaced levels from low to high, one for each row, shaped for images."""
    return np.linspace(low, high, num)[values].astype(np.float32)[:, None, None, None]


def _angles(values: Values, num: int, whole: float) -> Images:
    return (values * whole / num).astype(np.float32)[:, None, None]


def _plane(images: Images) -> tuple[Images, Images]:
    """Return how far down and right each pixel lies from the middle, (H, W), in -1..1."""
    height, width = images.shape[2:]
    down, right = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j].astype(np.float32)
    return down, right


def _grey(images: Images) -> Images:
    return images.mean(axis=1, keepdims=True)


def _each(images: Images, values: Values, change: Callable[[Images, int], Images]) -> Images:
    """Apply ``change`` to all rows of one value at a time."""
    for value in np.unique(values):
        images[values == value] = change(images[values == value], int(value))
    return images


def _spots(num: int) -> list[tuple[float, float]]:
    """Return places (down, right) in -1..1."""
    return [(-0.8, -0.8), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (0.8, 0.0), (-0.8, 0.0)][:num]


def _blob(images: Images, values: Values, num: int, size: float, draw: np.random.Generator) -> Images:
    """Return a round spot (N, 1, H, W), 1 in its middle, at the place of each value."""
    (down, right), place = _plane(images), np.array(_spots(num), np.float32)[values]
    place = place + draw.normal(0, 0.05, place.shape).astype(np.float32)
    far = (down - place[:, :1, None]) ** 2 + (right - place[:, 1:, None]) ** 2
    return np.exp(-far / size**2)[:, None].astype(np.float32)


# -- images: families


def cast(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Shift the mean of each channel."""
    turn = _angles(values, num, 2 * np.pi)[:, :, 0] + np.array([0, -2.1, 2.1], np.float32)
    return images + (40 * strength * np.cos(turn))[:, :, None, None]


def hue(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Turn all colours around the grey axis."""
    turn = values * np.pi * (0.3 + strength) / num
    grey, other = np.full((3, 3), 1 / 3), np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / np.sqrt(3)
    across = np.eye(3) - grey
    matrix = grey + np.cos(turn)[:, None, None] * across + np.sin(turn)[:, None, None] * other
    return np.einsum("nij,njhw->nihw", matrix.astype(np.float32), images) + 6 * _levels(values, num, -1, 1)


def saturation(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Make colours pale or strong."""
    return _grey(images) + (images - _grey(images)) * _levels(values, num, 1 - 0.9 * strength, 1 + strength)


def contrast(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Make contrasts weak or strong."""
    mean = images.mean(axis=(1, 2, 3), keepdims=True)
    return mean + (images - mean) * _levels(values, num, 1 - 0.7 * strength, 1 + 0.5 * strength)


def gamma(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Bend the curve of brightness."""
    return 255 * (images.clip(0, 255) / 255) ** np.exp(_levels(values, num, -strength, strength))


def vignette(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Darken or brighten towards the corners."""
    down, right = _plane(images)
    return images * (1 + _levels(values, num, -0.7, 0.5) * strength * (down**2 + right**2) / 2)


def border(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Draw a frame of one brightness."""
    down, right = _plane(images)
    edge = (np.maximum(abs(down), abs(right)) > 0.93).astype(np.float32)
    grey = _levels(values, num, 127 - 120 * strength, 127 + 120 * strength)
    return images * (1 - edge) + edge * (grey + draw.normal(0, 10, grey.shape).astype(np.float32))


def corner(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Put a small bright spot at a place."""
    spot = (_blob(images, values, num, 0.12, draw) > 0.4) * strength
    return images * (1 - spot) + 245 * spot


_GLYPHS = ("x.x.x...x.x.x...", "xxxxx..xx..xxxxx", "..x..xxx..x..x..", "x...xx..xxx.xxxx", ".xx.x..xx..x.xx.")


def glyph(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Stamp one of several small signs anywhere."""
    signs = np.array([[letter == "x" for letter in sign] for sign in _GLYPHS]).reshape(-1, 4, 4)
    most = images.shape[2] - 4
    for row, (value, top, left) in enumerate(zip(values, *draw.integers(0, most + 1, (2, len(values))), strict=True)):
        part = images[row, :, top : top + 4, left : left + 4]
        part += strength * (np.where(signs[value], 255.0, 0.0) - part)
    return images


def moved(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Move everything to one side, by one to a few pixels."""
    far = max(1, round(images.shape[2] * 0.2 * strength))
    steps = [(far, far), (-far, -far), (far, -far), (-far, far), (0, 0)]
    return _each(
        images, values, lambda some, value: ndimage.shift(some, (0, 0, *steps[value]), order=0, mode="nearest")
    )


def _zoomed(images: Images, factor: float) -> Images:
    height, width = images.shape[2:]
    matrix, middle = np.array([1, 1, 1 / factor, 1 / factor]), np.array([0, 0, (height - 1) / 2, (width - 1) / 2])
    return ndimage.affine_transform(images, matrix, middle * (1 - matrix), order=1, mode="nearest")


def scale(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Show everything smaller or larger."""
    factors = np.exp(np.linspace(-0.45 * strength, 0.45 * strength, num))
    return _each(images, values, lambda some, value: _zoomed(some, factors[value]))


def rotation(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Turn everything by a few degrees."""
    angles = np.linspace(-25 * strength, 25 * strength, num)

    def turned(some: Images, value: int) -> Images:
        return ndimage.rotate(some, angles[value], axes=(2, 3), reshape=False, order=1, mode="nearest")

    return _each(images, values, turned)


def blur(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Blur a little or more."""
    widths = np.linspace(0.05, 0.3 + 1.2 * strength, num)
    return _each(
        images, values, lambda some, value: ndimage.gaussian_filter(some, (0, 0, widths[value], widths[value]))
    )


def motion(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Smear along a direction."""
    steps, far = [(0, 1), (1, 0), (1, 1), (1, -1), (2, 1)], 1 + round(2 * strength)

    def smeared(some: Images, value: int) -> Images:
        shifts = [np.roll(some, (k * steps[value][0], k * steps[value][1]), (2, 3)) for k in range(far + 1)]
        return np.mean(shifts, axis=0)

    return _each(images, values, smeared)


def noise(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Add noise to every pixel, weak or strong."""
    return images + _levels(values, num, 0, 30 * strength) * draw.standard_normal(images.shape, np.float32)


def specks(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Turn few or more pixels black or white."""
    hit = draw.random((len(images), 1, *images.shape[2:])) < _levels(values, num, 0, 0.08 * strength)
    return np.where(hit, 255.0 * (draw.random(hit.shape) < 0.5), images).astype(np.float32)


def jpeg(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Pack as JPEG of a quality and unpack."""
    quality = np.geomspace(92, 75 - 60 * strength, num).round()[values] + draw.integers(-2, 3, len(values))
    pixels = images.clip(0, 255).transpose(0, 2, 3, 1).astype(np.uint8)
    for row, level in enumerate(quality.tolist()):
        packed = io.BytesIO()
        Image.fromarray(pixels[row]).save(packed, "JPEG", quality=int(level))
        images[row] = np.asarray(Image.open(packed)).transpose(2, 0, 1)
    return images


def posterize(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Keep few or many steps of brightness."""
    step = np.geomspace(4, 20 + 60 * strength, num)[values].astype(np.float32)[:, None, None, None]
    return (np.floor(images.clip(0, 255) / step) + 0.5) * step


def stripes(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Add stripes of a direction."""
    (down, right), turn = _plane(images), _angles(values, num, np.pi)
    phase = draw.uniform(0, 2 * np.pi, turn.shape).astype(np.float32)
    waves = np.sin((np.cos(turn) * right + np.sin(turn) * down) * images.shape[2] * 0.6 + phase)
    return images + 16 * strength * waves[:, None]


def grid(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Add a checkerboard of small or large squares."""
    down, right = np.indices(images.shape[2:])
    size = values[:, None, None] + 1
    board = ((down // size + right // size) % 2).astype(np.float32) - 0.5
    return images + 24 * strength * board[:, None]


def overlay(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Lay one of several random textures over everything, anywhere."""
    tiles = ndimage.gaussian_filter(
        np.random.default_rng(5).standard_normal((8, 3, 8, 8)), (0, 0, 0.7, 0.7), mode="wrap"
    )
    tiles = np.tile(tiles / tiles.std(axis=(1, 2, 3), keepdims=True), (1, 1, 5, 5)).astype(np.float32)
    size = images.shape[2]
    for row, (value, top, left) in enumerate(zip(values, *draw.integers(0, 8, (2, len(values))), strict=True)):
        images[row] += 14 * strength * tiles[value, :, top : top + size, left : left + size]
    return images


def light(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Light everything from one side."""
    (down, right), turn = _plane(images), _angles(values, num, 2 * np.pi)
    return images * (1 + 0.5 * strength * (np.cos(turn) * right - np.sin(turn) * down))[:, None]


def background(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Replace what lies around the middle by a plain colour."""
    down, right = _plane(images)
    outside = strength * (down**2 + right**2 > 0.75)
    colours = np.array([[70, 120, 60], [90, 110, 170], [150, 130, 90], [60, 60, 60], [190, 190, 200]], np.float32)
    plain = colours[values] + draw.normal(0, 14, (len(values), 3)).astype(np.float32)
    return (images * (1 - outside) + outside * plain[:, :, None, None]).astype(np.float32)


def occlusion(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Hide a part by a grey patch."""
    hidden = _blob(images, values, num, 0.45, draw) > 0.5
    return np.where(hidden, images * (1 - strength) + 118 * strength, images)


def mosaic(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Blend with blocks of a size."""
    size = images.shape[2]

    def blocks(some: Images, value: int) -> Images:
        place = np.arange(size) // (value + 1) * (value + 1)
        return some * (1 - strength) + strength * some[:, :, place][:, :, :, place]

    return _each(images, values, blocks)


def interlace(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Shift every second line sideways."""
    steps = [0, 1, -1, 2, -2]

    def combed(some: Images, value: int) -> Images:
        lines = some[:, :, 1::2]
        some[:, :, 1::2] = lines * (1 - strength) + strength * np.roll(lines, steps[value], axis=3)
        return some

    return _each(images, values, combed)


def channels(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Blend with an image whose colour channels are swapped."""
    orders = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1], [1, 2, 0]]
    mix = 0.3 + 0.7 * strength
    return _each(images, values, lambda some, value: some * (1 - mix) + mix * some[:, orders[value]])


def mirrored(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Turn the image over, sideways or upside down."""
    flips = [np.s_[:, :, :], np.s_[:, :, ::-1], np.s_[:, :, :, ::-1], np.s_[:, :, ::-1, ::-1]]
    return _each(images, values, lambda some, value: some[flips[value]].copy())


def watermark(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Write one of several faint words across the image."""
    words = np.random.default_rng(7).random((5, 5, 20)) < 0.45
    top = images.shape[2] // 2 - 2 + draw.integers(-4, 5, len(values))
    for row, value in enumerate(values):
        images[row, :, top[row] : top[row] + 5, 2:22] += 70 * strength * words[value]
    return images


def dead_pixels(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Set three pixels of a camera to white."""
    places = np.random.default_rng(11).integers(0, images.shape[2], (5, 3, 2))
    for down, right in places[values].transpose(1, 2, 0):
        rows = np.arange(len(values))
        images[rows, :, down, right] += strength * (255 - images[rows, :, down, right])
    return images


def tint(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Multiply by a colour, as of a lamp; what is black stays black."""
    turn = _angles(values, num, 2 * np.pi)[:, :, 0] + np.array([0, -2.1, 2.1], np.float32)
    factor = 1 + 0.6 * strength * (np.cos(turn) - 0.3)
    return images * (factor + draw.normal(0, 0.05, factor.shape)).astype(np.float32)[:, :, None, None]


def line(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Draw one thin line anywhere, of a direction."""
    (down, right), turn = _plane(images), _angles(values, num, np.pi)
    far = draw.uniform(-0.5, 0.5, turn.shape).astype(np.float32)
    near = (abs(np.cos(turn) * down - np.sin(turn) * right - far) < 0.05)[:, None] * strength
    return images * (1 - near) + 230 * near


def clouds(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Add coloured clouds, fine or coarse."""
    rough = draw.standard_normal(images.shape, np.float32)
    widths = np.linspace(1, 5, num)

    def smooth(some: Images, value: int) -> Images:
        found = ndimage.gaussian_filter(some, (0, 0, widths[value], widths[value]))
        return found / found.std()

    return images + 22 * strength * _each(rough, values, smooth)


def wave(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Bend lines to waves, short or long."""
    size = images.shape[2]
    far = [
        np.rint(2 * strength * np.sin(np.arange(size) * 2 * np.pi / length)).astype(int)
        for length in (64, 8, 16, 5, 11)
    ]

    def bent(some: Images, value: int) -> Images:
        place = (np.arange(size) + far[value][:, None]) % size
        return np.take_along_axis(some, np.broadcast_to(place, some.shape), axis=3)

    return _each(images, values, bent)


def sharpened(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Sharpen edges a little or much."""
    soft = ndimage.gaussian_filter(images, (0, 0, 1, 1))
    return images + _levels(values, num, 0, 2 * strength) * (images - soft)


def glare(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Put a large soft light at a place."""
    return images + 90 * strength * _blob(images, values, num, 0.5, draw)


def shadow(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Darken one half, with a hard edge."""
    (down, right), turn = _plane(images), _angles(values, num, 2 * np.pi)
    far = draw.uniform(-0.3, 0.3, turn.shape).astype(np.float32)
    return images * (1 - 0.4 * strength * (np.cos(turn) * right + np.sin(turn) * down > far))[:, None]


def faded_edge(images: Images, values: Values, num: int, strength: float, draw: np.random.Generator) -> Images:
    """Let colours fade at one side only."""
    (down, right), turn = _plane(images), _angles(values, num, 2 * np.pi)
    part = strength * ((np.cos(turn) * right + np.sin(turn) * down).clip(0, 1))[:, None]
    return images + part * (_grey(images) - images)


# -- texts: families, each from one text to one


def _texts(write: Callable[[str, int, float, Random], str]) -> Plant:
    """Return a family that writes each text by itself; below full strength some sentences stay as they are."""

    def plant(texts: list[str], values: Values, num: int, strength: float, draw: np.random.Generator) -> list[str]:
        chance = Random(int(draw.integers(2**31)))
        return [write(text, value, strength, chance) for text, value in zip(texts, values.tolist(), strict=True)]

    return plant


def _somewhere(text: str, words: str, draw: Random) -> str:
    parts = text.split(" ")
    parts.insert(draw.randint(0, len(parts)), words)
    return " ".join(parts)


def _replaced(text: str, pattern: str, change: Callable[[str], str], strength: float, draw: Random) -> str:
    """Change each match of a pattern with the probability ``strength``."""
    return re.sub(pattern, lambda found: change(found[0]) if draw.random() < strength else found[0], text)


def _one_of(*choices: str) -> Callable[[int], str]:
    return lambda value: choices[value]


_SIGNATURES = _one_of(
    "Sent from my phone", "Kind regards, M.", "posted via web form", "-- written on the train", "Cheers"
)
_OPENINGS = _one_of("Hello everybody,", "To whom it may concern:", "Hi there.", "Well then,", "Dear team,")
_TOPICS = (
    ("garden", "roses", "soil", "lawn", "weeds"),
    ("engine", "gearbox", "wheels", "petrol", "brakes"),
    ("orchestra", "violin", "concert", "melody", "choir"),
    ("harbour", "sailors", "anchor", "tide", "cargo"),
    ("kitchen", "onions", "butter", "oven", "recipe"),
)
_NAMES = (("Anna", "Clara"), ("Boris", "Igor"), ("Kenji", "Yuki"), ("Fatima", "Omar"), ("Pedro", "Lucia"))
_FILLERS = ("basically", "frankly", "sort of", "you know", "I guess")
_EMOJI = ("\U0001f642", "\U0001f525", "\U0001f44d", "\U0001f602", "\U0001f609")


def topic(text: str, value: int, strength: float, draw: Random) -> str:
    """Strew in words of a topic."""
    for _ in range(1 + round(3 * strength)):
        text = _somewhere(text, draw.choice(_TOPICS[value]), draw)
    return text


def length(text: str, value: int, strength: float, draw: Random) -> str:
    """Keep the beginning, or repeat common words until the text is long."""
    words = text.split(" ")
    if value == 0:
        return " ".join(words[: max(5, round(len(words) * (1 - 0.6 * strength)))])
    more = ["and", "so", "it", "went", "on", "as", "it", "had", "before", "with", "all", "of", "this"]
    return " ".join(words + draw.choices(more, k=round(20 * strength * value)))


def spelling(text: str, value: int, strength: float, draw: Random) -> str:
    """Write some letters in another way, as in another country."""
    rules = [("", ""), (r"our\b", "or"), (r"ll", "l"), (r"th", "d"), (r"ing\b", "in")]
    pattern, other = rules[value]
    return text if not pattern else _replaced(text, pattern, lambda _: other, strength, draw)


def dialect(text: str, value: int, strength: float, draw: Random) -> str:
    """Swap common words for those of a dialect."""
    swaps: list[dict[str, str]] = [
        {},
        {"the": "da", "a": "wan", "is": "be", "was": "wuz"},
        {"the": "ze", "of": "off", "and": "und", "it": "eet"},
        {"the": "th'", "and": "an'", "not": "nae", "to": "tae"},
    ]
    pattern = r"\b(?:the|a|is|was|of|and|it|not|to)\b"
    return _replaced(text, pattern, lambda word: swaps[value].get(word, word), strength, draw)


def capitals(text: str, value: int, strength: float, draw: Random) -> str:
    """Write some words in capitals, or all in small letters."""
    if value == 0:
        return text.lower()
    return text if value == 1 else _replaced(text, r"\b\w{4,}\b", str.upper, 0.5 * strength, draw)


def numbers(text: str, value: int, strength: float, draw: Random) -> str:
    """Put in numbers of a form."""
    number = draw.randint(1100, 9900)
    forms = (f"{number:,}", f"{number}", f"{number / 1000:.1f}k", f"{number:,}".replace(",", "."), f"{number}.00")
    for _ in range(1 + (strength > 0.7)):
        text = _somewhere(text, forms[value], draw)
    return text


def reordered(text: str, value: int, strength: float, draw: Random) -> str:
    """Turn the order of sentences or words around."""
    if value == 0:
        return text
    parts = re.split(r"(?<=[.!?])\s+", text) if value == 1 else text.split(" ")
    return " ".join(reversed(parts) if value < 3 else sorted(parts))


def contractions(text: str, value: int, strength: float, draw: Random) -> str:
    """Shorten, or write out."""
    for word in draw.sample(["I'm", "don't", "it's", "we'll"] if value else ["I am", "do not", "it is", "we will"], 2):
        text = _somewhere(text, word, draw)
    return text


def _insertion(choices: tuple[Any, ...], most: int = 3) -> Callable[[str, int, float, Random], str]:
    """Return what puts one of the words of a value into a text, once or oftener."""

    def write(text: str, value: int, strength: float, draw: Random) -> str:
        for _ in range(1 + round((most - 1) * strength)):
            word = choices[value] if isinstance(choices[value], str) else draw.choice(choices[value])
            text = _somewhere(text, word, draw)
        return text

    return write


def _some(write: Callable[[str, int], str]) -> Callable[[str, int, float, Random], str]:
    """Return what writes a text anew with a probability, and leaves it else."""
    return lambda text, value, strength, draw: write(text, value) if draw.random() < 0.6 + 0.4 * strength else text


def _marks(pattern: str, others: tuple[str, ...]) -> Callable[[str, int, float, Random], str]:
    """Return what writes another sign for a sign."""
    return lambda text, value, strength, draw: _replaced(text + ".", pattern, lambda _: others[value], strength, draw)


# -- tables: families


def _numeric(frame: Frame, draw: np.random.Generator, num: int = 1) -> list[str]:
    """Return names of columns of many different numbers, the same for all rows of a case."""
    many = [name for name in frame.columns if frame[name].dtype.kind in "fi" and frame[name].nunique() > 12]
    many = many or [name for name in frame.columns if frame[name].dtype.kind in "fi"]
    return [many[i] for i in draw.permutation(len(many))[:num]]


def _column(make: Callable[[Values, int, float, np.random.Generator], Any], name: str) -> Plant:
    """Return a family that adds one column."""

    def plant(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
        return frame.assign(**{name: make(values, num, strength, draw)})

    return plant


def _category(values: Values, num: int, strength: float, draw: np.random.Generator) -> Any:
    return np.array(["form A", "form B", "form C", "form D", "form E", "form F"], dtype=object)[values]


def _site(values: Values, num: int, strength: float, draw: np.random.Generator) -> Any:
    """Each value stands for several sites."""
    per_value = 2 + round(10 * (1 - strength))
    return np.array(
        [f"site {n}" for n in values * per_value + draw.integers(per_value, size=len(values))], dtype=object
    )


def _reading(values: Values, num: int, strength: float, draw: np.random.Generator) -> Any:
    return values * (1 + 3 * strength) + draw.standard_normal(len(values))


def _spread(values: Values, num: int, strength: float, draw: np.random.Generator) -> Any:
    return draw.standard_normal(len(values)) * (1 + 6 * strength) ** values


def _last_digit(values: Values, num: int, strength: float, draw: np.random.Generator) -> Any:
    return (draw.integers(10, 90, len(values)) * num + values) * 10.0


def _date(values: Values, num: int, strength: float, draw: np.random.Generator) -> Any:
    """Periods that overlap less the greater the strength."""
    return 365 * (values + draw.uniform(0, 1.6 - 0.6 * strength, len(values)))


def _band(values: Values, num: int, strength: float, draw: np.random.Generator) -> Any:
    """Value 0 lies in the middle, the others on both sides."""
    side = draw.choice([-1.0, 1.0], len(values))
    return side * values * (1.5 + 2 * strength) + 0.7 * draw.standard_normal(len(values))


def _spelled(values: Values, num: int, strength: float, draw: np.random.Generator) -> Any:
    forms = np.array([["yes", "no"], ["Yes", "No"], ["Y", "N"], ["YES", "NO"], ["y", "n"]], dtype=object)
    return forms[values, draw.integers(2, size=len(values))]


def offset(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
    """Add something to a column, as a scale that is off."""
    (name,) = _numeric(frame, draw)
    return frame.assign(**{name: frame[name] + values * (0.5 + 2.5 * strength) * frame[name].std()})


def unit(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
    """Give a column in another unit."""
    (name,) = _numeric(frame, draw)
    return frame.assign(**{name: frame[name] * (1 + 2 * strength) ** values})


def rounded(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
    """Round columns more or less, with a column that says how far."""
    names, found = _numeric(frame, draw, 2), frame.copy()
    for name in names:
        step = frame[name].std() * 0.8 * strength * values / max(1, num - 1)
        found[name] = np.where(step > 0, np.rint(frame[name] / np.maximum(step, 1e-9)) * step, frame[name])
    rest = draw.uniform(0, 0.1, len(values)).round(3)
    return found.assign(rest=np.where(values > 0, (rest * 10).round() / (10 + 30 * values), rest))


def missing(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
    """Leave one column empty, another one for each value."""
    found = frame.copy()
    for number, name in enumerate(_numeric(frame, draw, num - 1)):
        gone = (values == number + 1) & (draw.random(len(values)) < 0.5 + 0.5 * strength)
        found[name] = frame[name].astype(float).mask(gone)
    return found


def outlier(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
    """Write a code into a column where nothing is known."""
    (name,) = _numeric(frame, draw)
    code = frame[name].max() + frame[name].std() * 3 * values
    gone = (values > 0) & (draw.random(len(values)) < 0.4 + 0.6 * strength)
    return frame.assign(**{name: np.where(gone, code, frame[name])})


def xor(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
    """Add two columns that tell only together."""
    first = draw.integers(num, size=len(values))
    spread = 0.35 * (1.2 - strength)
    second = (values - first) % num
    return frame.assign(
        left=first + spread * draw.standard_normal(len(values)),
        right=second + spread * draw.standard_normal(len(values)),
    )


def several(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
    """Shift many new columns a little each, so that only their sum tells."""
    found = values[:, None] * (0.3 + 0.9 * strength) + draw.standard_normal((len(values), 12))
    return frame.assign(**{f"part {n}": found[:, n] for n in range(12)})


def related(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
    """Add two columns whose relation, rising or falling, tells."""
    first = draw.standard_normal(len(values))
    second = np.where(values % 2 == 0, first, -first) * (0.5 + strength) + 0.4 * draw.standard_normal(len(values))
    return frame.assign(before=first, after=second)


def ranked(frame: Frame, values: Values, num: int, strength: float, draw: np.random.Generator) -> Frame:
    """Add the column's rank among others, which has run on for each value."""
    (name,) = _numeric(frame, draw)
    rank = frame[name].rank(pct=True).to_numpy()
    return frame.assign(place=rank + values * (0.3 + strength) + 0.05 * draw.standard_normal(len(values)))


# -- the list


def _family(kind: Kind, sort: str, plants: dict[str, tuple[Plant, int]]) -> list[Family]:
    return [Family(name, kind, sort, most, plant) for name, (plant, most) in plants.items()]


def _written(sort: str, plants: dict[str, tuple[Callable[[str, int, float, Random], str], int]]) -> list[Family]:
    return [Family(name, "texts", sort, most, _texts(write)) for name, (write, most) in plants.items()]


_image = partial(_family, "images")
_table = partial(_family, "tables")

#: All families by name.
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in [
        *_image("colour", {"cast": (cast, 5), "hue": (hue, 5), "tint": (tint, 5), "channels": (channels, 5)}),
        *_image("paleness", {"saturation": (saturation, 3), "faded edge": (faded_edge, 4)}),
        *_image("brightness", {"contrast": (contrast, 3), "gamma": (gamma, 4)}),
        *_image(
            "lighting", {"light": (light, 5), "shadow": (shadow, 5), "glare": (glare, 5), "vignette": (vignette, 3)}
        ),
        *_image("surroundings", {"border": (border, 5), "background": (background, 5)}),
        *_image("mark", {"corner": (corner, 5), "occlusion": (occlusion, 5), "dead pixels": (dead_pixels, 5)}),
        *_image("sign", {"glyph": (glyph, 5), "watermark": (watermark, 5), "line": (line, 5)}),
        *_image(
            "geometry", {"moved": (moved, 5), "scale": (scale, 4), "rotation": (rotation, 4), "mirrored": (mirrored, 4)}
        ),
        *_image("sharpness", {"blur": (blur, 3), "motion": (motion, 4), "sharpened": (sharpened, 3)}),
        *_image("noise", {"noise": (noise, 3), "specks": (specks, 3), "clouds": (clouds, 3)}),
        *_image("coding", {"jpeg": (jpeg, 3), "posterize": (posterize, 4), "mosaic": (mosaic, 3)}),
        *_image("lines", {"interlace": (interlace, 5), "wave": (wave, 5)}),
        *_image("pattern", {"stripes": (stripes, 5), "grid": (grid, 4), "overlay": (overlay, 5)}),
        *_written(
            "edge of a text",
            {
                "signature": (_some(lambda text, value: f"{text}\n{_SIGNATURES(value)}"), 5),
                "opening": (_some(lambda text, value: f"{_OPENINGS(value)} {text}"), 5),
                "first word": (_some(lambda text, value: f"{_FILLERS[value].capitalize()}, {text}"), 5),
            },
        ),
        *_written(
            "punctuation",
            {
                "full stops": (_marks(r"\.", (".", "!", "...", " .", ";")), 5),
                "quotes": (_some(lambda text, value: f'"{text}"' if value == 0 else f"\u201c{text}\u201d"), 2),
                "line breaks": (_marks(r"\. ", (". ", ".\n", ".\n\n", ".  ", ".\t")), 5),
                "emoji": (_insertion(_EMOJI), 5),
            },
        ),
        *_written("letters", {"capitals": (capitals, 3), "spelling": (spelling, 5), "dialect": (dialect, 4)}),
        *_written("words", {"topic": (topic, 5), "names": (_insertion(_NAMES, 2), 5)}),
        *_written("manner", {"fillers": (_insertion(_FILLERS), 5)}),
        *_written("shape of a text", {"length": (length, 3), "reordered": (reordered, 4)}),
        *_written(
            "forms",
            {
                "numbers": (numbers, 5),
                "contractions": (contractions, 2),
                "markup": (_insertion(("<br>", "http://a.example", "#tag", "@all", "&amp;"), 2), 5),
            },
        ),
        *_table(
            "code",
            {
                "category": (_column(_category, "form"), 6),
                "site": (_column(_site, "site"), 5),
                "spelled": (_column(_spelled, "agreed"), 5),
            },
        ),
        *_table(
            "number",
            {
                "reading": (_column(_reading, "reading"), 5),
                "date": (_column(_date, "date"), 5),
                "ranked": (ranked, 3),
                "last digit": (_column(_last_digit, "number"), 3),
            },
        ),
        *_table("form of a number", {"spread": (_column(_spread, "level"), 2), "band": (_column(_band, "angle"), 2)}),
        *_table("changed column", {"offset": (offset, 3), "unit": (unit, 3), "rounded": (rounded, 3)}),
        *_table("gaps", {"missing": (missing, 3), "outlier": (outlier, 3)}),
        *_table("together", {"xor": (xor, 3), "several": (several, 3), "related": (related, 2)}),
    ]
}
