"""ImageFolder: a user's own images, in a folder per label or listed in a metadata.csv."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from logit_correction.config import listed
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.frames import file_column, read_frame, texts_of
from logit_correction.data.images import (
    METADATA,
    Fit,
    find_images,
    folders_with_splits,
    format_resizing,
    image_store,
    visible_folders,
)
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import (
    OnBadRows,
    Records,
    Splitting,
    build_table,
    copies_told,
    files_within,
    records_of_frame,
)
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
        self.size, self.fit, self.memory_limit, self.on_bad_rows = size, fit, memory_limit, on_bad_rows
        self.image_size = (size, size)
        self.splitting = Splitting(valid_fraction, test_fraction, seed)
        self.augment = named_augmentation(augment, size)

    def build(self) -> DataTable:
        """Find the images, check them, and read them or what was kept of them."""
        if not self.root.is_dir():
            raise InputError(f"--data.root {self.root} is no folder: give the folder that holds the images")
        metadata = self.root / METADATA if self.metadata is None else self.metadata
        listed_rows = self.metadata is not None or metadata.is_file()
        raw, paths = self._read_metadata(metadata) if listed_rows else self._found()

        def store() -> InputStore:
            rule = self.on_bad_rows
            return image_store(paths, self.size, raw.problems, rule, fit=self.fit, memory_limit=self.memory_limit)

        raw.metadata = {
            "source": f"the images of {self.root.resolve().name}",
            "images": format_resizing((self.size, self.size), self.fit),
        }
        table = copies_told(build_table(raw, store, self.splitting, self.on_bad_rows, self.augment))
        return replace(table, files=paths, ordered=listed_rows)  # folders are read label by label

    def _read_metadata(self, metadata: Path) -> tuple[Records, list[Path]]:
        """Read the rows of a metadata.csv."""
        frame = read_frame(metadata)
        column = file_column(frame, metadata)
        split = self.split or ("split" if "split" in frame.columns else None)
        attributes = self.attributes or (["attribute"] if "attribute" in frame.columns else [])
        raw, files = records_of_frame(frame, str(metadata), self.label, split, attributes), texts_of(frame, column)
        paths = files_within(self.root, files, raw.problems, column)
        raw.keys, raw.row_names = paths, [name or "" for name in files]
        return raw, paths

    def _label_folders(self) -> tuple[dict[Path, str | None], list[str]]:
        """Return the folder of every label with its split, under folders per split or not, and what to tell."""
        folders, notes = folders_with_splits(self.root)
        labels = {
            label: split
            for folder, split in folders.items()
            for label in ([folder] if split is None else visible_folders(folder))
        }
        if len({folder.name for folder in labels}) < 2:
            holds = ", ".join(folder.relative_to(self.root).as_posix() for folder in list(labels or folders)[:10])
            raise InputError(
                f"{self.root} must hold a folder of images for each of at least two labels, or such folders in train, "
                f"valid and test, or a {METADATA}; it holds {holds or 'no folder'}"
            )
        return labels, notes

    def _found(self) -> tuple[Records, list[Path]]:
        """Find the images of a folder per label."""
        folders, notes = self._label_folders()
        found = find_images(self.root, folders)
        labels: list[str | None] = [folder.name for folder in found.folders]
        splits = [folders[folder] for folder in found.folders]
        given = None if splits[0] is None else splits
        raw = Records(found.problems, labels, given, row_names=found.names, notes=notes + found.notes)
        return raw, found.files
