"""The published photos: Waterbirds, CelebA and Biased FFHQ; your own copies of their files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.bench import published
from logit_correction.correlation import Correlation
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.frames import read_frame, row_names
from logit_correction.data.images import Fit, image_store
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import Problems, files_within
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

#: Rows per label (landbird, waterbird) and attribute (land, water).
WATERBIRDS: dict[str, published.Counts] = {
    "train": [[3498, 184], [56, 1057]],
    "valid": [[467, 466], [133, 133]],
    "test": [[2255, 2255], [642, 642]],
}

#: Rows of each split; with the usual label and attribute those of train are known per label and attribute.
CELEBA: dict[str, published.Counts] = {"train": 162_770, "valid": 19_867, "test": 19_962}
CELEBA_USUAL: dict[str, published.Counts] = {**CELEBA, "train": [[71_629, 66_874], [22_880, 1_387]]}

#: Training rows that follow the shortcut and that conflict with it, for each published ratio.
BFFHQ = {"0.5pct": (19_104, 96)}

_AGAIN = "get it again"


def _square(size: int) -> tuple[int, int]:
    if not 8 <= size <= 1024:
        raise InputError(f"size is {size}, but must lie in 8..1024: pixels of a side")
    return size, size


def _read_images(source: DataSource, place: Path, paths: Sequence[Path], names: Sequence[str]) -> InputStore:
    """Read images in the size of a source; the error names the first that are missing or damaged."""
    assert source.image_size is not None
    problems = Problems(str(place), list(names))
    store = image_store(paths, source.image_size, problems, source.fit)
    problems.raise_if_any("error", f"get the images of {type(source).__name__} again, or fix them")
    return store


class Waterbirds(DataSource):
    """Waterbirds: 4,795 train, 1,199 valid, 5,794 test; the background goes with the bird in 95 % of training."""

    def __init__(self, root: str | None = None, size: int = 224, augment: AugmentationName = "none") -> None:
        """Choose the place of the files and the form of the images.

        Args:
            root: Folder that holds ``metadata.csv``, or the folder ``waterbird_complete95_forest2water2`` with it; by
                default LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            size: Height and width that images are resized to.
            augment: Random changes of training images: ``none``, ``crop-flip`` or ``resized-crop-flip``.
        """
        self.root, self.size, self.image_size, self.augment = (
            root,
            size,
            _square(size),
            named_augmentation(augment, size),
        )

    def ensure_files(self) -> None:
        """Look for the files."""
        self._folder()

    def _folder(self) -> Path:
        archive = "https://nlp.stanford.edu/data/dro/waterbird_complete95_forest2water2.tar.gz"
        command = published.fetch_command(archive, published.data_folder(self.root))
        source = f"`{command}` gets it, for research that is not commercial"
        folders = ("waterbird_complete95_forest2water2", "waterbirds_v1.0", "waterbirds", "Waterbirds")
        return published.find_folder("Waterbirds", self.root, folders, ["metadata.csv"], source)

    def build(self) -> DataTable:
        """Read ``metadata.csv`` and the images that it names."""
        folder = self._folder()
        file = folder / "metadata.csv"
        frame = read_frame(file, ["img_filename", "y", "split", "place"], _AGAIN)
        problems = Problems(str(file), row_names(frame.index))
        two = {"0": 0, "1": 1}
        label, attribute = (published.codes(frame[name], two, problems) for name in ("y", "place"))
        split = published.codes(frame["split"], two | {"2": 2}, problems)
        names = frame["img_filename"].tolist()
        paths = files_within(folder, names, problems, "img_filename", look=False)
        problems.raise_if_any("error", "get metadata.csv again, or fix it")
        table = DataTable(
            inputs=_read_images(self, folder, paths, names),
            label=label,
            attribute=attribute,
            split=published.rows_of_splits(split),
            label_names=["landbird", "waterbird"],
            attribute_names=["land", "water"],
            correlation=Correlation.one_to_one(2),
            metadata={
                "source": "Waterbirds (waterbird_complete95_forest2water2)",
                "images": f"resized to {self.size} x {self.size}",
                "usual figures": "worst group, and the average with groups weighted as in training",
            },
            augment=self.augment,
            row_names=names,
            files=paths,
        )
        return published.with_count_note(table, "Waterbirds", WATERBIRDS)


#: The forty attributes of each face of CelebA.
ATTRIBUTES = """5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips Big_Nose Black_Hair
    Blond_Hair Blurry Brown_Hair Bushy_Eyebrows Chubby Double_Chin Eyeglasses Goatee Gray_Hair Heavy_Makeup
    High_Cheekbones Male Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard Oval_Face Pale_Skin Pointy_Nose
    Receding_Hairline Rosy_Cheeks Sideburns Smiling Straight_Hair Wavy_Hair Wearing_Earrings Wearing_Hat
    Wearing_Lipstick Wearing_Necklace Wearing_Necktie Young"""

#: The layout of the .txt lists: no header that could be used, blanks between the columns.
_BLANKS: dict[str, Any] = {"sep": r"\s+", "header": None}


class CelebA(DataSource):
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
        known = ATTRIBUTES.split()
        if label == attribute:
            raise InputError(f"label and attribute are both {label}: name two different ones of the forty")
        for option, name in (("label", label), ("attribute", attribute)):
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"{option} {name!r} is none of CelebA's{hint}: take one of {', '.join(known)}")
        self.root, self.size, self.image_size, self.augment = (
            root,
            size,
            _square(size),
            named_augmentation(augment, size),
        )
        self.label, self.attribute = label, attribute

    def ensure_files(self) -> None:
        """Look for the files."""
        self._files()

    def _files(self) -> tuple[Path, Path, Path]:
        """Return the two lists and the folder of the images."""
        folders = ("celeba", "celebA", "CelebA", "celebA/data", "celebA_v1.0")
        base = published.data_folder(self.root)
        csv = any((place / "list_attr_celeba.csv").is_file() for place in (base, *map(base.joinpath, folders)))
        lists = [f"{name}.{'csv' if csv else 'txt'}" for name in ("list_attr_celeba", "list_eval_partition")]
        source = (
            "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html has it, for research that is not commercial; take the "
            "aligned and cropped images, the attributes and the evaluation partitions, as .txt or as .csv files"
        )
        folder = published.find_folder("CelebA", self.root, folders, [*lists, "img_align_celeba"], source)
        images = folder / "img_align_celeba"
        nested = images / images.name  # as one of the usual archives unpacks
        return folder / lists[0], folder / lists[1], nested if nested.is_dir() else images

    def build(self) -> DataTable:
        """Read both lists and the images that they name."""
        attributes, partition, images = self._files()
        frame = _celeba_attributes(attributes, ["image_id", self.label, self.attribute])
        problems, meaning = Problems(str(attributes), row_names(frame.index)), {"-1": 0, "1": 1}
        label, attribute = (published.codes(frame[name], meaning, problems) for name in (self.label, self.attribute))
        names = frame["image_id"].tolist()
        paths = files_within(images, names, problems, "image_id", look=False)
        problems.raise_if_any("error", f"get {attributes.name} again, or fix it")
        usual = (self.label, self.attribute) == ("Blond_Hair", "Male")
        spoken = [name.replace("_", " ").lower() for name in (self.label, self.attribute)]
        table = DataTable(
            inputs=_read_images(self, images, paths, names),
            label=label,
            attribute=attribute,
            split=published.rows_of_splits(_celeba_partition(partition, frame["image_id"])),
            label_names=[f"not {spoken[0]}", spoken[0]],
            attribute_names=[f"not {spoken[1]}", spoken[1]],
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
        return published.with_count_note(table, "CelebA", CELEBA_USUAL if usual else CELEBA)


def _celeba_attributes(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read the list of attributes; in a .txt it begins with the number of rows and the names of the columns."""
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


def _celeba_partition(path: Path, image_id: pd.Series[str]) -> Tensor:
    """Return the split (M,) of the images, 0, 1 or 2, from the list of partitions."""
    import pandas as pd

    columns = ["image_id", "partition"]
    frame = read_frame(path, columns, _AGAIN, **({"names": columns, **_BLANKS} if path.suffix == ".txt" else {}))
    problems = Problems(str(path), row_names(frame.index))
    split = published.codes(frame["partition"], {"0": 0, "1": 1, "2": 2}, problems)
    for row in np.flatnonzero(frame["image_id"].duplicated().to_numpy()).tolist():
        problems.add(row, f"{frame['image_id'].iloc[row]} is named twice")
    problems.raise_if_any("error", f"get {path.name} again, or fix it")
    place = pd.Series(split.numpy(), index=frame["image_id"]).reindex(image_id)
    lacking = place.index[place.isna()]
    if len(lacking):
        raise InputError(f"{path} lacks {len(lacking):,} images of the other list, such as {lacking[0]}: {_AGAIN}")
    return torch.from_numpy(place.to_numpy(dtype=np.int64, copy=True))


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
        self.root, self.size, self.image_size, self.augment = (
            root,
            size,
            _square(size),
            named_augmentation(augment, size),
        )
        self.pct, self.parts = pct, [f"{pct}/align", f"{pct}/conflict", "valid", "test"]

    def ensure_files(self) -> None:
        """Look for the files."""
        self._folder()

    def _folder(self) -> Path:
        source = (
            "https://github.com/kakaoenterprise/Learning-Debiased-Disentangled links to it, for use that is not "
            "commercial; unpack it"
        )
        return published.find_folder("BiasedFFHQ", self.root, ("bffhq", "bFFHQ"), self.parts, source)

    def build(self) -> DataTable:
        """Read the images; label and attribute are the last two numbers of their names."""
        folder = self._folder()
        found = published.read_conflict_folders(folder, self.parts, 2)
        table = DataTable(
            inputs=_read_images(self, folder, found.paths, found.names),
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
        counts, expected = (found.counts[0], found.counts[1]), BFFHQ.get(self.pct)
        if expected is None or counts == expected:
            return table
        told = [f"{one[0]:,} aligned and {one[1]:,} conflicting" for one in (counts, expected)]
        note = f"these are not the published files of BiasedFFHQ, {self.pct}: {told[0]}, published are {told[1]}"
        return replace(table, attribute_notes=(note,))
