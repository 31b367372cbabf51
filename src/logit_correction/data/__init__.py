"""Data sources: where labelled rows come from. One file each, and one line here."""

from __future__ import annotations

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
SOURCES: dict[str, tuple[str, str]] = {
    "Digits": ("logit_correction.bench.digits.Digits", "1,797 real 8x8 digits, coloured; embedded, no download"),
    "ColoredMNIST": ("logit_correction.bench.cmnist.ColoredMNIST", "MNIST whose digits go with colours in training"),
    "CorruptedCIFAR10": (
        "logit_correction.bench.ccifar10.CorruptedCIFAR10",
        "CIFAR-10 whose classes go with corruptions in training",
    ),
    "Waterbirds": (
        "logit_correction.bench.waterbirds.Waterbirds",
        "birds of land and water before land or water; your copy of the files",
    ),
    "CelebA": ("logit_correction.bench.celeba.CelebA", "faces, blond hair goes with women; your copy of the files"),
    "BiasedFFHQ": ("logit_correction.bench.bffhq.BiasedFFHQ", "faces, age goes with gender; your copy of the files"),
    "CivilComments": (
        "logit_correction.bench.civilcomments.CivilComments",
        "comments, toxic or not, judged on 16 overlapping groups; your copy of the file",
    ),
    "ImageFolder": (
        "logit_correction.data.image_folder.ImageFolder",
        "your own images: a folder per label, or a metadata.csv",
    ),
    "Table": (
        "logit_correction.data.table_file.Table",
        "your own CSV or Parquet file: texts, image files or feature columns",
    ),
    "Planted": (
        "logit_correction.bench.planted.Planted",
        "small sets with a planted shortcut, their controls, and plain ones; `set` chooses",
    ),
    "Arrays": ("logit_correction.data.from_arrays.Arrays", "arrays from Python, as `from_arrays` saved them"),
}
