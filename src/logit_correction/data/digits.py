"""Digits: scikit-learn's bundled handwritten digits, coloured like Colored MNIST. Real images, no download."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from logit_correction.data import bias, colors
from logit_correction.data.image_io import read_images
from logit_correction.data.stores import ColoredStore, InputStore
from logit_correction.data.table import DataSource, DataTable
from logit_correction.seeds import make_generator

NUM_VALID, NUM_TEST = 200, 400


class Digits(DataSource):
    """1,797 real 8x8 handwritten digits in ten colours; 1,197 train, 200 valid, 400 test.

    In training the colour goes with the digit in all but ``minority_ratio`` of the rows. Every test digit is
    shown in each colour once, so each of the groups holds about forty different test digits.
    """

    def __init__(
        self,
        minority_ratio: float = 0.03,
        severity: int = 4,
        correlation: list[list[int]] | str = "one-to-one",
        valid: str = "biased",
        seed: int = 0,
    ) -> None:
        """Choose the shortcut.

        Args:
            minority_ratio: Fraction of the training rows, in (0, 1], whose colour is drawn uniformly from all.
            severity: Colour jitter 1..5 (standard deviation 0.05, 0.02, 0.01, 0.005, 0.002).
            correlation: one-to-one, many-to-one, one-to-many, many-to-many, or a table such as [[0], [1], ...].
            valid: ``biased`` validates on data as biased as training, ``balanced`` on uniform colours.
            seed: Seed of the split, the colours and the jitter.
        """
        self.minority_ratio = bias.check_ratio("minority_ratio", minority_ratio)
        self.severity = colors.check_severity(severity)
        self.correlation = bias.named_correlation(correlation, 10)
        self.valid_ratio = bias.valid_ratio(valid, minority_ratio)
        self.valid, self.seed = valid, seed
        self._names = colors.color_names(self.correlation.num_attributes)

    def build(self) -> DataTable:
        """Colour the digits."""
        from sklearn.datasets import load_digits

        raw = load_digits()
        glyphs = torch.tensor(raw.images * (255 / 16)).round().to(torch.uint8)
        digit = torch.tensor(raw.target)
        generator = make_generator(self.seed, "digits")
        order = torch.randperm(len(digit), generator=generator)
        held_out = NUM_VALID + NUM_TEST
        train, valid, test = order[held_out:], order[:NUM_VALID], order[NUM_VALID:held_out]
        num_colors = self.correlation.num_attributes
        glyph_of_row = torch.cat([train, valid, test.repeat_interleave(num_colors)])
        label = digit[glyph_of_row]
        ends = [0, len(train), len(train) + len(valid), len(glyph_of_row)]
        split = {name: torch.arange(ends[i], ends[i + 1]) for i, name in enumerate(("train", "valid", "test"))}
        attribute = torch.cat(
            [
                bias.draw_attributes(digit[train], self.correlation, self.minority_ratio, generator),
                bias.draw_attributes(digit[valid], self.correlation, self.valid_ratio, generator),
                torch.arange(num_colors).repeat(len(test)),
            ]
        )
        color = colors.jittered_colors(attribute, self.severity, generator)
        return DataTable(
            inputs=ColoredStore(glyphs, glyph_of_row, color),
            label=label,
            attribute=attribute,
            split=split,
            label_names=[str(i) for i in range(10)],
            attribute_names=self._names,
            correlation=self.correlation,
            facts=self._facts(),
        )

    def _facts(self) -> dict[str, object]:
        return {
            "source": "scikit-learn's bundled handwritten digits (8x8), coloured here",
            **colors.shortcut_facts(self.minority_ratio, self.severity, self.correlation, self.valid, self.seed),
            "test": "every test digit in each colour once",
            "input range": "[0, 1]",
        }

    def read_new(self, paths: Sequence[Path]) -> InputStore:
        """Read image files, resized to 8x8."""
        return self.as_store(read_images(paths, (8, 8)))
