"""The view of files: size, format, camera, name, folder and order, without the content."""

from __future__ import annotations

import math
import re
import warnings
import zlib
from importlib.util import find_spec
from pathlib import Path

import torch
from PIL import ExifTags, Image
from torch import Tensor

from logit_correction.threads import MAX_THREADS, count_available_cores, map_in_threads
from logit_correction.types import ViewInputs
from logit_correction.views.base import View

#: The formats that images are read in: not all that Pillow knows, for one of them, EPS, starts another program.
IMAGE_FORMATS = ["BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP"]
IMAGE_FORMATS += ["AVIF"] * (find_spec("PIL.AvifImagePlugin") is not None)  # from Pillow 11.3 on


class FileFacts(View):
    """What can be told of a row's file without looking at its content: 75 numbers, 0 where unknown.

    Size of the file, width, height and their ratio, format, sums of the JPEG quantisation tables, number of EXIF
    entries, camera, software and hour. Extension and length of the name, and the folder above the file's own, which
    may be a hospital or a day. The file's own folder is left out: it is usually the label. Last, where the row stands
    in its source, in [0, 1], and waves over it. Texts are hashed, so that new ones need no vocabulary.
    """

    name = "file"
    breadth = 0
    needs = "the files that the rows were read from"

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return inputs.files is not None

    def features(self, inputs: ViewInputs) -> Tensor:
        threads = min(MAX_THREADS, 4 + count_available_cores())  # a few reads each: the waiting for a disk is shared
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of huge or oddly written images: they are not decoded here
            table = torch.tensor(list(map_in_threads(_facts, [*map(Path, inputs.files or ())], threads=threads)))
        order = torch.zeros(inputs.num_rows, 7)
        if inputs.position is not None:
            position = torch.as_tensor(inputs.position, dtype=torch.float64).unsqueeze(1)
            place = position / position.max().clamp_min(1)
            angle = 2 * math.pi * place * torch.tensor((1, 2, 4), dtype=torch.float64)
            order = torch.cat([place, angle.sin(), angle.cos()], dim=1).float()
        return torch.cat([table, order], dim=1)


def _facts(file: Path) -> list[float]:
    """Return 43 numbers of the header, zeros where it cannot be read, and 25 of the name."""
    name = [*_hashed(file.suffix.lower(), 8), math.log1p(len(file.name)), *_hashed(file.parent.parent.name, 16)]
    try:
        size = file.stat().st_size
        with Image.open(file, formats=IMAGE_FORMATS) as image:
            width, height = image.size
            shape = [math.log1p(size), math.log(width), math.log(height), math.log(width / height)]
            known = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")
            kinds = [*(float(image.format == one) for one in known), float(image.format not in known)]
            tables = getattr(image, "quantization", None) or {}  # the coarser, the greater
            sums = [math.log1p(sum(tables.get(index, ()))) for index in range(4)]
            return [*shape, *kinds, *sums, *_exif(image), *name]
    except Exception:  # Pillow raises errors of many kinds for damaged files, and one of them must not end it all
        return [0.0] * 43 + name


def _exif(image: Image.Image) -> list[float]:
    """Return 28 numbers: of EXIF entries, camera and software, and hour as sine, cosine and whether it is known."""
    if image.format == "PNG" and "exif" not in image.info:
        return [0.0] * 28  # Pillow would decode the whole image to look for it
    exif, tag = image.getexif(), ExifTags.Base
    further = exif.get_ifd(ExifTags.IFD.Exif)
    told = [str(exif.get(one, "")).strip("\0 ") for one in (tag.Make, tag.Model, tag.Software)]
    camera = [slot for text in told for slot in _hashed(text, 8)]
    time = re.search(r" (\d\d):\d\d", str(further.get(tag.DateTimeOriginal) or exif.get(tag.DateTime) or ""))
    angle = 2 * math.pi * int(time[1]) / 24 if time else 0.0
    hour = [math.sin(angle), math.cos(angle), 1.0] if time else [0.0, 0.0, 0.0]
    return [math.log1p(len(exif) + len(further)), *camera, *hour]


def _hashed(text: str, slots: int) -> list[float]:
    """Return one-hot numbers of a text; zeros if it is empty."""
    chosen = zlib.crc32(text.encode(errors="replace")) % slots if text else -1
    return [float(slot == chosen) for slot in range(slots)]
