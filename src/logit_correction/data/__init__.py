"""Data sources: where labelled rows come from. One file each, and one line here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from logit_correction.errors import InputError, did_you_mean

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
SOURCES: dict[str, tuple[str, str]] = {
    "ImageFolder": ("logit_correction.data.own.ImageFolder", "your own images: a folder per label"),
    "Table": ("logit_correction.data.own.Table", "your own CSV or Parquet file: texts, image files or feature columns"),
    "Digits": ("logit_correction.bench.digits.Digits", "1,797 real 8x8 digits, coloured; embedded, no download"),
    "ColoredMNIST": (
        "logit_correction.bench.digits.ColoredMNIST",
        "MNIST in colours that predict the digit in training",
    ),
    "CorruptedCIFAR10": (
        "logit_correction.bench.ccifar10.CorruptedCIFAR10",
        "CIFAR-10 in corruptions that predict the class in training",
    ),
    "Waterbirds": (
        "logit_correction.bench.photos.Waterbirds",
        "birds of land and water before land or water; your copy of the files",
    ),
    "CelebA": ("logit_correction.bench.photos.CelebA", "faces: most blond people are women; your copy of the files"),
    "BiasedFFHQ": ("logit_correction.bench.photos.BiasedFFHQ", "faces: gender predicts age; your copy of the files"),
    "CivilComments": (
        "logit_correction.bench.civilcomments.CivilComments",
        "comments, toxic or not, judged on 16 overlapping groups; your copy of the file",
    ),
    "Planted": (
        "logit_correction.bench.planted.Planted",
        "small sets with a planted shortcut, their controls, and plain ones; `set` chooses",
    ),
    "Wild": (
        "logit_correction.bench.wild.Wild",
        "real mails, faces in words and people in tables, nothing planted; your copy of the files",
    ),
    "StandIn": (
        "logit_correction.bench.stand_ins.StandIn",
        "stand-ins for the paper's photos and comments, which are not those; your copy of the files",
    ),
    "Arrays": ("logit_correction.data.arrays.Arrays", "arrays from Python, as `from_arrays` saved them"),
}


def source_of_place(data: Any) -> Any:
    """Return the choice of a data source, a folder or a file as the source that reads it; other choices as they are."""
    given = data if isinstance(data, dict) else {"name": data}
    place = given.get("name")
    if not isinstance(place, str) or place in SOURCES:
        return data
    options = {name: value for name, value in given.items() if name != "name"}
    path = Path(place).expanduser()
    if path.is_dir():
        return {"name": "ImageFolder", "root": str(path), **options}
    if path.exists():
        return {"name": "Table", "file": str(path), **options}
    module, dot, _ = place.partition(".")
    if place.lower() in map(str.lower, SOURCES) or (dot and module.isidentifier() and find_spec(module) is not None):
        return data  # nearly a source's name, or the dotted path of a class
    there = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    near = did_you_mean(path.name, there, str(path.parent / " ")[:-1]) or did_you_mean(place, SOURCES)
    raise InputError(
        f"--data {place} is no folder, file or data source{near}: give a folder of "
        "images, a CSV or Parquet file, or a name that `logit-correction list data` shows"
    )
