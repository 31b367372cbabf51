"""CelebA: faces with forty attributes; one of them is the label, another the attribute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.bench import published
from logit_correction.bench.published import PublishedImages
from logit_correction.correlation import Correlation
from logit_correction.data.augment import AugmentationName
from logit_correction.data.frames import read_frame, row_names
from logit_correction.data.images import Fit
from logit_correction.data.rows import Problems, files_within
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

#: Rows per label (not blond, blond) and attribute (not male, male) where they are published, else of the split.
COUNTS: dict[str, published.Counts] = {"train": [[71_629, 66_874], [22_880, 1_387]], "valid": 19_867, "test": 19_962}
SIZES: dict[str, published.Counts] = {"train": 162_770, "valid": 19_867, "test": 19_962}

_NAMES = """5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips Big_Nose Black_Hair
    Blond_Hair Blurry Brown_Hair Bushy_Eyebrows Chubby Double_Chin Eyeglasses Goatee Gray_Hair Heavy_Makeup
    High_Cheekbones Male Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard Oval_Face Pale_Skin Pointy_Nose
    Receding_Hairline Rosy_Cheeks Sideburns Smiling Straight_Hair Wavy_Hair Wearing_Earrings Wearing_Hat
    Wearing_Lipstick Wearing_Necklace Wearing_Necktie Young"""

#: The forty attributes of each face.
ATTRIBUTES = _NAMES.split()

_AGAIN = "get it again"

#: The layout of the .txt lists: no header that could be used, blanks between the columns.
_BLANKS: dict[str, Any] = {"sep": r"\s+", "header": None}

_USUAL = ("Blond_Hair", "Male")
_FOLDERS = ("celeba", "celebA", "CelebA", "celebA/data", "celebA_v1.0")
_IMAGES = "img_align_celeba"
_SOURCE = (
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html has it, for research that is not commercial; take the aligned "
    "and cropped images, the attributes and the evaluation partitions, as .txt or as .csv files"
)


class CelebA(PublishedImages):
    """CelebA: 162,770 train, 19,867 valid, 19,962 test; blond hair goes with women."""

    fit: Fit = "crop"

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
        for option, name in (("label", label), ("attribute", attribute)):
            if name not in ATTRIBUTES:
                hint = did_you_mean(name, ATTRIBUTES)
                raise InputError(f"{option} {name!r} is none of CelebA's{hint}: take one of {', '.join(ATTRIBUTES)}")
        super().__init__(root, size, augment)
        self.label, self.attribute = label, attribute

    def build(self) -> DataTable:
        """Read both lists and the images that they name."""
        folder = self._folder()
        suffix = self._suffix()
        attributes = folder / f"list_attr_celeba.{suffix}"
        frame = _read_attributes(attributes, ["image_id", self.label, self.attribute])
        problems = Problems(str(attributes), row_names(frame.index))
        meaning = {"-1": 0, "1": 1}
        label, attribute = (published.codes(frame[name], meaning, problems) for name in (self.label, self.attribute))
        names = frame["image_id"].tolist()
        images = folder / _IMAGES
        nested = images / _IMAGES  # as one of the usual archives unpacks
        images = nested if nested.is_dir() else images
        paths = files_within(images, names, problems, "image_id", look=False)
        problems.raise_if_any("error", published.get_again(attributes.name))
        usual = (self.label, self.attribute) == _USUAL
        table = DataTable(
            inputs=self._store(images, paths, names),
            label=label,
            attribute=attribute,
            split=published.rows_of_splits(_partition(folder / f"list_eval_partition.{suffix}", frame["image_id"])),
            label_names=_two_names(self.label),
            attribute_names=_two_names(self.attribute),
            # Hair that is not blond goes with either gender, blond hair with women.
            correlation=Correlation.from_table([[0, 1], [0]]) if usual else None,
            metadata={
                "source": "CelebA, aligned and cropped",
                "images": f"middle square, resized to {self.size} x {self.size}",
            },
            augment=self.augment,
            row_names=names,
            files=paths,
        )
        return published.with_count_note(table, "CelebA", COUNTS if usual else SIZES)

    def _suffix(self) -> str:
        """Return whether the lists are csv or txt."""
        lists = [place / "list_attr_celeba.csv" for place in published.places_of(self.root, _FOLDERS)]
        return "csv" if any(path.is_file() for path in lists) else "txt"

    def _folder(self) -> Path:
        files = [f"list_attr_celeba.{self._suffix()}", f"list_eval_partition.{self._suffix()}", _IMAGES]
        return published.find_folder("CelebA", self.root, _FOLDERS, files, _SOURCE)


def _two_names(name: str) -> list[str]:
    """Return the names of -1 and 1.

    >>> _two_names("Blond_Hair")
    ['not blond hair', 'blond hair']
    """
    spoken = name.replace("_", " ").lower()
    return [f"not {spoken}", spoken]


def _read_attributes(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read the list of attributes; in a .txt the first line says how many rows follow the second, the columns' names.

    Raises:
        InputError: If the file cannot be read or is cut off.
    """
    if path.suffix == ".csv":
        return read_frame(path, columns, _AGAIN)
    try:
        with path.open(encoding="utf-8-sig") as file:
            announced, names = file.readline().strip(), file.readline().split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}): {_AGAIN}") from error
    frame = read_frame(path, columns, _AGAIN, names=["image_id", *names], skiprows=2, **_BLANKS)
    if announced != str(len(frame)):
        raise InputError(f"{path} announces {announced!r} rows, but holds {len(frame)}: {_AGAIN}")
    return frame


def _partition(path: Path, image_id: pd.Series[str]) -> Tensor:
    """Return the split (M,) of the images, 0, 1 or 2, from the list of partitions.

    Raises:
        InputError: If the list lacks an image, names one twice, or gives another number.
    """
    import pandas as pd

    columns = ["image_id", "partition"]
    text = path.suffix == ".txt"
    frame = read_frame(path, columns, _AGAIN, **({"names": columns, **_BLANKS} if text else {}))
    problems = Problems(str(path), row_names(frame.index))
    split = published.codes(frame["partition"], {"0": 0, "1": 1, "2": 2}, problems)
    for row in np.flatnonzero(frame["image_id"].duplicated().to_numpy()).tolist():
        problems.add(row, f"{frame['image_id'].iloc[row]} is named twice")
    problems.raise_if_any("error", published.get_again(path.name))
    place = pd.Series(split.numpy(), index=frame["image_id"]).reindex(image_id)
    lacking = place.index[place.isna()]
    if len(lacking):
        raise InputError(f"{path} lacks {len(lacking):,} images of the other list, such as {lacking[0]}: {_AGAIN}")
    return torch.from_numpy(place.to_numpy(dtype=np.int64, copy=True))
