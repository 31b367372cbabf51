"""ImageFolder: a user's own images, in a folder per label or listed in a metadata.csv."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from logit_correction.config import listed
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.frames import file_column, read_frame, texts_of
from logit_correction.data.images import (
    METADATA,
    Fit,
    find_images,
    image_store,
    label_folders,
    printable,
)
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import OnBadRows, Records, Splitting, build_table, files_within, records_of_frame
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, check_range


class ImageFolder(DataSource):
    """Your own images: ``root/LABEL/*.jpg``, ``root/{train,valid,test}/LABEL/*.jpg``, or a metadata.csv."""

    def __init__(
        self,
        root: str,
        label: str = "label",
        split: str | None = None,
        attribute: str | list[str] | None = None,
        size: int = 224,
        fit: Fit = "crop",
        augment: AugmentationName = "none",
        valid_fraction: float = 0.1,
        test_fraction: float = 0.2,
        seed: int = 0,
        on_bad_rows: OnBadRows = "error",
    ) -> None:
        """Choose the folder and how images are read.

        Args:
            root: The folder. A metadata.csv in it is taken for what it says; without one, subfolders are labels.
            label: Its column of labels.
            split: Its column of splits; ``split`` if there is such a column.
            attribute: Its columns of attributes; ``attribute`` if there is such a column. Several make one attribute
                of their combinations.
            size: Height and width that images are resized to.
            fit: ``crop`` keeps the proportions and takes the middle, ``stretch`` changes the proportions.
            augment: Random changes of training images: none, crop-flip (small images), resized-crop-flip.
            valid_fraction: Fraction of each label's rows for validation, where no split is given.
            test_fraction: Fraction of each label's rows for the test, where no split is given.
            seed: Seed of the split, apart from the run's.
            on_bad_rows: ``error`` names the bad rows and stops, ``skip`` names them and leaves them out.
        """
        check_range("--data.size", size, 1)
        self.root, self.label, self.split, self.attributes = Path(root).expanduser(), label, split, listed(attribute)
        self.size, self.fit, self.on_bad_rows = (size, size), fit, on_bad_rows
        self.image_size, self.augment = self.size, named_augmentation(augment, size)
        self.splitting = Splitting(valid_fraction, test_fraction, seed)

    def build(self) -> DataTable:
        if not self.root.is_dir():
            raise InputError(f"--data.root {self.root} is no folder: give the folder that holds the images")
        raw, paths = self._listed() if (self.root / METADATA).is_file() else self._found()
        raw.metadata = {
            "source": f"the images of {self.root.resolve().name}",
            "images": f"resized to {self.size[0]}x{self.size[1]}, {self.fit}",
        }

        def inputs(_: Tensor) -> tuple[InputStore, dict[str, Any]]:
            return image_store(paths, self.size, raw.problems, self.fit), {"files": paths}

        return build_table(raw, inputs, self.splitting, self.on_bad_rows, self.augment)

    def _listed(self) -> tuple[Records, list[Path]]:
        """Read the rows of a metadata.csv."""
        file = self.root / METADATA
        frame = read_frame(file)
        column = file_column(frame, str(file))
        split = self.split or ("split" if "split" in frame.columns else None)
        attributes = self.attributes or (["attribute"] if "attribute" in frame.columns else [])
        raw, names = records_of_frame(frame, str(file), self.label, split, attributes), texts_of(frame, column)
        paths = files_within(self.root, names, raw.problems, column)
        raw.row_names = [printable(name or "") for name in names]
        return raw, paths

    def _found(self) -> tuple[Records, list[Path]]:
        """Find the images of a folder per label."""
        folders = label_folders(self.root)
        if len({folder.name for folder in folders}) < 2:
            holds = ", ".join(printable(path.relative_to(self.root)) for path in sorted(self.root.glob("*"))[:10])
            raise InputError(
                f"{self.root} must hold a folder of images for each of at least two labels, or such folders in train, "
                f"valid and test, or a {METADATA}; it holds {holds or 'nothing'}"
            )
        paths, of_file, problems, notes = find_images(self.root, folders)
        labels: list[str | None] = [printable(folder.name) for folder in of_file]
        splits = None if folders[of_file[0]] is None else [folders[folder] for folder in of_file]
        # Folders are read label by label: the place of a row would tell its label.
        return Records(problems, labels, splits, row_names=problems.rows, notes=notes, ordered=False), paths
