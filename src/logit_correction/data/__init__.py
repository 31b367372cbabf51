"""Data sources: where labelled rows come from. One file each, and one line here."""

from __future__ import annotations

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
SOURCES: dict[str, tuple[str, str]] = {
    "Digits": (
        "logit_correction.data.digits.Digits",
        "1,797 real 8x8 digits, coloured; embedded, no download",
    ),
    "ColoredMNIST": (
        "logit_correction.data.cmnist.ColoredMNIST",
        "MNIST whose digits go with colours in training",
    ),
}
