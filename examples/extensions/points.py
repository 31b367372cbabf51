"""Points: two numbers a row, one that tells the label through noise and one that merely goes with it in training."""

from __future__ import annotations

import torch

from logit_correction.correlation import Correlation
from logit_correction.data.reader import DataSource
from logit_correction.data.table import ArrayStore, DataTable
from logit_correction.errors import check_range
from logit_correction.seeds import make_generator


class Points(DataSource):
    """2,000 train, 500 valid and 1,000 test rows of two features."""

    def __init__(self, minority_ratio: float = 0.05, seed: int = 0) -> None:
        """Choose the shortcut.

        Args:
            minority_ratio: Fraction of the training rows, in [0, 1], whose attribute is drawn from both values.
            seed: Seed of everything drawn.
        """
        check_range("minority_ratio", minority_ratio, 0, 1)
        self.minority_ratio, self.seed = minority_ratio, seed

    def build(self) -> DataTable:
        """Draw the points."""
        generator = make_generator(self.seed, "points")
        label = torch.randint(2, (3500,), generator=generator)
        train, valid, test = torch.arange(3500).split([2000, 500, 1000])
        drawn = torch.rand(3500, generator=generator) < self.minority_ratio
        drawn[test] = True
        attribute = torch.where(drawn, torch.randint(2, (3500,), generator=generator), label)
        points = torch.stack([label, 3 * attribute], dim=1) + torch.randn(3500, 2, generator=generator) * 0.5
        return DataTable(
            inputs=ArrayStore(points),
            label=label,
            attribute=attribute,  # -1 where unknown
            split={"train": train, "valid": valid, "test": test},
            label_names=["low", "high"],
            attribute_names=["left", "right"],
            correlation=Correlation.one_to_one(2),
            metadata={"source": "drawn here", "minority ratio": self.minority_ratio, "data seed": self.seed},
        )
