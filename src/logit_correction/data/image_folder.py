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
    format_resizing,
    image_store,
    label_folders,
    printable,
    visible_folders,
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
        metadata: str | None = None,
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
        memory_limit: float | None = None,
    ) -> None:
        """Choose the folder and how images are read.

        Args:
            root: The folder. A metadata.csv in it is taken for what it says; without one, subfolders are labels.
            metadata: CSV or Parquet file of one row an image, beside ``metadata.csv`` in the folder.
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
            memory_limit: GiB of images that may stay in memory; more are streamed from a file in the cache. By
                default LOGIT_CORRECTION_MEMORY, else half of the free memory.
        """
        check_range("--data.size", size, 1)
        self.root, self.metadata = Path(root).expanduser(), None if metadata is None else Path(metadata).expanduser()
        self.label, self.split, self.attributes = label, split, listed(attribute)
        self.image_size, self.fit, self.memory_limit, self.on_bad_rows = (size, size), fit, memory_limit, on_bad_rows
        self.splitting = Splitting(valid_fraction, test_fraction, seed)
        self.augment = named_augmentation(augment, size)

    def build(self) -> DataTable:
        """Find the images, check them, and read them or what was kept of them."""
        if not self.root.is_dir():
            raise InputError(f"--data.root {self.root} is no folder: give the folder that holds the images")
        metadata = self.root / METADATA if self.metadata is None else self.metadata
        listed_rows = self.metadata is not None or metadata.is_file()
        raw, paths = self._read_metadata(metadata) if listed_rows else self._found()
        size = self.image_size
        assert size is not None
        raw.metadata = {
            "source": f"the images of {self.root.resolve().name}",
            "images": format_resizing(size, self.fit),
        }

        def inputs(_: Tensor) -> tuple[InputStore, dict[str, Any]]:
            limit = self.memory_limit
            return image_store(paths, size, raw.problems, fit=self.fit, memory_limit=limit), {"files": paths}

        return build_table(raw, inputs, self.splitting, self.on_bad_rows, self.augment)

    def _read_metadata(self, metadata: Path) -> tuple[Records, list[Path]]:
        """Read the rows of a metadata.csv."""
        frame = read_frame(metadata)
        column = file_column(frame, str(metadata))
        split = self.split or ("split" if "split" in frame.columns else None)
        attributes = self.attributes or (["attribute"] if "attribute" in frame.columns else [])
        raw, names = records_of_frame(frame, str(metadata), self.label, split, attributes), texts_of(frame, column)
        paths = files_within(self.root, names, raw.problems, column)
        first: dict[str | None, int] = {}
        for row, name in enumerate(names):
            if first.setdefault(name, row) != row:
                raw.problems.add(row, f"repeats {raw.problems.rows[first[name]]}")
        raw.row_names = [printable(name or "") for name in names]
        return raw, paths

    def _found(self) -> tuple[Records, list[Path]]:
        """Find the images of a folder per label."""
        folders, notes = label_folders(self.root)
        if len({folder.name for folder in folders}) < 2:
            inside = list(folders) or visible_folders(self.root)
            holds = ", ".join(printable(folder.relative_to(self.root).as_posix()) for folder in inside[:10])
            raise InputError(
                f"{self.root} must hold a folder of images for each of at least two labels, or such folders in train, "
                f"valid and test, or a {METADATA}; it holds {holds or 'no folder'}"
            )
        found = find_images(self.root, folders)
        labels: list[str | None] = [printable(folder.name) for folder in found.folders]
        splits = [folders[folder] for folder in found.folders]
        given = None if splits[0] is None else splits
        notes += found.notes
        # Folders are read label by label: the place of a row would tell its label.
        return Records(found.problems, labels, given, row_names=found.names, notes=notes, ordered=False), found.files
