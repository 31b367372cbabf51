"""Colouring grey images: the shortcut of Colored MNIST and of the embedded digits."""

from __future__ import annotations

import torch
from torch import Tensor

from logit_correction.bench import bias
from logit_correction.data.reader import DataSource
from logit_correction.errors import InputError

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


def color_names(num_attributes: int) -> list[str]:
    """Return the names of the first ``num_attributes`` colours.

    Raises:
        InputError: If there are not so many.
    """
    if num_attributes > len(COLORS):
        raise InputError(f"the correlation names {num_attributes} colours, but there are only {len(COLORS)}")
    return list(COLORS)[:num_attributes]


def check_severity(severity: int) -> int:
    """Return ``severity`` if it is 1..5.

    Raises:
        InputError: Otherwise.
    """
    if severity not in range(1, len(JITTER) + 1):
        raise InputError(f"severity is {severity}, but must be 1..{len(JITTER)} (5 has the least colour jitter)")
    return severity


def jittered_colors(attribute: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Return one colour per row: the mean colour of its attribute plus Gaussian jitter, clamped to [0, 1].

    Args:
        attribute: (N,) long, 0..10.
        severity: 1..5; the jitter has standard deviation 0.05, 0.02, 0.01, 0.005, 0.002.
        generator: CPU generator.

    Returns:
        (N, 3) float32.
    """
    mean = torch.tensor(list(COLORS.values()), dtype=torch.float32)[attribute] / 255
    noise = torch.randn(mean.shape, generator=generator) * JITTER[severity - 1]
    return (mean + noise).clamp_(0, 1)


class ColoredDigits(DataSource):
    """Digits of which each goes with a colour in training; how many do not, and how pure the colours are."""

    def __init__(
        self, minority_ratio: float, severity: int, correlation: list[list[int]] | str, valid: str, seed: int
    ) -> None:
        """Check the options; those who inherit say what they mean."""
        self.minority_ratio = bias.check_ratio("minority_ratio", minority_ratio)
        self.severity = check_severity(severity)
        self.correlation = bias.named_correlation(correlation, 10)
        self.valid_ratio = bias.valid_ratio(valid, minority_ratio)
        self.valid, self.seed = valid, seed
        self.color_names = color_names(self.correlation.num_attributes)

    def metadata(self, source: str, **more: object) -> dict[str, object]:
        """Return what a reader of a result must know of how the digits were coloured."""
        return {
            "source": source,
            "minority ratio": self.minority_ratio,
            "colour jitter (standard deviation)": JITTER[self.severity - 1],
            "correlation": self.correlation.kind,
            "validation": self.valid,
            "data seed": self.seed,
            **more,
        }
