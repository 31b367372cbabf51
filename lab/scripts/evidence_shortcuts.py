"""Families of shortcuts of very different sorts, which ``evidence_cases.py`` plants into images, texts and tables.

An audit should find shortcuts of sorts that it was not tuned on. A family writes one of K values into each row, with a
strength from 0 to 1, on which it depends whether a network relies on it. Families of one ``sort`` resemble each other
and are left out together when a model of evidence is evaluated. All functions of a kind have one signature: images and
frames are marked as a whole, given a ``Mark``, texts one by one (``MarkText``). The list of families is at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from logit_correction_lab.sources.image_marks import compress_as_jpeg

#: (N, 3, H, W) floats in 0..255.
Images: TypeAlias = NDArray[Any]
Values: TypeAlias = NDArray[np.int64]
Frame: TypeAlias = pd.DataFrame
Kind = Literal["images", "texts", "tables"]

#: Returns a text with a mark, given the text, the value (0..K-1), the strength (0 to 1) and random numbers.
MarkText: TypeAlias = Callable[[str, int, float, Random], str]


@dataclass(frozen=True)
class Mark:
    """The values of a shortcut that are written into N rows.

    Attributes:
        values: (N,) 0..K-1, the value of each row.
        num_values: K.
        strength: 0 to 1.
        draw: Random numbers.
    """

    values: Values
    num_values: int
    strength: float
    rng: np.random.Generator

    def __len__(self) -> int:
        return len(self.values)

    def iterate_values(self) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Yield each value that rows have, and which rows have it, (N,)."""
        for value in np.unique(self.values):
            yield int(value), self.values == value

    def make_levels(self, low: float, high: float) -> Images:
        """Return the level of each image, (N, 1, 1, 1), by its value.

        Args:
            low: Level of value 0.
            high: Level of value K - 1; the others are spread evenly between.
        """
        return np.linspace(low, high, self.num_values)[self.values].astype(np.float32)[:, None, None, None]

    def make_angles(self, turn: float) -> Images:
        """Return the angle of each image, (N, 1, 1); those of the values divide ``turn`` into equal parts."""
        return (self.values * turn / self.num_values).astype(np.float32)[:, None, None]


@dataclass(frozen=True)
class Family:
    """One family of shortcuts.

    Attributes:
        name: Unique.
        kind: What it is planted into.
        sort: Families of one sort resemble each other.
        max_values: Greatest number of values that it can take.
        plant: Returns rows with a mark: images (N, 3, H, W), which it may change, N texts, or a frame.
    """

    name: str
    kind: Kind
    sort: str
    max_values: int
    plant: Callable[[Any, Mark], Any]


# -- images: what families share


def _make_grid(images: Images) -> tuple[Images, Images]:
    """Return how far down and right each pixel lies from the middle, (H, W), in -1..1."""
    height, width = images.shape[2:]
    down, right = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j].astype(np.float32)
    return down, right


def _project(images: Images, angles: Images) -> Images:
    """Return how far each pixel lies along a direction, (N, H, W)."""
    down, right = _make_grid(images)
    return np.cos(angles) * right + np.sin(angles) * down


def _make_grey(images: Images) -> Images:
    return images.mean(axis=1, keepdims=True)


def _blur(images: Images, width: float) -> Images:
    return ndimage.gaussian_filter(images, (0, 0, width, width))


#: Places (down, right) in -1..1.
PLACES = np.array([(-0.8, -0.8), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (0.8, 0.0), (-0.8, 0.0)], np.float32)


def _make_spot(images: Images, mark: Mark, size: float) -> Images:
    """Return a round spot (N, 1, H, W), 1 in its middle, at the place of each value."""
    down, right = _make_grid(images)
    place = PLACES[mark.values]
    place = place + mark.rng.normal(0, 0.05, place.shape).astype(np.float32)
    distance = (down - place[:, :1, None]) ** 2 + (right - place[:, 1:, None]) ** 2
    return np.exp(-distance / size**2)[:, None].astype(np.float32)


# -- images: families


def _shift_channels(images: Images, mark: Mark) -> Images:
    """Shift the mean of each channel."""
    turn = mark.make_angles(2 * np.pi)[:, :, 0] + np.array([0, -2.1, 2.1], np.float32)
    return images + (40 * mark.strength * np.cos(turn))[:, :, None, None]


def _rotate_hue(images: Images, mark: Mark) -> Images:
    """Turn all colours around the grey axis."""
    turn = mark.values * np.pi * (0.3 + mark.strength) / mark.num_values
    grey = np.full((3, 3), 1 / 3)
    other = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / np.sqrt(3)
    across = np.eye(3) - grey
    matrix = grey + np.cos(turn)[:, None, None] * across + np.sin(turn)[:, None, None] * other
    return np.einsum("nij,njhw->nihw", matrix.astype(np.float32), images) + 6 * mark.make_levels(-1, 1)


def _scale_saturation(images: Images, mark: Mark) -> Images:
    """Make colours pale or vivid."""
    grey = _make_grey(images)
    return grey + (images - grey) * mark.make_levels(1 - 0.9 * mark.strength, 1 + mark.strength)


def _scale_contrast(images: Images, mark: Mark) -> Images:
    """Make contrasts weak or strong."""
    mean = images.mean(axis=(1, 2, 3), keepdims=True)
    return mean + (images - mean) * mark.make_levels(1 - 0.7 * mark.strength, 1 + 0.5 * mark.strength)


def _apply_gamma(images: Images, mark: Mark) -> Images:
    """Bend the curve of brightness."""
    return 255 * (images.clip(0, 255) / 255) ** np.exp(mark.make_levels(-mark.strength, mark.strength))


def _add_vignette(images: Images, mark: Mark) -> Images:
    """Darken or brighten towards the corners."""
    down, right = _make_grid(images)
    return images * (1 + mark.make_levels(-0.7, 0.5) * mark.strength * (down**2 + right**2) / 2)


def _draw_border(images: Images, mark: Mark) -> Images:
    """Draw a frame of one brightness."""
    down, right = _make_grid(images)
    edge = (np.maximum(abs(down), abs(right)) > 0.93).astype(np.float32)
    grey = mark.make_levels(127 - 120 * mark.strength, 127 + 120 * mark.strength)
    return images * (1 - edge) + edge * (grey + mark.rng.normal(0, 10, grey.shape).astype(np.float32))


def _draw_spot(images: Images, mark: Mark) -> Images:
    """Put a small bright spot at a place."""
    spot = (_make_spot(images, mark, 0.12) > 0.4) * mark.strength
    return images * (1 - spot) + 245 * spot


_GLYPHS = ("x.x.x...x.x.x...", "xxxxx..xx..xxxxx", "..x..xxx..x..x..", "x...xx..xxx.xxxx", ".xx.x..xx..x.xx.")


def _stamp_glyph(images: Images, mark: Mark) -> Images:
    """Stamp one of several small signs anywhere."""
    signs = np.array([[letter == "x" for letter in sign] for sign in _GLYPHS]).reshape(-1, 4, 4)
    corners = mark.rng.integers(0, images.shape[2] - 3, (2, len(mark))).T
    for image, value, (down, right) in zip(images, mark.values, corners, strict=True):
        part = image[:, down : down + 4, right : right + 4]
        part += mark.strength * (np.where(signs[value], 255.0, 0.0) - part)
    return images


def _move_to_side(images: Images, mark: Mark) -> Images:
    """Move everything to one side, by one to a few pixels."""
    distance = max(1, round(images.shape[2] * 0.2 * mark.strength))
    steps = [(distance, distance), (-distance, -distance), (distance, -distance), (-distance, distance), (0, 0)]

    for value, rows in mark.iterate_values():
        images[rows] = ndimage.shift(images[rows], (0, 0, *steps[value]), order=0, mode="nearest")
    return images


def _rescale(images: Images, mark: Mark) -> Images:
    """Show everything smaller or larger."""
    factors = np.exp(np.linspace(-0.45 * mark.strength, 0.45 * mark.strength, mark.num_values))
    height, width = images.shape[2:]
    middle = np.array([0, 0, (height - 1) / 2, (width - 1) / 2])
    for value, rows in mark.iterate_values():
        matrix = np.array([1, 1, 1 / factors[value], 1 / factors[value]])
        images[rows] = ndimage.affine_transform(images[rows], matrix, middle * (1 - matrix), order=1, mode="nearest")
    return images


def _rotate(images: Images, mark: Mark) -> Images:
    """Turn everything by a few degrees."""
    angles = np.linspace(-25 * mark.strength, 25 * mark.strength, mark.num_values)

    for value, rows in mark.iterate_values():
        images[rows] = ndimage.rotate(images[rows], angles[value], (2, 3), reshape=False, order=1, mode="nearest")
    return images


def _blur_by_value(images: Images, mark: Mark) -> Images:
    """Blur a little or more."""
    widths = np.linspace(0.05, 0.3 + 1.2 * mark.strength, mark.num_values)
    for value, rows in mark.iterate_values():
        images[rows] = _blur(images[rows], widths[value])
    return images


def _blur_along_direction(images: Images, mark: Mark) -> Images:
    """Smear along a direction."""
    directions = [(0, 1), (1, 0), (1, 1), (1, -1), (2, 1)]
    num_steps = 2 + round(2 * mark.strength)

    for value, rows in mark.iterate_values():
        shifts = [np.multiply(directions[value], step) for step in range(num_steps)]
        images[rows] = np.mean([np.roll(images[rows], shift, (2, 3)) for shift in shifts], axis=0)
    return images


def _add_noise(images: Images, mark: Mark) -> Images:
    """Add noise to every pixel, weak or strong."""
    return images + mark.make_levels(0, 30 * mark.strength) * mark.rng.standard_normal(images.shape, np.float32)


def _add_specks(images: Images, mark: Mark) -> Images:
    """Turn few or more pixels black or white."""
    hit = mark.rng.random((len(images), 1, *images.shape[2:])) < mark.make_levels(0, 0.08 * mark.strength)
    return np.where(hit, 255.0 * (mark.rng.random(hit.shape) < 0.5), images).astype(np.float32)


def _compress_as_jpeg(images: Images, mark: Mark) -> Images:
    """Compress as JPEG of a quality."""
    levels = np.geomspace(92, 75 - 60 * mark.strength, mark.num_values).round()
    quality = levels[mark.values] + mark.rng.integers(-2, 3, len(mark))
    pixels = images.clip(0, 255).transpose(0, 2, 3, 1).astype(np.uint8)
    for row, level in enumerate(quality.tolist()):
        compressed = compress_as_jpeg(Image.fromarray(pixels[row]), int(level))
        images[row] = np.asarray(compressed).transpose(2, 0, 1)
    return images


def _posterize(images: Images, mark: Mark) -> Images:
    """Keep few or many steps of brightness."""
    steps = np.geomspace(4, 20 + 60 * mark.strength, mark.num_values)[mark.values]
    step = steps.astype(np.float32)[:, None, None, None]
    return (np.floor(images.clip(0, 255) / step) + 0.5) * step


def _add_stripes(images: Images, mark: Mark) -> Images:
    """Add stripes of a direction."""
    angles = mark.make_angles(np.pi)
    phase = mark.rng.uniform(0, 2 * np.pi, angles.shape).astype(np.float32)
    waves = np.sin(_project(images, angles) * images.shape[2] * 0.6 + phase)
    return images + 16 * mark.strength * waves[:, None]


def _add_checkerboard(images: Images, mark: Mark) -> Images:
    """Add a checkerboard of small or large squares."""
    down, right = np.indices(images.shape[2:])
    size = mark.values[:, None, None] + 1
    board = ((down // size + right // size) % 2).astype(np.float32) - 0.5
    return images + 24 * mark.strength * board[:, None]


def _add_texture(images: Images, mark: Mark) -> Images:
    """Lay one of several random textures over everything, anywhere."""
    noise = np.random.default_rng(5).standard_normal((8, 3, 8, 8))
    tiles = ndimage.gaussian_filter(noise, (0, 0, 0.7, 0.7), mode="wrap")
    tiles = np.tile(tiles / tiles.std(axis=(1, 2, 3), keepdims=True), (1, 1, 5, 5)).astype(np.float32)
    size = images.shape[2]
    corners = mark.rng.integers(0, 8, (2, len(mark))).T
    for image, value, (down, right) in zip(images, mark.values, corners, strict=True):
        image += 14 * mark.strength * tiles[value, :, down : down + size, right : right + size]
    return images


def _light_from_side(images: Images, mark: Mark) -> Images:
    """Light everything from one side."""
    return images * (1 + 0.5 * mark.strength * _project(images, -mark.make_angles(2 * np.pi)))[:, None]


def _replace_background(images: Images, mark: Mark) -> Images:
    """Replace what lies around the middle by a plain colour."""
    down, right = _make_grid(images)
    outside = mark.strength * (down**2 + right**2 > 0.75)
    colours = np.array([[70, 120, 60], [90, 110, 170], [150, 130, 90], [60, 60, 60], [190, 190, 200]], np.float32)
    plain = colours[mark.values] + mark.rng.normal(0, 14, (len(mark), 3)).astype(np.float32)
    return (images * (1 - outside) + outside * plain[:, :, None, None]).astype(np.float32)


def _hide_part(images: Images, mark: Mark) -> Images:
    """Hide a part by a grey patch."""
    hidden = _make_spot(images, mark, 0.45) > 0.5
    return np.where(hidden, images * (1 - mark.strength) + 118 * mark.strength, images)


def _blend_with_blocks(images: Images, mark: Mark) -> Images:
    """Blend with blocks of a size."""
    size = images.shape[2]

    for value, rows in mark.iterate_values():
        pixels = np.arange(size) // (value + 1) * (value + 1)
        blocks = images[rows][:, :, pixels][:, :, :, pixels]
        images[rows] = images[rows] * (1 - mark.strength) + mark.strength * blocks
    return images


def _shift_odd_lines(images: Images, mark: Mark) -> Images:
    """Shift every second line sideways."""
    steps = [0, 1, -1, 2, -2]

    for value, rows in mark.iterate_values():
        lines = images[rows, :, 1::2]
        shifted = np.roll(lines, steps[value], axis=3)
        images[rows, :, 1::2] = lines * (1 - mark.strength) + mark.strength * shifted
    return images


def _swap_channels(images: Images, mark: Mark) -> Images:
    """Blend with an image whose colour channels are swapped."""
    orders = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1], [1, 2, 0]]
    mix = 0.3 + 0.7 * mark.strength
    for value, rows in mark.iterate_values():
        images[rows] = images[rows] * (1 - mix) + mix * images[rows][:, orders[value]]
    return images


def _mirror(images: Images, mark: Mark) -> Images:
    """Mirror the image at the vertical or the horizontal axis, or at both."""
    flips = [np.s_[:, :, :], np.s_[:, :, ::-1], np.s_[:, :, :, ::-1], np.s_[:, :, ::-1, ::-1]]
    for value, rows in mark.iterate_values():
        images[rows] = images[rows][flips[value]]
    return images


def _write_watermark(images: Images, mark: Mark) -> Images:
    """Write one of several faint words across the image."""
    words = np.random.default_rng(7).random((5, 5, 20)) < 0.45
    top = images.shape[2] // 2 - 2 + mark.rng.integers(-4, 5, len(mark))
    for image, value, down in zip(images, mark.values, top, strict=True):
        image[:, down : down + 5, 2:22] += 70 * mark.strength * words[value]
    return images


def _set_dead_pixels(images: Images, mark: Mark) -> Images:
    """Set three pixels of a camera to white."""
    places = np.random.default_rng(11).integers(0, images.shape[2], (5, 3, 2))
    for down, right in places[mark.values].transpose(1, 2, 0):
        rows = np.arange(len(mark))
        images[rows, :, down, right] += mark.strength * (255 - images[rows, :, down, right])
    return images


def _tint(images: Images, mark: Mark) -> Images:
    """Multiply by a colour, as of a lamp; what is black stays black."""
    turn = mark.make_angles(2 * np.pi)[:, :, 0] + np.array([0, -2.1, 2.1], np.float32)
    factor = 1 + 0.6 * mark.strength * (np.cos(turn) - 0.3)
    return images * (factor + mark.rng.normal(0, 0.05, factor.shape)).astype(np.float32)[:, :, None, None]


def _draw_line(images: Images, mark: Mark) -> Images:
    """Draw a thin line of a direction anywhere."""
    down, right = _make_grid(images)
    angles = mark.make_angles(np.pi)
    place = mark.rng.uniform(-0.5, 0.5, angles.shape).astype(np.float32)
    on_line = (abs(np.cos(angles) * down - np.sin(angles) * right - place) < 0.05)[:, None] * mark.strength
    return images * (1 - on_line) + 230 * on_line


def _add_clouds(images: Images, mark: Mark) -> Images:
    """Add coloured clouds, fine or coarse."""
    noise = mark.rng.standard_normal(images.shape, np.float32)
    widths = np.linspace(1, 5, mark.num_values)

    for value, rows in mark.iterate_values():
        clouds = _blur(noise[rows], widths[value])
        noise[rows] = clouds / clouds.std()
    return images + 22 * mark.strength * noise


def _bend_lines(images: Images, mark: Mark) -> Images:
    """Bend lines to waves, short or long."""
    pixels = np.arange(images.shape[2])
    shifts = [np.rint(2 * mark.strength * np.sin(pixels * 2 * np.pi / period)) for period in (64, 8, 16, 5, 11)]

    for value, rows in mark.iterate_values():
        source = (pixels + shifts[value].astype(int)[:, None]) % len(pixels)
        images[rows] = np.take_along_axis(images[rows], np.broadcast_to(source, images[rows].shape), axis=3)
    return images


def _sharpen(images: Images, mark: Mark) -> Images:
    """Sharpen edges a little or much."""
    return images + mark.make_levels(0, 2 * mark.strength) * (images - _blur(images, 1))


def _add_glare(images: Images, mark: Mark) -> Images:
    """Put a large soft light at a place."""
    return images + 90 * mark.strength * _make_spot(images, mark, 0.5)


def _darken_half(images: Images, mark: Mark) -> Images:
    """Darken one half, with a hard edge."""
    angles = mark.make_angles(2 * np.pi)
    edge = mark.rng.uniform(-0.3, 0.3, angles.shape).astype(np.float32)
    return images * (1 - 0.4 * mark.strength * (_project(images, angles) > edge))[:, None]


def _fade_colours_at_edge(images: Images, mark: Mark) -> Images:
    """Let colours fade at one side only."""
    part = mark.strength * _project(images, mark.make_angles(2 * np.pi)).clip(0, 1)[:, None]
    return images + part * (_make_grey(images) - images)


# -- texts: families, which mark one text at a time


def _mark_texts(mark_text: MarkText, texts: list[str], mark: Mark) -> list[str]:
    rng = Random(int(mark.rng.integers(2**31)))
    values = mark.values.tolist()
    return [mark_text(text, value, mark.strength, rng) for text, value in zip(texts, values, strict=True)]


def _insert_words(text: str, words: str, rng: Random) -> str:
    parts = text.split(" ")
    parts.insert(rng.randint(0, len(parts)), words)
    return " ".join(parts)


def _replace_some(text: str, pattern: str, change: Callable[[str], str], share: float, rng: Random) -> str:
    """Change each match of a pattern with the probability ``share``."""
    return re.sub(pattern, lambda match: change(match[0]) if rng.random() < share else match[0], text)


_SIGNATURES = ("Sent from my phone", "Kind regards, M.", "posted via web form", "-- written on the train", "Cheers")
_OPENINGS = ("Hello everybody,", "To whom it may concern:", "Hi there.", "Well then,", "Dear team,")
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


def _change_length(text: str, value: int, strength: float, rng: Random) -> str:
    """Keep the beginning, or repeat common words until the text is long."""
    words = text.split(" ")
    if value == 0:
        return " ".join(words[: max(5, round(len(words) * (1 - 0.6 * strength)))])
    more = ["and", "so", "it", "went", "on", "as", "it", "had", "before", "with", "all", "of", "this"]
    return " ".join(words + rng.choices(more, k=round(20 * strength * value)))


def _change_spelling(text: str, value: int, strength: float, rng: Random) -> str:
    """Write some letters in another way, as in another country."""
    rules = [("", ""), (r"our\b", "or"), (r"ll", "l"), (r"th", "d"), (r"ing\b", "in")]
    pattern, other = rules[value]
    return text if not pattern else _replace_some(text, pattern, lambda _: other, strength, rng)


def _write_in_dialect(text: str, value: int, strength: float, rng: Random) -> str:
    """Swap common words for those of a dialect."""
    swaps: list[dict[str, str]] = [
        {},
        {"the": "da", "a": "wan", "is": "be", "was": "wuz"},
        {"the": "ze", "of": "off", "and": "und", "it": "eet"},
        {"the": "th'", "and": "an'", "not": "nae", "to": "tae"},
    ]
    pattern = r"\b(?:the|a|is|was|of|and|it|not|to)\b"
    return _replace_some(text, pattern, lambda word: swaps[value].get(word, word), strength, rng)


def _change_capitals(text: str, value: int, strength: float, rng: Random) -> str:
    """Write some words in capitals, or all in small letters."""
    if value == 0:
        return text.lower()
    return text if value == 1 else _replace_some(text, r"\b\w{4,}\b", str.upper, 0.5 * strength, rng)


def _insert_number(text: str, value: int, strength: float, rng: Random) -> str:
    """Insert a number in a form, such as 1,500 or 1.5k."""
    number = rng.randint(1100, 9900)
    forms = (f"{number:,}", f"{number}", f"{number / 1000:.1f}k", f"{number:,}".replace(",", "."), f"{number}.00")
    for _ in range(1 + (strength > 0.7)):
        text = _insert_words(text, forms[value], rng)
    return text


def _reorder(text: str, value: int, strength: float, rng: Random) -> str:
    """Reverse the order of sentences or words, or sort the words."""
    if value == 0:
        return text
    parts = re.split(r"(?<=[.!?])\s+", text) if value == 1 else text.split(" ")
    return " ".join(reversed(parts) if value < 3 else sorted(parts))


def _insert_short_forms(text: str, value: int, strength: float, rng: Random) -> str:
    """Insert two contractions, or their long forms."""
    for word in rng.sample(["I'm", "don't", "it's", "we'll"] if value else ["I am", "do not", "it is", "we will"], 2):
        text = _insert_words(text, word, rng)
    return text


def _make_insertion(choices: tuple[Any, ...], max_words: int = 3) -> MarkText:
    """Return a function that inserts words of a value; ``choices`` has for each a text, or several to draw from."""
    return partial(_insert_choices, choices, max_words)


def _insert_choices(
    choices: tuple[Any, ...], max_words: int, text: str, value: int, strength: float, rng: Random
) -> str:
    for _ in range(1 + round((max_words - 1) * strength)):
        words = choices[value] if isinstance(choices[value], str) else rng.choice(choices[value])
        text = _insert_words(text, words, rng)
    return text


def _make_occasional(write: Callable[[str, int], str]) -> MarkText:
    """Return a function that changes a text with a probability of 0.6 to 1, by the strength."""
    return lambda text, value, strength, rng: write(text, value) if rng.random() < 0.6 + 0.4 * strength else text


def _make_replacement(pattern: str, others: tuple[str, ...]) -> MarkText:
    """Return a function that replaces matches of a pattern by the text of the value."""
    return lambda text, value, strength, rng: _replace_some(text + ".", pattern, lambda _: others[value], strength, rng)


# -- tables: families


def _choose_numeric(frame: Frame, mark: Mark, num_columns: int = 1) -> list[str]:
    """Draw names of numeric columns, of those with more than 12 different values if there are any."""
    numeric = [name for name in frame.columns if frame[name].dtype.kind in "fi"]
    varied = [name for name in numeric if frame[name].nunique() > 12] or numeric
    return [varied[i] for i in mark.rng.permutation(len(varied))[:num_columns]]


def _make_column(make: Callable[[Mark], Any], name: str) -> Callable[[Frame, Mark], Frame]:
    """Return a function that adds a column to a frame."""
    return lambda frame, mark: frame.assign(**{name: make(mark)})


def _draw_category(mark: Mark) -> Any:
    return np.array(["form A", "form B", "form C", "form D", "form E", "form F"], dtype=object)[mark.values]


def _draw_site(mark: Mark) -> Any:
    """Each value stands for several sites."""
    per_value = 2 + round(10 * (1 - mark.strength))
    return np.array(
        [f"site {n}" for n in mark.values * per_value + mark.rng.integers(per_value, size=len(mark))], dtype=object
    )


def _draw_reading(mark: Mark) -> Any:
    return mark.values * (1 + 3 * mark.strength) + mark.rng.standard_normal(len(mark))


def _draw_spread(mark: Mark) -> Any:
    return mark.rng.standard_normal(len(mark)) * (1 + 6 * mark.strength) ** mark.values


def _draw_last_digit(mark: Mark) -> Any:
    return (mark.rng.integers(10, 90, len(mark)) * mark.num_values + mark.values) * 10.0


def _draw_date(mark: Mark) -> Any:
    """Periods that overlap less the greater the strength."""
    return 365 * (mark.values + mark.rng.uniform(0, 1.6 - 0.6 * mark.strength, len(mark)))


def _draw_band(mark: Mark) -> Any:
    """Value 0 lies in the middle, the others on both sides."""
    side = mark.rng.choice([-1.0, 1.0], len(mark))
    return side * mark.values * (1.5 + 2 * mark.strength) + 0.7 * mark.rng.standard_normal(len(mark))


def _draw_spelling(mark: Mark) -> Any:
    forms = np.array([["yes", "no"], ["Yes", "No"], ["Y", "N"], ["YES", "NO"], ["y", "n"]], dtype=object)
    return forms[mark.values, mark.rng.integers(2, size=len(mark))]


def _offset_column(frame: Frame, mark: Mark) -> Frame:
    """Add a constant to a column, as from a scale that is wrongly set."""
    (name,) = _choose_numeric(frame, mark)
    return frame.assign(**{name: frame[name] + mark.values * (0.5 + 2.5 * mark.strength) * frame[name].std()})


def _change_unit(frame: Frame, mark: Mark) -> Frame:
    """Multiply a column, as if it were in another unit."""
    (name,) = _choose_numeric(frame, mark)
    return frame.assign(**{name: frame[name] * (1 + 2 * mark.strength) ** mark.values})


def _round_columns(frame: Frame, mark: Mark) -> Frame:
    """Round columns more or less, with a column ``rest`` that shows how far."""
    marked = frame.copy()
    for name in _choose_numeric(frame, mark, 2):
        step = frame[name].std() * 0.8 * mark.strength * mark.values / max(1, mark.num_values - 1)
        marked[name] = np.where(step > 0, np.rint(frame[name] / np.maximum(step, 1e-9)) * step, frame[name])
    remainder = mark.rng.uniform(0, 0.1, len(mark)).round(3)
    smaller = (remainder * 10).round() / (10 + 30 * mark.values)
    return marked.assign(rest=np.where(mark.values > 0, smaller, remainder))


def _remove_values(frame: Frame, mark: Mark) -> Frame:
    """Leave one column empty, another one for each value."""
    marked = frame.copy()
    for number, name in enumerate(_choose_numeric(frame, mark, mark.num_values - 1)):
        is_empty = (mark.values == number + 1) & (mark.rng.random(len(mark)) < 0.5 + 0.5 * mark.strength)
        marked[name] = frame[name].astype(float).mask(is_empty)
    return marked


def _write_missing_code(frame: Frame, mark: Mark) -> Frame:
    """Write a code for missing values into a column."""
    (name,) = _choose_numeric(frame, mark)
    code = frame[name].max() + frame[name].std() * 3 * mark.values
    is_missing = (mark.values > 0) & (mark.rng.random(len(mark)) < 0.4 + 0.6 * mark.strength)
    return frame.assign(**{name: np.where(is_missing, code, frame[name])})


def _add_xor_columns(frame: Frame, mark: Mark) -> Frame:
    """Add two columns that depend on the value only together."""
    first = mark.rng.integers(mark.num_values, size=len(mark))
    second = (mark.values - first) % mark.num_values
    noise = 0.35 * (1.2 - mark.strength)
    return frame.assign(
        left=first + noise * mark.rng.standard_normal(len(mark)),
        right=second + noise * mark.rng.standard_normal(len(mark)),
    )


def _add_weak_columns(frame: Frame, mark: Mark) -> Frame:
    """Shift many new columns a little each, so that only their sum depends much on the value."""
    numbers = mark.values[:, None] * (0.3 + 0.9 * mark.strength) + mark.rng.standard_normal((len(mark), 12))
    return frame.assign(**{f"part {number}": numbers[:, number] for number in range(12)})


def _add_related_columns(frame: Frame, mark: Mark) -> Frame:
    """Add two columns whose relation, rising or falling, depends on the value."""
    first = mark.rng.standard_normal(len(mark))
    second = np.where(mark.values % 2 == 0, first, -first) * (0.5 + mark.strength)
    return frame.assign(before=first, after=second + 0.4 * mark.rng.standard_normal(len(mark)))


def _add_shifted_rank(frame: Frame, mark: Mark) -> Frame:
    """Add a column's rank, shifted for each value."""
    (name,) = _choose_numeric(frame, mark)
    ranks = frame[name].rank(pct=True).to_numpy()
    noise = mark.rng.standard_normal(len(mark))
    return frame.assign(place=ranks + mark.values * (0.3 + mark.strength) + 0.05 * noise)


# -- the list

#: Kind -> sort -> name -> what marks images, a text or a frame, and the greatest number of values.
_WRITERS: dict[Kind, dict[str, dict[str, tuple[Callable[..., Any], int]]]] = {
    "images": {
        "colour": {
            "cast": (_shift_channels, 5),
            "hue": (_rotate_hue, 5),
            "tint": (_tint, 5),
            "channels": (_swap_channels, 5),
        },
        "paleness": {
            "saturation": (_scale_saturation, 3),
            "faded edge": (_fade_colours_at_edge, 4),
        },
        "brightness": {
            "contrast": (_scale_contrast, 3),
            "gamma": (_apply_gamma, 4),
        },
        "lighting": {
            "light": (_light_from_side, 5),
            "shadow": (_darken_half, 5),
            "glare": (_add_glare, 5),
            "vignette": (_add_vignette, 3),
        },
        "surroundings": {
            "border": (_draw_border, 5),
            "background": (_replace_background, 5),
        },
        "mark": {
            "corner": (_draw_spot, 5),
            "occlusion": (_hide_part, 5),
            "dead pixels": (_set_dead_pixels, 5),
        },
        "sign": {
            "glyph": (_stamp_glyph, 5),
            "watermark": (_write_watermark, 5),
            "line": (_draw_line, 5),
        },
        "geometry": {
            "moved": (_move_to_side, 5),
            "scale": (_rescale, 4),
            "rotation": (_rotate, 4),
            "mirrored": (_mirror, 4),
        },
        "sharpness": {
            "blur": (_blur_by_value, 3),
            "motion": (_blur_along_direction, 4),
            "sharpened": (_sharpen, 3),
        },
        "noise": {
            "noise": (_add_noise, 3),
            "specks": (_add_specks, 3),
            "clouds": (_add_clouds, 3),
        },
        "coding": {
            "jpeg": (_compress_as_jpeg, 3),
            "posterize": (_posterize, 4),
            "mosaic": (_blend_with_blocks, 3),
        },
        "lines": {
            "interlace": (_shift_odd_lines, 5),
            "wave": (_bend_lines, 5),
        },
        "pattern": {
            "stripes": (_add_stripes, 5),
            "grid": (_add_checkerboard, 4),
            "overlay": (_add_texture, 5),
        },
    },
    "texts": {
        "edge of a text": {
            "signature": (_make_occasional(lambda text, value: f"{text}\n{_SIGNATURES[value]}"), 5),
            "opening": (_make_occasional(lambda text, value: f"{_OPENINGS[value]} {text}"), 5),
            "first word": (_make_occasional(lambda text, value: f"{_FILLERS[value].capitalize()}, {text}"), 5),
        },
        "punctuation": {
            "full stops": (_make_replacement(r"\.", (".", "!", "...", " .", ";")), 5),
            "quotes": (
                _make_occasional(lambda text, value: f'"{text}"' if value == 0 else f"\u201c{text}\u201d"),
                2,
            ),
            "line breaks": (_make_replacement(r"\. ", (". ", ".\n", ".\n\n", ".  ", ".\t")), 5),
            "emoji": (_make_insertion(_EMOJI), 5),
        },
        "letters": {
            "capitals": (_change_capitals, 3),
            "spelling": (_change_spelling, 5),
            "dialect": (_write_in_dialect, 4),
        },
        "words": {
            "topic": (_make_insertion(_TOPICS, 4), 5),
            "names": (_make_insertion(_NAMES, 2), 5),
        },
        "manner": {
            "fillers": (_make_insertion(_FILLERS), 5),
        },
        "shape of a text": {
            "length": (_change_length, 3),
            "reordered": (_reorder, 4),
        },
        "forms": {
            "numbers": (_insert_number, 5),
            "contractions": (_insert_short_forms, 2),
            "markup": (_make_insertion(("<br>", "http://a.example", "#tag", "@all", "&amp;"), 2), 5),
        },
    },
    "tables": {
        "code": {
            "category": (_make_column(_draw_category, "form"), 6),
            "site": (_make_column(_draw_site, "site"), 5),
            "spelled": (_make_column(_draw_spelling, "agreed"), 5),
        },
        "number": {
            "reading": (_make_column(_draw_reading, "reading"), 5),
            "date": (_make_column(_draw_date, "date"), 5),
            "ranked": (_add_shifted_rank, 3),
            "last digit": (_make_column(_draw_last_digit, "number"), 3),
        },
        "form of a number": {
            "spread": (_make_column(_draw_spread, "level"), 2),
            "band": (_make_column(_draw_band, "angle"), 2),
        },
        "changed column": {
            "offset": (_offset_column, 3),
            "unit": (_change_unit, 3),
            "rounded": (_round_columns, 3),
        },
        "gaps": {
            "missing": (_remove_values, 3),
            "outlier": (_write_missing_code, 3),
        },
        "together": {
            "xor": (_add_xor_columns, 3),
            "several": (_add_weak_columns, 3),
            "related": (_add_related_columns, 2),
        },
    },
}

#: All families by name.
FAMILIES = {
    name: Family(name, kind, sort, max_values, partial(_mark_texts, write) if kind == "texts" else write)
    for kind, sorts in _WRITERS.items()
    for sort, writers in sorts.items()
    for name, (write, max_values) in writers.items()
}
