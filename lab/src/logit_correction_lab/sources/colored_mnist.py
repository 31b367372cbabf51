"""MNIST in ten colours: the Colored MNIST of the paper."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from logit_correction.data.augment import CropFlip
from logit_correction.data.digits import COLORS, JITTER, ColoredStore, PlantedAttribute, draw_jittered_colors
from logit_correction.data.images import ImageReader
from logit_correction.data.source import DataSource
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, check_choice, check_range
from logit_correction.formatting import format_option
from logit_correction.seeds import make_generator
from logit_correction_lab.sources.published import get_data_folder, sample_validation_split

#: Rows of MNIST's training part, which comes first.
NUM_MNIST_TRAIN = 60_000

#: Rows of them that ``ColoredMNIST`` trains on; it validates on the others.
NUM_TRAIN = 55_000

#: Name of a scaling -> the factor of pixels in [0, 1].
SCALINGS = {"unit": 1.0, "double": 1 / 255}


def read_mnist(root: Path, download: bool) -> tuple[Tensor, Tensor]:
    """Return MNIST's 70,000 digits (P, 28, 28) as unsigned bytes, and what they are (P,); its test part comes last.

    Args:
        root: Folder that holds ``MNIST/raw``.
        download: Whether torchvision may download MNIST where it is missing.

    Raises:
        InputError: The files are missing or damaged.
    """
    from torchvision.datasets import MNIST

    try:
        parts = [MNIST(str(root), train=train, download=download) for train in (True, False)]
        glyphs = torch.cat([part.data for part in parts])
        digits = torch.cat([part.targets for part in parts])
        if len(parts[0].data) != NUM_MNIST_TRAIN or glyphs.shape != (70_000, 28, 28) or digits.shape != (70_000,):
            raise ValueError("these are not the images and labels of MNIST")
    except (RuntimeError, OSError, ValueError, AssertionError, TypeError, LookupError) as error:
        # torchvision asserts the file's format without a message, and looks its type up in a dict.
        reason = "" if isinstance(error, LookupError) else str(error).partition("\n")[0]
        raise InputError(
            f"MNIST cannot be read from {root} ({reason or 'a file is not in its format'}): put its four idx files "
            f"into MNIST/raw there, name another folder by {format_option('data.root')} or LOGIT_CORRECTION_DATA, or "
            "delete damaged files to download them"
        ) from error
    return glyphs, digits


class ColoredMNIST(DataSource):
    """MNIST in ten colours: 55,000 train, 5,000 valid, 10,000 test; colours uniform in the test."""

    def __init__(
        self,
        minority_ratio: float = 0.005,
        severity: int = 4,
        correlation: list[list[int]] | str = "one-to-one",
        valid: str = "biased",
        scaling: str = "unit",
        shift: int = 0,
        seed: int = 0,
        root: str | None = None,
        download: bool = True,
    ) -> None:
        """Choose the shortcut and the place of the files.

        Args:
            minority_ratio: Fraction of the training rows, in (0, 1], whose colour is drawn uniformly from all.
            severity: Colour jitter 1..5 (standard deviation 0.05, 0.02, 0.01, 0.005, 0.002); 4 is usual.
            correlation: one-to-one, many-to-one, one-to-many, many-to-many, or a table such as [[0], [1], ...].
            valid: ``biased`` validates on data as biased as training, ``balanced`` on uniform colours.
            scaling: ``unit`` gives pixels in [0, 1]; ``double`` divides by 255 once more, as the published
                codes of this benchmark do, where the paper's learning rate and figures belong.
            shift: Training images are shifted by up to so many pixels each way, anew in every epoch; 0 shows them as
                they are, as the published runs do.
            seed: Seed of the split, the colours and the jitter.
            root: Folder that holds ``MNIST/raw``; by default LOGIT_CORRECTION_DATA, else
                ``~/.cache/logit_correction``.
            download: Let torchvision download MNIST where it is not found.
        """
        check_range(format_option("data.severity"), severity, 1, len(JITTER))
        check_choice("scaling", scaling, SCALINGS)
        check_range("shift", shift, 0, 27)
        self.planted = PlantedAttribute(minority_ratio, correlation, valid, 10, list(COLORS))
        self.severity = severity
        self.shift = shift
        self.seed = seed
        self.root = get_data_folder(root)
        self.download = download
        self.reader = ImageReader((28, 28), scale=SCALINGS[scaling])

    def ensure_raw_files(self) -> None:
        read_mnist(self.root, self.download)

    def build(self) -> DataTable:
        glyphs, digit = read_mnist(self.root, self.download)
        generator = make_generator(self.seed, "colored-mnist")
        split = sample_validation_split(NUM_MNIST_TRAIN - NUM_TRAIN, NUM_MNIST_TRAIN, len(digit), generator)
        attribute = torch.empty_like(digit)
        for name, rows in split.items():
            attribute[rows] = self.planted.draw(digit[rows], name, generator)
        color = draw_jittered_colors(attribute, self.severity, generator)
        metadata: dict[str, object] = {
            "source": "MNIST, coloured here",
            **self.planted.metadata,
            "colour jitter (standard deviation)": JITTER[self.severity - 1],
            "data seed": self.seed,
            "test": "colours uniform",
            "input range": "[0, 1]" if self.reader.scale == 1 else "[0, 1/255]",
        }
        if self.shift:
            metadata["shifts in training"] = f"up to {self.shift} pixels"
        return DataTable(
            inputs=ColoredStore(glyphs, torch.arange(len(digit)), color, scale=self.reader.scale),
            label=digit,
            attribute=attribute,
            split=split,
            label_names=[str(number) for number in range(10)],
            attribute_names=self.planted.names,
            correlation=self.planted.correlation,
            metadata=metadata,
            augment=CropFlip(self.shift, mirror=False) if self.shift else None,
        )
