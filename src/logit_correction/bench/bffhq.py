"""Biased FFHQ: faces whose age goes with their gender in training."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from logit_correction.bench import published
from logit_correction.bench.conflict_folders import read_conflict_folders
from logit_correction.bench.published import PublishedImages
from logit_correction.correlation import Correlation
from logit_correction.data.augment import AugmentationName
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError

#: Training rows that follow the shortcut and that conflict with it, for each published ratio.
TRAIN_COUNTS = {"0.5pct": (19_104, 96)}

_FOLDERS = ("bffhq", "bFFHQ")
_SOURCE = (
    "https://github.com/kakaoenterprise/Learning-Debiased-Disentangled links to it, for use that is not commercial; "
    "unpack it"
)


class BiasedFFHQ(PublishedImages):
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
        super().__init__(root, size, augment)
        self.pct = pct

    @property
    def _parts(self) -> list[str]:
        return [f"{self.pct}/align", f"{self.pct}/conflict", "valid", "test"]

    def _folder(self) -> Path:
        return published.find_folder("BiasedFFHQ", self.root, _FOLDERS, self._parts, _SOURCE)

    def build(self) -> DataTable:
        """Read the images; label and attribute are the last two numbers of their names."""
        folder = self._folder()
        found = read_conflict_folders(folder, self._parts, 2)
        table = DataTable(
            inputs=self._store(folder, found.paths, found.names),
            label=found.label,
            attribute=found.attribute,
            split=found.split,
            label_names=["age 0", "age 1"],
            attribute_names=["gender 0", "gender 1"],
            correlation=Correlation.one_to_one(2),
            metadata={
                "source": f"Biased FFHQ, {self.pct}",
                "images": f"resized to {self.size} x {self.size}",
                "names": "numbers of the file names; young women and old men are the majority",
                "usual figure": "accuracy on the bias-conflicting test images alone, here the minority figure",
            },
            augment=self.augment,
            row_names=found.names,
            ordered=False,  # aligned images come first, and names tell the attribute: files are for no view
        )
        counts, expected = found.counts[:2], TRAIN_COUNTS.get(self.pct)
        if expected is None or expected == tuple(counts):
            return table
        note = (
            f"these are not the published files of BiasedFFHQ, {self.pct}: train has {counts[0]:,} aligned and "
            f"{counts[1]:,} conflicting images, published are {expected[0]:,} and {expected[1]:,}"
        )
        return replace(table, attribute_notes=(note,))
