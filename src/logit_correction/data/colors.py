"""Colouring grey pictures: the shortcut of Colored MNIST and of the embedded digits."""

from __future__ import annotations

import torch
from torch import Tensor

from logit_correction.types import InputError

#: Mean colours of the attribute values, named as in CSS.
COLORS: dict[str, tuple[int, int, int]] = {
    "crimson": (220, 20, 60),
    "teal": (0, 128, 128),
    "gold": (255, 215, 0),
    "royalblue": (65, 105, 225),
    "darkorange": (255, 140, 0),
    "darkviolet": (148, 0, 211),
    "aquamarine": (127, 255, 212),
    "pink": (255, 192, 203),
    "limegreen": (50, 205, 50),
    "maroon": (128, 0, 0),
    "slategray": (112, 128, 144),
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
