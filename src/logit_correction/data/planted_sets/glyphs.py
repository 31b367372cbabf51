"""The digits that are coloured: those of scikit-learn and of MNIST."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from logit_correction.errors import InputError

SIZES = {"train": 60_000, "test": 10_000}


def small_digits() -> tuple[Tensor, Tensor]:
    """Return scikit-learn's 1,797 digits (P, 8, 8) as unsigned bytes, and what they are (P,)."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    return torch.tensor(raw.images * (255 / 16)).round().to(torch.uint8), torch.tensor(raw.target).long()


def read_mnist(root: Path, download: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return MNIST's digits (P, 28, 28) as unsigned bytes, what they are (P,), and which are of its test part (P,).

    Raises:
        InputError: If a file is missing or damaged.
    """
    from torchvision.datasets import MNIST

    where = root / "MNIST" / "raw"
    fix = f"put the four idx files in {where}, or name another folder by --data.root or LOGIT_CORRECTION_DATA"
    glyphs, digits = [], []
    for part, size in SIZES.items():
        try:
            data = MNIST(str(root), train=part == "train", download=download and not mnist_present(root))
            glyph, digit = data.data, data.targets
        except (RuntimeError, OSError, ValueError, AssertionError, TypeError, LookupError) as error:
            raise InputError(f"MNIST cannot be read from {where} ({type(error).__name__}): {fix}") from error
        if glyph.shape != (size, 28, 28) or digit.shape != (size,) or not bool((digit < 10).all()):
            raise InputError(f"MNIST in {where} is damaged: {fix}")
        glyphs.append(glyph)
        digits.append(digit.long())
    return torch.cat(glyphs), torch.cat(digits), torch.arange(sum(SIZES.values())) >= SIZES["train"]


def mnist_present(root: Path) -> bool:
    """Return whether any of MNIST's raw files lie under ``root``; what is there is never downloaded over."""
    return any((root / "MNIST" / "raw").glob("*-ubyte"))
