"""Digits: scikit-learn's bundled handwritten digits, coloured like Colored MNIST. Real images, no download."""

from __future__ import annotations

import torch

from logit_correction.bench import bias
from logit_correction.bench.colors import ColoredDigits, jittered_colors
from logit_correction.bench.glyphs import small_digits
from logit_correction.data.rows import consecutive_splits
from logit_correction.data.stores import ColoredStore
from logit_correction.data.table import DataTable
from logit_correction.seeds import make_generator

NUM_VALID, NUM_TEST = 200, 400


class Digits(ColoredDigits):
    """1,797 real 8x8 handwritten digits in ten colours; 1,197 train, 200 valid, 400 test.

    In training the colour goes with the digit in all but ``minority_ratio`` of the rows. Every test digit is
    shown in each colour once, so each of the groups holds about forty different test digits.
    """

    image_size = (8, 8)

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
        super().__init__(minority_ratio, severity, correlation, valid, seed)

    def build(self) -> DataTable:
        """Colour the digits."""
        glyphs, digit = small_digits()
        generator = make_generator(self.seed, "digits")
        order = torch.randperm(len(digit), generator=generator)
        held_out = NUM_VALID + NUM_TEST
        train, valid, test = order[held_out:], order[:NUM_VALID], order[NUM_VALID:held_out]
        num_colors = self.correlation.num_attributes
        glyph_of_row = torch.cat([train, valid, test.repeat_interleave(num_colors)])
        label = digit[glyph_of_row]
        attribute = torch.cat(
            [
                bias.draw_attributes(digit[train], self.correlation, self.minority_ratio, generator),
                bias.draw_attributes(digit[valid], self.correlation, self.valid_ratio, generator),
                torch.arange(num_colors).repeat(len(test)),
            ]
        )
        color = jittered_colors(attribute, self.severity, generator)
        return DataTable(
            inputs=ColoredStore(glyphs, glyph_of_row, color),
            label=label,
            attribute=attribute,
            split=consecutive_splits(len(train), len(valid), num_colors * len(test)),
            label_names=[str(i) for i in range(10)],
            attribute_names=self.color_names,
            correlation=self.correlation,
            metadata=self.metadata(
                "scikit-learn's bundled handwritten digits (8x8), coloured here",
                test="every test digit in each colour once",
                **{"input range": "[0, 1]"},
            ),
        )
