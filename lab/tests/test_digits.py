"""Coloured digits: the embedded ones, and Colored MNIST on the real files, without them or with damaged ones."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from logit_correction.data.digits import Digits
from logit_correction_lab.sources.colored_mnist import ColoredMNIST

from .conftest import needs_mnist


def test_images_are_the_bundled_ones_in_the_attributes_colour() -> None:
    table = Digits(severity=5).build()
    raw = load_digits()
    for split in table.split.values():
        for row in split[:: len(split) // 5].tolist():
            glyph = int(table.inputs.glyph_of_row[row])
            assert int(table.label[row]) == raw.target[glyph]
            image = table.inputs.fetch(torch.tensor([row]))[0].double()
            grey = torch.tensor(raw.images[glyph]) / 16
            color = table.inputs.color[row].double()
            torch.testing.assert_close(image, grey * color[:, None, None], rtol=0, atol=0.5 / 255)


def test_every_test_digit_is_shown_in_each_colour_once() -> None:
    table = Digits(correlation="one-to-many").build()
    rows = table.split["test"]
    pairs = torch.stack([table.inputs.glyph_of_row[rows], table.attribute[rows]])
    assert len(rows) == 400 * 11 and len(pairs.unique(dim=1).T) == len(rows)
    assert torch.equal(table.count_groups("test"), table.count_groups("test")[:, :1].expand(-1, 11))


class TestRealFiles:
    pytestmark = needs_mnist

    def test_sizes_and_that_about_249_training_rows_conflict(self) -> None:
        table = ColoredMNIST(download=False).build().check()
        sizes = {name: len(rows) for name, rows in table.split.items()}
        assert sizes == {"train": 55_000, "valid": 5_000, "test": 10_000}
        assert table.inputs.input_shape == (3, 28, 28) and table.inputs.glyphs.dtype == torch.uint8
        assert len(torch.cat(list(table.split.values())).unique()) == 70_000
        conflicting = {}
        for name in ("train", "valid"):
            counts = table.count_groups(name)
            conflicting[name] = int(counts.sum() - counts.diagonal().sum())
        assert abs(conflicting["train"] - 247.5) <= 4 * 15.7  # standard deviation of the binomial count
        assert abs(conflicting["valid"] - 22.5) <= 4 * 4.8
