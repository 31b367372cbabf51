"""Grey digits to be coloured: those of scikit-learn and of MNIST."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.files import plain

#: Digits of MNIST's two parts.
NUM_TRAIN, NUM_TEST = 60_000, 10_000


#: Bytes of a file of MNIST, the largest of which has 47 million.
MOST_BYTES = 2**26


def small_digits() -> tuple[Tensor, Tensor]:
    """Return scikit-learn's 1,797 digits (P, 8, 8) as unsigned bytes, and what they are (P,)."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    return torch.tensor(raw.images * (255 / 16)).round().to(torch.uint8), torch.tensor(raw.target).long()


def mnist_present(root: Path) -> bool:
    """Return whether any of MNIST's raw files lie under ``root``; what is there is never downloaded over."""
    return any((root / "MNIST" / "raw").glob("*-ubyte"))


def read_mnist(root: Path, download: bool) -> tuple[Tensor, Tensor]:
    """Return MNIST's 70,000 digits (P, 28, 28) as unsigned bytes, and what they are (P,); its test part comes last.

    Raises:
        InputError: If a file is missing or damaged.
    """
    glyphs, digits = zip(*(_read_part(root, train, download) for train in (True, False)), strict=True)
    return torch.cat(glyphs), torch.cat(digits)


def _read_part(root: Path, train: bool, download: bool) -> tuple[Tensor, Tensor]:
    from torchvision.datasets import MNIST
    from torchvision.datasets.mnist import read_image_file, read_label_file

    where = root / "MNIST" / "raw"
    try:
        if download and not mnist_present(root):
            MNIST(str(root), train=train, download=True)
        part = "train" if train else "t10k"  # MNIST() itself would rather read pickles, where there are such beside
        files = where / f"{part}-images-idx3-ubyte", where / f"{part}-labels-idx1-ubyte"
        if any(plain(file).stat().st_size > MOST_BYTES for file in files):
            raise ValueError("a file is too large")  # before it is read whole
        glyphs, digit = read_image_file(str(files[0])), read_label_file(str(files[1]))
    except (RuntimeError, OSError, ValueError, AssertionError, TypeError, LookupError) as error:
        # torchvision asserts the file's format without a word, and looks its type up in a dict.
        lines = [] if isinstance(error, LookupError) else str(error).splitlines()
        reason = lines[0] if lines else "a file is not in MNIST's format"
        raise InputError(
            f"MNIST cannot be read from {where} ({reason}): put the four idx files there, name "
            "their folder by --data.root or LOGIT_CORRECTION_DATA, or delete damaged files to download them again"
        ) from error
    size = NUM_TRAIN if train else NUM_TEST
    if glyphs.shape != (size, 28, 28) or digit.shape != (size,):
        fault = (
            f"its {'train' if train else 'test'} part has shape {tuple(glyphs.shape)}, its labels {tuple(digit.shape)}"
        )
    elif not bool((digit < 10).all()):
        fault = f"label {int(digit.max())}"
    else:
        return glyphs, digit.long()
    raise InputError(f"MNIST in {where} is damaged ({fault}): delete the folder to download it again")
