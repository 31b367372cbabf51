"""The view of files: size, format, camera, name, folder and order, without the content.

Images of one label often come from another camera, clinic or day than those of the other, which a network can learn.
"""

from __future__ import annotations

import math
import re
import warnings
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ExifTags, Image
from torch import Tensor

from logit_correction.threads import MAX_THREADS, count_available_cores, map_in_threads
from logit_correction.types import ViewInputs
from logit_correction.views.base import View

#: The image formats that are read. Pillow reads more, but one of them, EPS, by starting another program.
IMAGE_FORMATS = ["BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP"]
IMAGE_FORMATS += ["AVIF"] * (find_spec("PIL.AvifImagePlugin") is not None)  # from Pillow 11.3 on

#: The formats that the view distinguishes.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")


class FileFacts(View):
    """Facts about a row's file other than its content: 75 numbers, 0 where unknown.

    Size of the file, width, height and their ratio, format, sums of the JPEG quantisation tables, number of EXIF
    entries, camera, software and hour. Extension and length of the name, and the folder above the file's own, which
    may be a hospital or a day. The file's own folder is left out: it is usually the label. Last, the position of
    the row in its source, as a share of the last one of training, and sines and cosines of it. Texts are hashed, so
    that new ones need no vocabulary. Rows without a position lie at the mean of training; they may come from folders of
    labels, so that folders above their files do not count.

    Attributes:
        last_position: The highest position of a training row; 0 before ``fit``.
        usual_order: (7,) means of what is made of the position, over the training rows.
    """

    name = "file"
    breadth = 0
    needs = "the files that the rows were read from"

    NUM_PLACE_FEATURES = 23  # of the folder and the position, the last ones: other data always lie elsewhere

    NUM_FOLDER_SLOTS = 16

    last_position: int = 0
    usual_order: Tensor = torch.zeros(7)

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return inputs.files is not None

    def fit(self, inputs: ViewInputs) -> None:
        if inputs.position is not None and len(inputs.position):
            self.last_position = int(inputs.position.max())
            self.usual_order = self._describe_position(inputs.position).mean(dim=0)

    def _describe_position(self, position: NDArray[np.int64]) -> Tensor:
        """Return the share of the last position, and its sines and cosines, (N, 7)."""
        place = torch.as_tensor(position, dtype=torch.float64).unsqueeze(1)
        place = place / max(1, self.last_position or int(position.max(initial=0)))
        angle = 2 * math.pi * place * torch.tensor((1, 2, 4), dtype=torch.float64)
        return torch.cat([place, angle.sin(), angle.cos()], dim=1).float()

    def features(self, inputs: ViewInputs) -> Tensor:
        threads = min(MAX_THREADS, 4 + count_available_cores())  # more than cores, since they wait for the disk
        files = [Path(file) for file in inputs.files or ()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about huge or oddly written images, which are not decoded here
            facts = torch.tensor(list(map_in_threads(_read_file_facts, files, threads=threads)))
        if inputs.position is not None:
            return torch.cat([facts, self._describe_position(inputs.position)], dim=1)
        facts[:, -self.NUM_FOLDER_SLOTS :] = 0
        return torch.cat([facts, self.usual_order.expand(inputs.num_rows, 7)], dim=1)


def _read_file_facts(file: Path) -> list[float]:
    """Return 43 numbers of the header, zeros if it cannot be read, and 25 of the name."""
    name = [
        *_hash_one_hot(file.suffix.lower(), 8),
        math.log1p(len(file.name)),
        *_hash_one_hot(file.parent.parent.name, FileFacts.NUM_FOLDER_SLOTS),
    ]
    try:
        size = file.stat().st_size
        with Image.open(file, formats=IMAGE_FORMATS) as image:
            width, height = image.size
            shape = [math.log1p(size), math.log(width), math.log(height), math.log(width / height)]
            formats = [float(image.format == known_format) for known_format in FORMATS]
            tables = getattr(image, "quantization", None) or {}  # the coarser, the greater
            sums = [math.log1p(sum(tables.get(index, ()))) for index in range(4)]
            return [*shape, *formats, float(image.format not in FORMATS), *sums, *_read_exif_facts(image), *name]
    except Exception:  # Pillow raises errors of many kinds for damaged files, which must not stop the others
        return [0.0] * 43 + name


def _read_exif_facts(image: Image.Image) -> list[float]:
    """Return 28 numbers: of EXIF entries, camera and software, and hour as sine, cosine and whether it is known."""
    if image.format == "PNG" and "exif" not in image.info:
        return [0.0] * 28  # Pillow would decode the whole image to search it
    tag = ExifTags.Base
    exif = image.getexif()
    photo_entries = exif.get_ifd(ExifTags.IFD.Exif)
    texts = [str(exif.get(entry, "")).strip("\0 ") for entry in (tag.Make, tag.Model, tag.Software)]
    camera = [slot for text in texts for slot in _hash_one_hot(text, 8)]
    time = re.search(r" (\d\d):\d\d", str(photo_entries.get(tag.DateTimeOriginal) or exif.get(tag.DateTime) or ""))
    hour = [0.0, 0.0, 0.0]
    if time:
        angle = 2 * math.pi * int(time[1]) / 24
        hour = [math.sin(angle), math.cos(angle), 1.0]
    return [math.log1p(len(exif) + len(photo_entries)), *camera, *hour]


def _hash_one_hot(text: str, num_slots: int) -> list[float]:
    """Return ``num_slots`` numbers, 1 at the slot of the text's hash; zeros if the text is empty."""
    hot = zlib.crc32(text.encode(errors="replace")) % num_slots if text else -1
    return [float(slot == hot) for slot in range(num_slots)]
