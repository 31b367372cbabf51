"""Colored MNIST: MNIST whose digits go with colours in training and with none in the test."""

from __future__ import annotations

import torch

from logit_correction.bench import bias
from logit_correction.bench.colors import ColoredDigits, jittered_colors
from logit_correction.bench.glyphs import NUM_TRAIN as NUM_MNIST_TRAIN
from logit_correction.bench.glyphs import mnist_present, read_mnist
from logit_correction.bench.published import data_folder
from logit_correction.data.augment import CropFlip
from logit_correction.data.stores import ColoredStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.seeds import make_generator

NUM_TRAIN = 55_000

#: What pixels in [0, 1] are multiplied by.
SCALINGS = {"unit": 1.0, "double": 1 / 255}


class ColoredMNIST(ColoredDigits):
    """MNIST in ten colours: 55,000 train, 5,000 valid, 10,000 test; colours uniform in the test."""

    image_size = (28, 28)

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
        super().__init__(minority_ratio, severity, correlation, valid, seed)
        if scaling not in SCALINGS:
            raise InputError(f"scaling {scaling!r} is unknown: give one of {', '.join(SCALINGS)}")
        if not 0 <= shift < 28:
            raise InputError(f"shift is {shift}, but must be a number of pixels, 0..27")
        self.scale, self.shift = SCALINGS[scaling], shift
        self.scaling, self.download, self.root = scaling, download, data_folder(root)

    def ensure_files(self) -> None:
        """Look for MNIST, and let torchvision download it where it is not there."""
        if not mnist_present(self.root):
            read_mnist(self.root, self.download)

    def build(self) -> DataTable:
        """Read MNIST and colour it."""
        glyphs, digit = read_mnist(self.root, self.download)
        generator = make_generator(self.seed, "colored-mnist")
        order = torch.randperm(NUM_MNIST_TRAIN, generator=generator)
        split = {
            "train": order[:NUM_TRAIN].sort().values,
            "valid": order[NUM_TRAIN:].sort().values,
            "test": torch.arange(NUM_MNIST_TRAIN, len(digit)),
        }
        ratios = {"train": self.minority_ratio, "valid": self.valid_ratio, "test": 1.0}
        attribute = torch.empty_like(digit)
        for name, rows in split.items():
            attribute[rows] = bias.draw_attributes(digit[rows], self.correlation, ratios[name], generator)
        color = jittered_colors(attribute, self.severity, generator)
        return DataTable(
            inputs=ColoredStore(glyphs, torch.arange(len(digit)), color, scale=self.scale),
            label=digit,
            attribute=attribute,
            split=split,
            label_names=[str(i) for i in range(10)],
            attribute_names=self.color_names,
            correlation=self.correlation,
            metadata=self.metadata(
                "MNIST, coloured here",
                test="colours uniform",
                **({"shifts in training": f"up to {self.shift} pixels"} if self.shift else {}),
                **{"input range": "[0, 1]" if self.scaling == "unit" else "[0, 1/255]"},
            ),
            augment=CropFlip(self.shift, mirror=False) if self.shift else None,
        )
