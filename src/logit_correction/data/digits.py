"""scikit-learn's handwritten digits in ten colours, which need no download; how data are given a shortcut.

A shortcut is planted as Colored MNIST does it: most rows get the colour that belongs to their label, the others any
colour. The published figures were measured on such data, so these digits show in seconds what those show in hours.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from logit_correction.data.images import ImageReader
from logit_correction.data.source import DataSource
from logit_correction.data.splits import make_consecutive_splits
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, check_choice, check_range
from logit_correction.formatting import format_option
from logit_correction.seeds import make_generator
from logit_correction.types import Correlation

#: Mean colours of the attribute values: those of the published Colored MNIST benchmark, so that figures compare,
#: and an eleventh for one-to-many correlations.
COLORS: dict[str, tuple[int, int, int]] = {
    "crimson": (220, 20, 60),
    "teal": (0, 128, 128),
    "lemon": (253, 233, 16),
    "blue": (0, 149, 182),
    "orange": (237, 145, 33),
    "violet": (145, 30, 188),
    "cyan": (70, 240, 240),
    "pink": (250, 197, 187),
    "lime": (210, 245, 60),
    "maroon": (128, 0, 0),
    "gray": (112, 128, 144),
}

#: Standard deviation of the colour jitter at severity 1..5.
JITTER = (0.05, 0.02, 0.01, 0.005, 0.002)

#: Rows of validation and test.
NUM_VALID = 200
NUM_TEST = 400


def draw_jittered_colors(attribute: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Return one colour per row (N, 3), within [0, 1]: the mean colour of its attribute plus Gaussian jitter.

    Args:
        attribute: (N,) long, places in ``COLORS``.
        severity: 1..5; the jitter is ``JITTER[severity - 1]``.
        generator: Draws the jitter.
    """
    mean = torch.tensor(list(COLORS.values()), dtype=torch.float32)[attribute] / 255
    return (mean + torch.randn(mean.shape, generator=generator) * JITTER[severity - 1]).clamp_(0, 1)


def load_small_digits() -> tuple[Tensor, Tensor]:
    """Return scikit-learn's 1,797 digits (P, 8, 8) as unsigned bytes, and what they are (P,)."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return torch.tensor(digits.images * (255 / 16)).round().to(torch.uint8), torch.tensor(digits.target).long()


class ColoredStore(InputStore):
    """Grey glyphs, coloured when a batch is fetched: one byte a pixel in memory instead of twelve.

    Row m shows glyph ``glyph_of_row[m]`` in colour ``color[m]``; several rows may share one glyph.
    """

    def __init__(self, glyphs: Tensor, glyph_of_row: Tensor, color: Tensor, scale: float = 1.0) -> None:
        """Keep glyphs and colours.

        Args:
            glyphs: (P, H, W) unsigned bytes.
            glyph_of_row: (M,) long, 0..P-1.
            color: (M, 3) floats in [0, 1].
            scale: Multiplies every fetched batch.
        """
        self.glyphs = glyphs
        self.glyph_of_row = glyph_of_row
        self.color = color
        self.scale = scale
        self._factor = color * (scale / 255)

    def __len__(self) -> int:
        return len(self.glyph_of_row)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (3, *self.glyphs.shape[1:])

    def _fetch_grey(self, row_indices: Tensor) -> Tensor:
        # index_select copies whole rows, where plain indexing goes byte by byte: 5 us instead of 100.
        return self.glyphs.index_select(0, self.glyph_of_row.index_select(0, row_indices)).float()[:, None]

    def fetch(self, row_indices: Tensor) -> Tensor:
        return self._fetch_grey(row_indices) * self._factor.index_select(0, row_indices)[:, :, None, None]

    def images(self, row_indices: Tensor) -> Tensor:
        return (self._fetch_grey(row_indices) * self.color[row_indices][:, :, None, None]).round().to(torch.uint8)


def parse_correlation(kind: str | Sequence[Sequence[int]], num_labels: int) -> Correlation:
    """Return the correlation that a kind of the paper's section 4.2 names, or that a table spells out.

    - ``one-to-one``: label j correlates with attribute value j.
    - ``many-to-one``: labels 0 and 1 share attribute value 0, label j > 1 has j - 1.
    - ``one-to-many``: label 0 has attribute values 0 and 1, label j > 0 has j + 1.
    - ``many-to-many``: labels 0 and 1 both have values 0 and 1, label j > 1 has j.
    - a table: row y lists the attribute values of label y.

    Args:
        kind: A kind, or a table.
        num_labels: L.

    Raises:
        InputError: If the kind is unknown or the table has not one row per label.
    """
    tables: dict[str, list[list[int]]] = {
        "one-to-one": [[j] for j in range(num_labels)],
        "many-to-one": [[max(0, j - 1)] for j in range(num_labels)],
        "one-to-many": [[j + 1] if j else [0, 1] for j in range(num_labels)],
        "many-to-many": [[j] if j > 1 else [0, 1] for j in range(num_labels)],
    }
    if isinstance(kind, str) and kind not in tables:
        raise InputError(f"correlation {kind!r} is unknown: give one of {', '.join(tables)}, or a table: [[0],[1]]")
    table = tables[kind] if isinstance(kind, str) else kind
    if len(table) != num_labels:
        raise InputError(f"the correlation has {len(table)} rows: give one for each of the {num_labels} labels")
    return Correlation.from_table(table)


def draw_attributes(
    label: Tensor, correlation: Correlation, minority_ratio: float, generator: torch.Generator
) -> Tensor:
    """Draw an attribute for every row, as Colored MNIST does.

    A row follows the correlation with probability ``1 - minority_ratio``; otherwise its attribute is drawn
    uniformly from all K values. So (K - 1) / K of the ratio ends up bias-conflicting under a one-to-one
    correlation (247.5 of 55,000 rows expected at 0.005; the published split has 249), and a ratio of 1
    removes the correlation altogether.

    Args:
        label: (N,) long, 0..L-1.
        correlation: Of L labels and K attribute values.
        minority_ratio: In [0, 1].
        generator: Draws the attributes.

    Returns:
        (N,) long, 0..K-1.
    """
    aligned = torch.multinomial(correlation.weights[label].float(), 1, generator=generator).squeeze(1)
    uniform = torch.randint(correlation.num_attributes, label.shape, generator=generator)
    is_uniform = torch.rand(label.shape, generator=generator) < minority_ratio
    return torch.where(is_uniform, uniform, aligned)


class PlantedAttribute:
    """An attribute that correlates with the label: checked options, and how it is drawn.

    Attributes:
        correlation: Which values belong to which label.
        names: The names of the values.
        metadata: What a reader of a result must know.
    """

    def __init__(
        self, minority_ratio: float, correlation: list[list[int]] | str, valid: str, num_labels: int, values: list[str]
    ) -> None:
        """Check the options.

        Args:
            minority_ratio: As of ``Digits``.
            correlation: As of ``Digits``.
            valid: As of ``Digits``.
            num_labels: L.
            values: Names of attribute values; the first are used, as many as the correlation needs.
        """
        if not 0 < minority_ratio <= 1:
            remedy = "must lie in (0, 1]: a fraction, 0.005 for half a per cent"
            raise InputError(f"minority_ratio is {minority_ratio}, but {remedy}")
        check_choice("valid", valid, ("biased", "balanced"))
        self.correlation = parse_correlation(correlation, num_labels)
        needed = self.correlation.num_attributes
        if needed > len(values):
            raise InputError(f"the correlation names {needed} values, but there are only {', '.join(values)}")
        self.names = values[:needed]
        self.ratio = float(minority_ratio)
        self.ratios = {"train": self.ratio, "valid": 1.0 if valid == "balanced" else self.ratio, "test": 1.0}
        self.metadata = {"minority ratio": self.ratio, "correlation": self.correlation.kind, "validation": valid}

    def draw(self, label: Tensor, split: str, generator: torch.Generator) -> Tensor:
        """Return the attribute (N,) of the rows of a split; the test has no correlation.

        Args:
            label: (N,) long.
            split: ``train``, ``valid`` or ``test``.
            generator: Draws the attributes.
        """
        return draw_attributes(label, self.correlation, self.ratios[split], generator)


class Digits(DataSource):
    """1,797 real 8x8 handwritten digits in ten colours; 1,197 train, 200 valid, 400 test.

    In training the colour agrees with the digit in all but nine tenths of ``minority_ratio`` of the rows. Every test
    digit is shown in each colour once, so each of the groups holds about forty different test digits.
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
        check_range(format_option("data.severity"), severity, 1, len(JITTER))
        self.planted = PlantedAttribute(minority_ratio, correlation, valid, 10, list(COLORS))
        self.severity = severity
        self.seed = seed

    def make_reader(self) -> ImageReader:
        return ImageReader((8, 8))

    def build(self) -> DataTable:
        glyphs, digit = load_small_digits()
        planted = self.planted
        generator = make_generator(self.seed, "digits")
        sizes = [NUM_VALID, NUM_TEST, len(digit) - NUM_VALID - NUM_TEST]
        valid, test, train = torch.randperm(len(digit), generator=generator).split(sizes)
        num_colors = len(planted.names)
        glyph_of_row = torch.cat([train, valid, test.repeat_interleave(num_colors)])
        train_colors = planted.draw(digit[train], "train", generator)
        valid_colors = planted.draw(digit[valid], "valid", generator)
        attribute = torch.cat([train_colors, valid_colors, torch.arange(num_colors).repeat(len(test))])
        return DataTable(
            inputs=ColoredStore(glyphs, glyph_of_row, draw_jittered_colors(attribute, self.severity, generator)),
            label=digit[glyph_of_row],
            attribute=attribute,
            split=make_consecutive_splits(len(train), len(valid), num_colors * len(test)),
            label_names=[str(i) for i in range(10)],
            attribute_names=planted.names,
            correlation=planted.correlation,
            metadata={
                "source": "scikit-learn's bundled handwritten digits (8x8), coloured here",
                **planted.metadata,
                "colour jitter (standard deviation)": JITTER[self.severity - 1],
                "data seed": self.seed,
                "test": "every test digit in each colour once",
                "input range": "[0, 1]",
            },
        )
