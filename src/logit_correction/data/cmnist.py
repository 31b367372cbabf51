"""Colored MNIST: MNIST whose digits go with colours in training and with none in the test."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from logit_correction.data import bias, colors
from logit_correction.data.augment import CropFlip
from logit_correction.data.image_io import read_images
from logit_correction.data.stores import ColoredStore, InputStore
from logit_correction.data.table import DataSource, DataTable
from logit_correction.seeds import make_generator
from logit_correction.types import InputError

NUM_TRAIN = 55_000

#: What pixels in [0, 1] are multiplied by.
SCALINGS = {"unit": 1.0, "double": 1 / 255}


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
        self.minority_ratio = bias.check_ratio("minority_ratio", minority_ratio)
        self.severity = colors.check_severity(severity)
        self.correlation = bias.named_correlation(correlation, 10)
        self.valid_ratio = bias.valid_ratio(valid, minority_ratio)
        if scaling not in SCALINGS:
            raise InputError(f"scaling {scaling!r} is unknown: give one of {', '.join(SCALINGS)}")
        if not 0 <= shift < 28:
            raise InputError(f"shift is {shift}, but must be a number of pixels, 0..27")
        self.scale, self.shift = SCALINGS[scaling], shift
        self.valid, self.scaling, self.seed, self.download = valid, scaling, seed, download
        default = os.environ.get("LOGIT_CORRECTION_DATA") or Path.home() / ".cache" / "logit_correction"
        self.root = Path(root or default)
        self._names = colors.color_names(self.correlation.num_attributes)

    def ensure_files(self) -> None:
        """Look for MNIST, and let torchvision download it where it is not there."""
        if not mnist_present(self.root):
            self._read(True)

    def build(self) -> DataTable:
        """Read MNIST and colour it."""
        glyphs, digit = (torch.cat(parts) for parts in zip(self._read(True), self._read(False), strict=True))
        generator = make_generator(self.seed, "colored-mnist")
        order = torch.randperm(60_000, generator=generator)
        split = {
            "train": order[:NUM_TRAIN].sort().values,
            "valid": order[NUM_TRAIN:].sort().values,
            "test": torch.arange(60_000, 70_000),
        }
        ratios = {"train": self.minority_ratio, "valid": self.valid_ratio, "test": 1.0}
        attribute = torch.empty_like(digit)
        for name, rows in split.items():
            attribute[rows] = bias.draw_attributes(digit[rows], self.correlation, ratios[name], generator)
        color = colors.jittered_colors(attribute, self.severity, generator)
        return DataTable(
            inputs=ColoredStore(glyphs, torch.arange(len(digit)), color, scale=self.scale),
            label=digit,
            attribute=attribute,
            split=split,
            label_names=[str(i) for i in range(10)],
            attribute_names=self._names,
            correlation=self.correlation,
            facts=self._facts(),
            augment=CropFlip(self.shift, mirror=False) if self.shift else None,
        )

    def _read(self, train: bool) -> tuple[Tensor, Tensor]:
        from torchvision.datasets import MNIST

        expected = 60_000 if train else 10_000
        where = self.root / "MNIST" / "raw"
        try:
            data = MNIST(str(self.root), train=train, download=self.download and not mnist_present(self.root))
            glyphs, digit = data.data, data.targets
        except (RuntimeError, OSError, ValueError, AssertionError, TypeError, LookupError) as error:
            # torchvision asserts the file's format without a word, and looks its type up in a dict.
            lines = [] if isinstance(error, LookupError) else str(error).splitlines()
            reason = lines[0] if lines else "a file is not in MNIST's format"
            raise InputError(
                f"MNIST cannot be read from {where} ({reason}): put the four idx files there, name "
                "their folder by --data.root or LOGIT_CORRECTION_DATA, or delete damaged files to download them again"
            ) from error
        if glyphs.shape != (expected, 28, 28) or digit.shape != (expected,):
            raise InputError(
                f"MNIST in {where} is damaged: {'train' if train else 'test'} images have shape "
                f"{tuple(glyphs.shape)} and labels {tuple(digit.shape)}: delete the folder to download it again"
            )
        if not bool((digit < 10).all()):
            raise InputError(
                f"MNIST in {where} is damaged: label {int(digit.max())}: delete the folder to download it again"
            )
        return glyphs, digit.long()

    def _facts(self) -> dict[str, object]:
        return {
            "source": "MNIST, coloured here",
            **colors.shortcut_facts(self.minority_ratio, self.severity, self.correlation, self.valid, self.seed),
            "test": "colours uniform",
            **({"shifts in training": f"up to {self.shift} pixels"} if self.shift else {}),
            "input range": "[0, 1]" if self.scaling == "unit" else "[0, 1/255]",
        }

    def read_new(self, paths: Sequence[Path]) -> InputStore:
        """Read image files, resized to 28x28."""
        return self.as_store(read_images(paths, (28, 28)))


def mnist_present(root: Path) -> bool:
    """Return whether any of MNIST's raw files lie under ``root``; what is there is never downloaded over."""
    return any((root / "MNIST" / "raw").glob("*-ubyte"))
