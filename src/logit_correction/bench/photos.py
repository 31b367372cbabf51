"""The published photos: Waterbirds, CelebA and Biased FFHQ; your own copies of their files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from logit_correction.bench import published
from logit_correction.correlation import Correlation
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.frames import read_frame, row_names
from logit_correction.data.images import Fit, image_store
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import Problems, files_within
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, check_range

_AGAIN = "get it again"


def _square(size: int) -> tuple[int, int]:
    check_range("size", size, 8, 1024)
    return size, size


def _read_images(source: DataSource, place: Path, paths: Sequence[Path], names: Sequence[str]) -> InputStore:
    """Read images in the size of a source; the error names the first that are missing or damaged."""
    assert source.image_size is not None
    problems = Problems(str(place), list(names))
    store = image_store(paths, source.image_size, problems, source.fit)
    problems.raise_if_any("error", f"get the images of {type(source).__name__} again, or fix them")
    return store


class Waterbirds(DataSource):
    """Waterbirds: 4,795 train, 1,199 valid, 5,794 test; the background agrees with the bird in 95 % of training."""

    def __init__(self, root: str | None = None, size: int = 224, augment: AugmentationName = "none") -> None:
        """Choose the place of the files and the form of the images.

        Args:
            root: Folder that holds ``metadata.csv``, or the folder ``waterbird_complete95_forest2water2`` with it; by
                default LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            size: Height and width that images are resized to.
            augment: Random changes of training images: ``none``, ``crop-flip`` or ``resized-crop-flip``.
        """
        self.root, self.size, self.augment = root, size, named_augmentation(augment)
        self.image_size = _square(size)

    def ensure_files(self) -> None:
        self._folder()

    def _folder(self) -> Path:
        source = "https://nlp.stanford.edu/data/dro/waterbird_complete95_forest2water2.tar.gz (not for commerce)"
        folders = ("waterbird_complete95_forest2water2", "waterbirds_v1.0", "waterbirds", "Waterbirds")
        return published.find_folder("Waterbirds", self.root, folders, ["metadata.csv"], source)

    def build(self) -> DataTable:
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
        return DataTable(
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


class CelebA(DataSource):
    """CelebA: 162,770 train, 19,867 valid, 19,962 test; blond hair is mostly that of women."""

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
        self.root, self.size, self.augment = root, size, named_augmentation(augment)
        self.image_size = _square(size)
        self.label, self.attribute = label, attribute

    def ensure_files(self) -> None:
        self._folder()

    def _folder(self) -> tuple[Path, str]:
        """Return the folder, and the ending of the lists in it."""
        folders = ("celeba", "celebA", "CelebA", "celebA/data", "celebA_v1.0")
        base = published.data_folder(self.root)
        csv = any((place / "list_attr_celeba.csv").is_file() for place in (base, *map(base.joinpath, folders)))
        ending = "csv" if csv else "txt"
        files = [f"list_attr_celeba.{ending}", f"list_eval_partition.{ending}", "img_align_celeba"]
        source = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (not for commerce)"
        return published.find_folder("CelebA", self.root, folders, files, source), ending

    def build(self) -> DataTable:
        folder, ending = self._folder()
        images = folder / "img_align_celeba"
        if (images / images.name).is_dir():  # as one of the usual archives unpacks
            images = images / images.name
        file, split_file = folder / f"list_attr_celeba.{ending}", folder / f"list_eval_partition.{ending}"
        of_list, of_split = dict[str, Any](), dict[str, Any]()
        if ending == "txt":  # blanks between the columns, and a header without that of the files, in the second line
            with file.open(encoding="utf-8", errors="replace") as lines:
                header = ["image_id", *"".join(islice(lines, 1, 2)).split()]
            of_list = {"sep": r"\s+", "header": None, "names": header, "skiprows": 2}
            of_split = {"sep": r"\s+", "header": None, "names": ["image_id", "partition"]}
        frame = read_frame(file, ["image_id", self.label, self.attribute], _AGAIN, **of_list)
        partition = read_frame(split_file, ["image_id", "partition"], _AGAIN, **of_split)
        places = partition.drop_duplicates("image_id").set_index("image_id")["partition"]
        problems = Problems(f"{file} or {split_file.name}", row_names(frame.index))
        split = published.codes(frame["image_id"].map(places).fillna(""), {"0": 0, "1": 1, "2": 2}, problems)
        meaning = {"-1": 0, "1": 1}
        label, attribute = (published.codes(frame[name], meaning, problems) for name in (self.label, self.attribute))
        names = frame["image_id"].tolist()
        paths = files_within(images, names, problems, "image_id", look=False)
        problems.raise_if_any("error", f"get {file.name} and {split_file.name} again, or fix them")
        usual = (self.label, self.attribute) == ("Blond_Hair", "Male")
        spoken = [name.replace("_", " ").lower() for name in (self.label, self.attribute)]
        return DataTable(
            inputs=_read_images(self, images, paths, names),
            label=label,
            attribute=attribute,
            split=published.rows_of_splits(split),
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


class BiasedFFHQ(DataSource):
    """Biased FFHQ: 19,200 faces, age agrees with gender in all but 96 of them."""

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
        self.root, self.size, self.augment = root, size, named_augmentation(augment)
        self.image_size = _square(size)
        self.parts = [f"{pct}/align", f"{pct}/conflict", "valid", "test"]

    def ensure_files(self) -> None:
        self._folder()

    def _folder(self) -> Path:
        source = "https://github.com/kakaoenterprise/Learning-Debiased-Disentangled (not for commerce)"
        return published.find_folder("BiasedFFHQ", self.root, ("bffhq", "bFFHQ"), self.parts, source)

    def build(self) -> DataTable:
        folder = self._folder()
        paths, names, label, attribute, split = published.read_conflict_folders(folder, self.parts, 2)
        return DataTable(
            inputs=_read_images(self, folder, paths, names),
            label=label,
            attribute=attribute,
            split=split,
            label_names=["age 0", "age 1"],
            attribute_names=["gender 0", "gender 1"],
            correlation=Correlation.one_to_one(2),
            metadata={
                "source": f"Biased FFHQ, {self.parts[0].partition('/')[0]}",
                "images": f"resized to {self.size} x {self.size}",
                "names": "numbers of the file names; young women and old men are the majority",
                "usual figure": "accuracy on the bias-conflicting test images alone, here the minority figure",
            },
            augment=self.augment,
            row_names=names,
            ordered=False,  # aligned images come first, and names tell the attribute: files are for no view
        )
