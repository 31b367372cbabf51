"""ImageFolder: a user's own images, in a folder per label or listed in a metadata.csv."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.image_files import image_store
from logit_correction.data.image_io import SUFFIXES, Fit, format_resizing
from logit_correction.data.problems import OnBadRows, Problems, format_faults
from logit_correction.data.records import Records, build_table, records_of_frame
from logit_correction.data.row_names import row_names
from logit_correction.data.splits import Splitting, split_name
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataSource, DataTable
from logit_correction.data.tabular_io import file_column, files_within, read_frame, texts_of
from logit_correction.errors import InputError, check_range
from logit_correction.files import is_within


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
        self.label, self.split = label, split
        self.attributes = None if attribute is None else [attribute] if isinstance(attribute, str) else attribute
        self.size, self.fit, self.memory_limit, self.on_bad_rows = size, fit, memory_limit, on_bad_rows
        self.image_size = (size, size)
        self.splitting = Splitting(valid_fraction, test_fraction, seed)
        self.augment = named_augmentation(augment, size)

    def build(self) -> DataTable:
        """Find the images, check them, and read them or what was kept of them."""
        if not self.root.is_dir():
            raise InputError(f"--data.root {self.root} is no folder: give the folder that holds the images")
        metadata = self.root / "metadata.csv" if self.metadata is None else self.metadata
        listed_rows = self.metadata is not None or metadata.is_file()
        if listed_rows:
            raw, paths, problems = self._read_metadata(metadata)
        else:
            raw, paths, problems = self._found()

        def store() -> InputStore:
            rule = self.on_bad_rows
            return image_store(paths, self.size, problems, rule, fit=self.fit, memory_limit=self.memory_limit)

        raw.metadata = {
            "source": f"the images of {self.root.resolve().name}",
            "images": format_resizing((self.size, self.size), self.fit),
        }
        table = build_table(raw, problems, store, self.splitting, self.on_bad_rows, self.augment)
        return replace(table, files=paths, ordered=listed_rows)  # folders are read label by label

    def _read_metadata(self, metadata: Path) -> tuple[Records, list[Path], Problems]:
        """Read the rows of a metadata.csv."""
        frame = read_frame(metadata)
        column = file_column(frame, metadata)
        split = self.split or ("split" if "split" in frame.columns else None)
        attributes = self.attributes or (["attribute"] if "attribute" in frame.columns else [])
        names = row_names(frame.index)
        raw = records_of_frame(frame, str(metadata), names, self.label, split, attributes)
        problems, files = Problems(str(metadata), names), texts_of(frame, column)
        paths = files_within(self.root, files, problems, column)
        raw.keys, raw.row_names = paths, [name or "" for name in files]
        return raw, paths, problems

    def _label_folders(self) -> list[tuple[Path, str | None]]:
        """Return the folder of every label, under folders per split or not, with its split."""
        folders = _visible_folders(self.root)
        splits = {folder: split_name(folder.name) for folder in folders}
        if "train" in splits.values():
            strange = [folder.name for folder, split in splits.items() if split is None]
            if strange:
                raise InputError(
                    f"{self.root} holds folders of splits and others ({', '.join(strange[:10])}): give either "
                    "train, valid and test, each with a folder per label, or a folder per label"
                )
            labels = [(label, split) for folder, split in splits.items() for label in _visible_folders(folder)]
        else:
            labels = [(folder, None) for folder in folders]
        if len({folder.name for folder, _ in labels}) < 2:
            raise InputError(
                f"{self.root} must hold a folder of images for each of at least two labels, or a metadata.csv; it "
                f"holds {', '.join(folder.name for folder in folders[:10]) or 'no folder'}"
            )
        return labels

    def _found(self) -> tuple[Records, list[Path], Problems]:
        """Find the images of a folder per label."""
        notes: list[str] = []
        found: list[tuple[Path, str, str | None]] = []
        for folder, split in self._label_folders():
            files = sorted(path for path in folder.rglob("*") if _is_file_or_link(path))
            own = [path for path in files if path.suffix.lower() in SUFFIXES or path.is_symlink()]
            if not own:
                notes.append(f"{folder} holds no image ({', '.join(SUFFIXES)})")
            other = [str(path) for path in files if path.suffix.lower() not in SUFFIXES and not path.is_symlink()]
            if other:
                what = "1 file is no image" if len(other) == 1 else f"{len(other):,} files are no images"
                notes.append(f"{what} by name and left out: {format_faults(other)}")
            found += [(path, folder.name, split) for path in own]
        if not found:
            raise InputError(f"{self.root} holds no images ({', '.join(SUFFIXES)})")
        paths, labels, splits = (list(column) for column in zip(*found, strict=True))
        shown = [path.relative_to(self.root).as_posix() for path in paths]
        given = None if splits[0] is None else splits
        raw = Records(str(self.root), shown, labels, given, row_names=shown, notes=notes)
        problems, base = Problems(str(self.root), shown), os.path.realpath(self.root)
        outside = {folder for folder in {path.parent for path in paths} if not is_within(folder, base)}
        for row, path in enumerate(paths):
            fault = _fault_of_link(path, base) if path.parent in outside or path.is_symlink() else None
            if fault is not None:
                problems.add(row, fault)
        return raw, paths, problems


def _is_file_or_link(path: Path) -> bool:
    return not path.name.startswith(".") and (path.is_symlink() or path.is_file())


def _fault_of_link(path: Path, base: str) -> str | None:
    """Return what is wrong with a link, or with a file in a linked folder; None with any other file."""
    try:
        path.stat()
    except OSError as error:
        return "is a link that leads to itself" if error.errno == errno.ELOOP else "is a link to nothing"
    if not is_within(path, base):
        return f"is a link that leaves the folder, to {os.path.realpath(path)}: put the file itself there"
    return None if path.is_file() else "is a link to a folder: put the folder itself there"


def _visible_folders(folder: Path) -> list[Path]:
    visible = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "__")))
    for path in visible:
        if path.is_symlink() and not path.exists():
            raise InputError(f"{path} {_fault_of_link(path, '')}: remove it, or put a folder of images there")
    return [path for path in visible if path.is_dir()]
