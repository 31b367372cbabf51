"""Image files decoded to RGB bytes: of any mode, depth and orientation, on white, and upright.

Most files hold 8 bits a pixel. Of 12 or 16 bits, of signed numbers and of floats a file does not say which number is
black and which is white, so each depth has a range, taken from the files of training.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from logit_correction.paths import reject_special_file
from logit_correction.views.files import IMAGE_FORMATS

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

#: First letters of Pillow's modes of more than eight bits.
DEEP_MODES = ("I", "F")

#: The depth of most images, and the others, each with a range of its own.
BYTES = "8 bits"
DEPTHS = ("12 bits", "16 bits", "16 bits with a sign", "32 bits", "32 bits with a sign", "floats")

#: Depth of pixels -> the numbers that become black and white.
Range = tuple[float, float]
Ranges = Mapping[str, Range]

#: An image lies outside of a range if this share of its pixels lies more than one step of 255 outside.
MAX_SHARE_OUTSIDE = 0.001

#: Images whose pixels, of 0 to 255, lie closer together are reported: 12 of 16 bits fill no more.
DIM = 16

#: Pixels that are decoded of one file, about 500 MB in memory. A JPEG may have more, since it is decoded reduced.
MAX_PIXELS = 2**26

#: Rows of pixels of more than 8 bits that are scaled at a time.
SCALED_ROWS = 256

#: Orientation in EXIF -> what sets an image upright.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

#: Tags of EXIF and TIFF: the orientation, the bits of a number, and whether it has a sign.
ORIENTATION = 0x0112
BITS_PER_SAMPLE = 258
SAMPLE_FORMAT = 339

#: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle; ``centre`` stretches to 8/7 of the
#: size and takes the middle: from 256 x 256 for 224, as torchvision's Resize((256, 256)) and CenterCrop(224).
Resizing = Literal["stretch", "crop", "centre"]

#: Longest side that images are read at by default; networks of photos want no more.
DEFAULT_MAX_SIDE = 224

#: Files by which the size and the ranges of all are chosen, and pixels of each by which usual ones are.
SURVEYED_FILES = 100
SURVEYED_PIXELS = 10_000


class Picture(NamedTuple):
    """A decoded image.

    Attributes:
        pixels: (3, height, width) unsigned bytes.
        depth: Which pixels its file holds: ``8 bits`` or one of ``DEPTHS``.
        traits: ``outside`` of pixels outside of the range, which became black or white; ``animated`` of a file of
            further frames or pages, which are not read; ``constant`` of one colour throughout, and ``dim`` of pixels
            that are nearly equal.
    """

    pixels: NDArray[np.uint8]
    depth: str
    traits: list[str]


def read_pixel_depth(file: Image.Image) -> str:
    """Return which pixels a file declares: ``8 bits`` or one of ``DEPTHS``."""
    if not file.mode.startswith(DEEP_MODES):
        return BYTES
    if file.mode.startswith("F"):
        return "floats"
    tags = getattr(file, "tag_v2", {}) if file.format == "TIFF" else {}
    bits = np.atleast_1d(tags.get(BITS_PER_SAMPLE, 16))[0]
    is_signed = 2 in np.atleast_1d(tags.get(SAMPLE_FORMAT, 1))
    return f"{bits} bits with a sign" if is_signed else f"{bits} bits"


def read_exif_orientation(file: Image.Image) -> int:
    """Return how an image is turned by its EXIF, 1 if its EXIF cannot be read, since the image itself can."""
    try:
        return int(file.getexif().get(ORIENTATION, 1))
    except Exception:  # SyntaxError is among what Pillow raises
        return 1


@contextmanager
def ignore_image_warnings() -> Iterator[None]:
    """Silence Pillow's warnings of EXIF that it cannot read, and of large images; they do not name the file."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        yield


def check_num_pixels(file: Image.Image) -> None:
    """Raise ``ValueError`` if decoding a file would take too much memory."""
    width, height = file.size
    if width * height > MAX_PIXELS:
        raise ValueError(f"it has {width:,} x {height:,} pixels, more than {MAX_PIXELS:,}: save it smaller, or as JPEG")


def read_picture(
    path: Path, size: tuple[int, int] | None, resizing: Resizing = "stretch", ranges: Ranges | None = None
) -> Picture:
    """Read one image file as RGB on white, upright.

    Args:
        path: The file.
        size: Height and width; None for those of the file, however large they are.
        resizing: How it is resized.
        ranges: For pixels of more than 8 bits, the numbers that become black and white; None takes those of the file.

    Raises:
        ValueError: If the file has more than ``MAX_PIXELS``, or a depth that ``ranges`` does not have.
        Exception: Any error of Pillow on a damaged file.
    """
    box = size and (size[1], size[0])
    is_outside = False
    with Image.open(reject_special_file(path), formats=IMAGE_FORMATS) as file:
        depth = read_pixel_depth(file)
        if box is not None:
            # JPEG can be decoded at a half, a quarter or an eighth of its size, which takes a fraction of the time.
            # Twice the size that is asked for is kept, so that the resizing below has something to average over.
            file.draft("RGB", (2 * box[0], 2 * box[1]))
            check_num_pixels(file)
        file.load()  # Pillow turns TIFF upright here, and its orientation is 1 afterwards
        image: Image.Image = file
        if depth != BYTES:  # Pillow would clip it
            image, is_outside = _scale_deep_image(file, depth, ranges)
        orientation = read_exif_orientation(file)
        if orientation in UPRIGHT:
            image = image.transpose(UPRIGHT[orientation])
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            layer = image if image.mode == "RGBA" else image.convert("RGBA")
            image = Image.new("RGB", image.size, "white")
            image.paste(layer, mask=layer)  # the colour of transparent pixels is mostly black
        if image.mode != "RGB":  # a copy of a large image would take as much memory again
            image = image.convert("RGB")
        if box is not None:
            image = _resize(image, box, resizing)
        pixels = np.ascontiguousarray(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1))
        spread = np.ptp(pixels, axis=(1, 2)).max()
        traits = {
            "outside": is_outside,
            "animated": getattr(file, "is_animated", False),
            "constant": spread == 0,
            "dim": 0 < spread <= DIM,
        }
    return Picture(pixels, depth, [name for name, holds in traits.items() if holds])


def _scale_deep_image(file: Image.Image, depth: str, ranges: Ranges | None) -> tuple[Image.Image, bool]:
    """Return an image of more than 8 bits as bytes, and whether its pixels lie outside of the range of its depth."""
    if ranges is not None and depth not in ranges:
        trained = ", ".join(ranges) or BYTES
        raise ValueError(f"its pixels have {depth}, and the others' {trained}: save it as the others are")
    pixels = np.nan_to_num(np.asarray(file))
    low, high = (float(pixels.min()), float(pixels.max())) if ranges is None else ranges[depth]
    grey = np.empty(pixels.shape, np.uint8)
    num_outside = 0
    for start in range(0, len(pixels), SCALED_ROWS):  # all at once would take eight bytes a pixel, several times
        part = slice(start, start + SCALED_ROWS)
        scaled = (pixels[part].astype(np.float64) - low) / ((high - low) or 1)
        num_outside += int(np.count_nonzero((scaled < -1 / 255) | (scaled > 256 / 255)))
        grey[part] = (255 * scaled.clip(0, 1)).round()
    return Image.fromarray(grey), num_outside > MAX_SHARE_OUTSIDE * pixels.size


def _resize(image: Image.Image, box: tuple[int, int], resizing: Resizing) -> Image.Image:
    """Return an image of this width and height."""
    bilinear = Image.Resampling.BILINEAR
    if resizing == "centre":
        image = image.resize((round(box[0] * 8 / 7), round(box[1] * 8 / 7)), bilinear)
        x = round((image.width - box[0]) / 2)
        y = round((image.height - box[1]) / 2)
        return image.crop((x, y, x + box[0], y + box[1]))
    if image.size == box:
        return image
    return ImageOps.fit(image, box, bilinear) if resizing == "crop" else image.resize(box, bilinear)


class PixelSurvey(NamedTuple):
    """Pixels of more than 8 bits of one file.

    Attributes:
        low: The smallest.
        high: The largest.
        usual: The numbers between which four fifths of its pixels lie.
        path: The file.
    """

    low: float
    high: float
    usual: Range
    path: Path


def infer_side_and_ranges(paths: Sequence[Path]) -> tuple[int, dict[str, Range], tuple[str, ...]]:
    """Choose the size of images and the ranges of pixels by up to 100 files.

    Which numbers of 12 bits or of a sensor are black and white is unknown, so the smallest and the largest are taken.

    Args:
        paths: The files of training.

    Returns:
        The median shorter side, at most 224; the range of each depth over 8 bits; and notes about pixels that stretch
        a range so far that others are nearly equal.
    """
    sides = []
    surveys: dict[str, list[PixelSurvey]] = {}
    for path in paths[:: max(1, len(paths) // SURVEYED_FILES)]:
        # A file that cannot be read is reported when all are read.
        with (
            suppress(Exception),
            ignore_image_warnings(),
            Image.open(reject_special_file(path), formats=IMAGE_FORMATS) as file,
        ):
            sides.append(min(file.size))
            depth = read_pixel_depth(file)
            if depth != BYTES:
                check_num_pixels(file)
                pixels = np.nan_to_num(np.asarray(file))
                sample = pixels.reshape(-1)[:: max(1, pixels.size // SURVEYED_PIXELS)]
                usual = (float(np.quantile(sample, 0.1)), float(np.quantile(sample, 0.9)))
                survey = PixelSurvey(float(pixels.min()), float(pixels.max()), usual, path)
                surveys.setdefault(depth, []).append(survey)
    side = min(DEFAULT_MAX_SIDE, int(np.median(sides))) if sides else DEFAULT_MAX_SIDE
    ranges = {}
    notes = []
    for depth, files in sorted(surveys.items()):
        ranges[depth] = (min(file.low for file in files), max(file.high for file in files))
        notes += describe_outlying_pixel(files)
    return side, ranges, tuple(notes)


def describe_outlying_pixel(files: Sequence[PixelSurvey]) -> list[str]:
    """Return a note on the pixel that stretches the range of a depth most, if usual pixels become nearly equal by it.

    It may be a marker of missing values, such as -9999, or a defect of a sensor.
    """
    low = float(np.quantile([file.usual[0] for file in files], 0.1))
    high = float(np.quantile([file.usual[1] for file in files], 0.9))
    darkest = min(files, key=lambda file: file.low)
    brightest = max(files, key=lambda file: file.high)
    if not 0 < 255 * (high - low) < DIM * (brightest.high - darkest.low):
        return []
    is_dark = low - darkest.low > brightest.high - high
    path = darkest.path if is_dark else brightest.path
    value = darkest.low if is_dark else brightest.high
    fact = f"{path} has a pixel of {value:g}, and most pixels lie between {low:g} and {high:g}"
    return [f"{fact}, so these are nearly equal: if it is a missing value or a defect, replace it"]
