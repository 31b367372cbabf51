"""Biased FFHQ: faces whose age goes with their gender in training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import torch

from logit_correction.correlation import Correlation
from logit_correction.data import published
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.image_io import SUFFIXES, read_images
from logit_correction.data.problems import Problems
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataSource, DataTable
from logit_correction.types import InputError

#: Training rows that follow the shortcut and that conflict with it, for each published ratio.
TRAIN_COUNTS = {"0.5pct": (19_104, 96)}

_FOLDERS = ("bffhq", "bFFHQ")
_SOURCE = (
    "https://github.com/kakaoenterprise/Learning-Debiased-Disentangled links to it, for use that is not commercial; "
    "unpack it"
)
_NAME = re.compile(r"_([01])_([01])\.[A-Za-z]+$")


class BiasedFFHQ(DataSource):
    """Biased FFHQ: 19,200 faces, age goes with gender in all but 96 of them."""

    def __init__(
        self,
        root: str | None = None,
        pct: str = "0.5pct",
        size: int = 224,
        augment: AugmentationName = "none",
    ) -> None:
        """Choose the place of the files and the form of the images.

        Args:
            root: Folder that holds ``0.5pct``, ``valid`` and ``test``, or the folder ``bffhq`` with them; by default
                LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            pct: Name of the training folder, which tells its share of bias-conflicting images.
            size: Height and width that images are resized to.
            augment: Random changes of training images: ``none``, ``crop-flip`` or ``resized-crop-flip``.
        """
        if not re.fullmatch(r"[\w.]*\w", pct):
            raise InputError(f"pct {pct!r} is no name of a folder: give one such as 0.5pct")
        self.root, self.pct, self.size, self.augment = root, pct, published.check_size(size), augment
        self._augmentation = named_augmentation(augment, size)

    def ensure_files(self) -> None:
        """Look for the files."""
        self._folder()

    @property
    def _parts(self) -> list[str]:
        return [f"{self.pct}/align", f"{self.pct}/conflict", "valid", "test"]

    def _folder(self) -> Path:
        return published.find_folder("BiasedFFHQ", self.root, _FOLDERS, self._parts, _SOURCE)

    def build(self) -> DataTable:
        """Read the images; label and attribute are the last two numbers of their names."""
        parts, folder = self._parts, self._folder()
        found = [sorted(_images(folder / part)) for part in parts]
        paths = [path for files in found for path in files]
        names = [path.relative_to(folder).as_posix() for path in paths]
        problems = Problems(str(folder), names)
        label, gender = torch.zeros(2, len(paths), dtype=torch.long)
        for row, name in enumerate(names):
            match = _NAME.search(name)
            if match is None:
                problems.add(row, "its name does not end in _<label>_<attribute>, each 0 or 1")
                continue
            label[row], gender[row] = int(match[1]), int(match[2])
            if row < len(found[0]) + len(found[1]) and (match[1] == match[2]) != (row < len(found[0])):
                problems.add(row, "lies in the folder of the other kind: align holds equal numbers, conflict others")
        problems.raise_if_any("error", published.get_again("the images of BiasedFFHQ"))
        sizes = torch.tensor([len(files) for files in found])
        split = torch.tensor([0, 0, 1, 2]).repeat_interleave(sizes)
        table = DataTable(
            inputs=published.read_images_of("BiasedFFHQ", folder, paths, names, self.size),
            label=label,
            attribute=gender,
            split=published.rows_of_splits(split),
            label_names=["age 0", "age 1"],
            attribute_names=["gender 0", "gender 1"],
            correlation=Correlation.one_to_one(2),
            facts={
                "source": f"Biased FFHQ, {self.pct}",
                "images": f"resized to {self.size} x {self.size}",
                "names": "numbers of the file names; young women and old men are the majority",
                "usual figure": "accuracy on the bias-conflicting test images alone, here the minority figure",
            },
            augment=self._augmentation,
            row_names=names,
            ordered=False,  # aligned images come first, and names tell the attribute: files are for no view
        )
        return self._with_note(table, len(found[0]), len(found[1]))

    def _with_note(self, table: DataTable, aligned: int, conflicting: int) -> DataTable:
        """Compare the training rows that follow the shortcut, and those that do not, with the published ones."""
        from dataclasses import replace

        expected = TRAIN_COUNTS.get(self.pct)
        if expected is None or expected == (aligned, conflicting):
            return table
        note = (
            f"these are not the published files of BiasedFFHQ, {self.pct}: train has {aligned:,} aligned and "
            f"{conflicting:,} conflicting images, published are {expected[0]:,} and {expected[1]:,}"
        )
        return replace(table, notes=(*table.notes, note))

    def read_new(self, paths: Sequence[Path]) -> InputStore:
        """Read image files."""
        return self.as_store(read_images(paths, (self.size, self.size)))


def _images(folder: Path) -> list[Path]:
    """Return the image files in ``folder`` and the folders below it."""
    return [path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()]
