"""CelebA: faces with forty attributes; one of them is the label, another the attribute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from logit_correction.correlation import Correlation
from logit_correction.data import published
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.image_io import read_images
from logit_correction.data.problems import Problems
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataSource, DataTable
from logit_correction.errors import did_you_mean
from logit_correction.types import InputError

if TYPE_CHECKING:
    import pandas as pd

#: Rows per label (not blond, blond) and attribute (not male, male) where they are published, else of the split.
COUNTS: dict[str, published.Counts] = {"train": [[71_629, 66_874], [22_880, 1_387]], "valid": 19_867, "test": 19_962}
SIZES: dict[str, published.Counts] = {"train": 162_770, "valid": 19_867, "test": 19_962}

_USUAL = ("Blond_Hair", "Male")
_FOLDERS = ("celeba", "celebA", "CelebA", "celebA/data", "celebA_v1.0")
_IMAGES = "img_align_celeba"
_SOURCE = (
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html has it, for research that is not commercial; take the aligned "
    "and cropped images, the attributes and the evaluation partitions, as .txt or as .csv files"
)


class CelebA(DataSource):
    """CelebA: 162,770 train, 19,867 valid, 19,962 test; blond hair goes with women."""

    def __init__(
        self,
        root: str | None = None,
        label: str = "Blond_Hair",
        attribute: str = "Male",
        size: int = 224,
        augment: AugmentationName = "none",
    ) -> None:
        """Choose the place of the files, the task and the form of the images.

        Args:
            root: Folder that holds ``list_attr_celeba`` and ``list_eval_partition`` (both .csv or both .txt) and
                ``img_align_celeba``, or the folder ``celeba`` with them; by default LOGIT_CORRECTION_DATA, else
                ``~/.cache/logit_correction``.
            label: Which of the forty attributes is the label.
            attribute: Which of them is the attribute that may mislead.
            size: Height and width of the images; the middle square of an image is resized to it.
            augment: Random changes of training images: ``none``, ``crop-flip`` or ``resized-crop-flip``.
        """
        if label == attribute:
            raise InputError(f"label and attribute are both {label}: name two different ones of the forty")
        self.root, self.label, self.attribute, self.augment = root, label, attribute, augment
        self.size = published.check_size(size)
        self._augmentation = named_augmentation(augment, size)

    def ensure_files(self) -> None:
        """Look for the files."""
        self._folder()

    def build(self) -> DataTable:
        """Read both lists and the images that they name."""
        folder, suffix = self._folder()
        attributes = folder / f"list_attr_celeba.{suffix}"
        frame = (_read_txt if suffix == "txt" else published.read_csv)(attributes, self._columns(attributes, suffix))
        problems = Problems(str(attributes), published.lines_of(frame, 3 if suffix == "txt" else 2))
        meaning = {"-1": 0, "1": 1}
        label, attribute = (published.codes(frame[name], meaning, problems) for name in (self.label, self.attribute))
        names = frame["image_id"].tolist()
        images = folder / _IMAGES
        nested = images / _IMAGES  # as one of the usual archives unpacks
        images = nested if nested.is_dir() else images
        paths = published.contained(images, names, problems)
        problems.raise_if_any("error", published.get_again(attributes.name))
        usual = (self.label, self.attribute) == _USUAL
        table = DataTable(
            inputs=published.read_images_of("CelebA", images, paths, names, self.size, fit="crop"),
            label=label,
            attribute=attribute,
            split=published.rows_of_splits(_partition(folder / f"list_eval_partition.{suffix}", frame["image_id"])),
            label_names=_two_names(self.label),
            attribute_names=_two_names(self.attribute),
            # Hair that is not blond goes with either gender, blond hair with women.
            correlation=Correlation.from_table([[0, 1], [0]]) if usual else None,
            facts={
                "source": "CelebA, aligned and cropped",
                "images": f"middle square, resized to {self.size} x {self.size}",
            },
            augment=self._augmentation,
            row_names=names,
            files=paths,
        )
        return published.with_count_note(table, "CelebA", COUNTS if usual else SIZES)

    def _folder(self) -> tuple[Path, str]:
        """Return the folder and whether its lists are csv or txt."""
        lists = [place / "list_attr_celeba.csv" for place in published.places_of(self.root, _FOLDERS)]
        suffix = "csv" if any(path.is_file() for path in lists) else "txt"
        files = [f"list_attr_celeba.{suffix}", f"list_eval_partition.{suffix}", _IMAGES]
        return published.find_folder("CelebA", self.root, _FOLDERS, files, _SOURCE), suffix

    def _columns(self, path: Path, suffix: str) -> list[str]:
        """Return the columns to read.

        Raises:
            InputError: If the label or the attribute is none of the file's.
        """
        first, second = _first_lines(path)
        known = second.split() if suffix == "txt" else [name.strip().strip('"') for name in first.split(",")[1:]]
        for option, name in (("label", self.label), ("attribute", self.attribute)):
            if known and name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"{option} {name!r} is no column of {path}{hint}: take one of {', '.join(known)}")
        return ["image_id", self.label, self.attribute]

    def read_new(self, paths: Sequence[Path]) -> InputStore:
        """Read image files."""
        return self.as_store(read_images(paths, (self.size, self.size), "crop"))


def _two_names(name: str) -> list[str]:
    """Return the names of -1 and 1.

    >>> _two_names("Blond_Hair")
    ['not blond hair', 'blond hair']
    """
    spoken = name.replace("_", " ").lower()
    return [f"not {spoken}", spoken]


def _first_lines(path: Path) -> tuple[str, str]:
    """Return the first two lines of a list.

    Raises:
        InputError: If the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            return file.readline().strip(), file.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}): get it again") from error


def _read_txt(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read the list whose first line says how many rows follow the second line, the names of its columns.

    Raises:
        InputError: If the file cannot be read or is cut off.
    """
    announced, names = _first_lines(path)
    frame = _read_columns(path, ["image_id", *names.split()], skip=2)
    if announced != str(len(frame)):
        raise InputError(f"{path} announces {announced!r} rows, but holds {len(frame)}: get it again")
    return frame[list(columns)]


def _read_columns(path: Path, names: Sequence[str], skip: int = 0) -> pd.DataFrame:
    """Read columns of text with blanks between them.

    Raises:
        InputError: If the file cannot be read.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(
            path, sep=r"\s+", header=None, names=list(names), skiprows=skip, dtype=str, keep_default_na=False,
            index_col=False,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({published.reason_of(error)}): get it again") from error
    return frame.fillna("")


def _partition(path: Path, image_id: pd.Series[str]) -> Tensor:
    """Return the split (M,) of the images, 0, 1 or 2, from the list of partitions.

    Raises:
        InputError: If the list lacks an image, names one twice, or gives another number.
    """
    columns = ["image_id", "partition"]
    text = path.suffix == ".txt"
    frame = _read_columns(path, columns) if text else published.read_csv(path, columns)
    problems = Problems(str(path), published.lines_of(frame, 1 if text else 2))
    split = published.codes(frame["partition"], {"0": 0, "1": 1, "2": 2}, problems)
    for row in np.flatnonzero(frame["image_id"].duplicated().to_numpy()).tolist():
        problems.add(row, f"{frame['image_id'].iloc[row]} is named twice")
    problems.raise_if_any("error", published.get_again(path.name))
    place = {name: row for row, name in enumerate(frame["image_id"].tolist())}
    rows = [place.get(name, -1) for name in image_id.tolist()]
    lacking = [name for name, row in zip(image_id.tolist(), rows, strict=True) if row < 0]
    if lacking:
        raise InputError(f"{path} lacks {len(lacking):,} images of the other list, such as {lacking[0]}: get it again")
    return split[rows]
