"""The published photos: Waterbirds, CelebA and Biased FFHQ; your own copies of their files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch

from logit_correction.data.augment import Augmentation, AugmentationName, build_augmentation
from logit_correction.data.frames import format_row_names
from logit_correction.data.images import ImageReader, Resizing, build_image_store
from logit_correction.data.rows import RowErrors, find_files_within
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, check_range
from logit_correction.types import Correlation
from logit_correction_lab.original_crops import OriginalCropFlip, read_image_sizes
from logit_correction_lab.sources.published import (
    PublishedSource,
    encode_column,
    find_split_rows,
    get_data_folder,
    read_columns,
    read_conflict_folders,
)


class Photos(PublishedSource):
    """A published data set of photos."""

    fit: Resizing = "stretch"

    def __init__(
        self,
        root: str | None = None,
        size: int = 224,
        augment: AugmentationName = "none",
        fit: Literal["stretch", "crop", "centre"] | None = None,
        crops: Literal["resized", "original"] = "resized",
    ) -> None:
        """Choose the place of the files and the form of the images.

        Args:
            root: Folder that holds the files, or the folder of the data set with them; by default
                LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            size: Height and width that images are resized to.
            augment: Random changes of training images: ``none``, ``crop-flip`` or ``resized-crop-flip``.
            fit: ``stretch`` changes the proportions; ``crop`` keeps them and takes the middle square; ``centre``
                stretches to 8/7 of the size (256 for 224) and takes the middle, as published for Waterbirds (a
                photo's shorter side is not made 256: both sides are). None takes what is usual for the data set.
            crops: What ``resized-crop-flip`` takes a part of: the ``resized`` image, or the ``original`` as published
                for Waterbirds, for which training images are kept a second time, 12/7 of the size a side.
        """
        check_range("size", size, 8, 1024)
        if crops == "original" and augment != "resized-crop-flip":
            raise InputError(f"crops original is for augment resized-crop-flip, not {augment}: give that, or no crops")
        self.title = type(self).__name__
        self.root = root
        self.augment = build_augmentation(augment)
        self.crops = crops
        self.size = (size, size)
        self.fit = fit or self.fit
        self.reader = ImageReader(self.size, self.fit)

    def table(
        self, place: Path, paths: list[Path], names: Sequence[str], metadata: dict[str, object], **contents: Any
    ) -> DataTable:
        """Read the images and return the table; the error names the first that are missing or damaged."""
        problems = RowErrors(str(place), list(names))
        inputs = build_image_store(paths, self.size, problems, self.fit)
        fix = f"get the images of {self.title} again, or fix them"
        problems.raise_if_any(fix=fix)
        augment: Augmentation | None = self.augment
        size = "{} x {}".format(*self.size)
        metadata["images"] = {
            "stretch": f"resized to {size}",
            "crop": f"middle square, resized to {size}",
            "centre": f"resized to 8/7 of {size}, of which the middle",
        }[self.fit]
        if self.crops == "original":
            train = contents["split"]["train"]
            others = set(range(len(paths))).difference(train.tolist())
            side = round(self.size[0] * 12 / 7)
            store = build_image_store(paths, (side, side), problems, skip=others)
            problems.raise_if_any(fix=fix)
            originals = torch.ones(len(paths), 2, dtype=torch.long)
            originals[train] = read_image_sizes([paths[row] for row in train.tolist()])
            augment = OriginalCropFlip(store, originals, self.size)
            metadata["training images"] = f"parts of the originals, resized to {size}"
        return DataTable(inputs=inputs, augment=augment, row_names=names, metadata=metadata, **contents)


class Waterbirds(Photos):
    """Waterbirds: 4,795 train, 1,199 valid, 5,794 test; the background agrees with the bird in 95 % of training.

    The files are ``metadata.csv`` and its images, in the folder ``waterbird_complete95_forest2water2``.
    """

    folders = ("waterbird_complete95_forest2water2", "waterbirds_v1.0", "waterbirds", "Waterbirds")
    files = ("metadata.csv",)
    source = "https://nlp.stanford.edu/data/dro/waterbird_complete95_forest2water2.tar.gz (not for commerce)"

    def build(self) -> DataTable:
        folder = self.folder()
        file = folder / "metadata.csv"
        frame = read_columns(file, ["img_filename", "y", "split", "place"])
        problems = RowErrors(str(file), format_row_names(frame.index))
        two = {"0": 0, "1": 1}
        label, attribute = (encode_column(frame[name], two, problems) for name in ("y", "place"))
        split = encode_column(frame["split"], two | {"2": 2}, problems)
        names = frame["img_filename"].tolist()
        paths = find_files_within(folder, names, problems, "img_filename", look=False)
        problems.raise_if_any(fix="get metadata.csv again, or fix it")
        usual = "worst group, and the average with groups weighted as in training"
        return self.table(
            folder,
            paths,
            names,
            {"source": "Waterbirds (waterbird_complete95_forest2water2)", "usual figures": usual},
            label=label,
            attribute=attribute,
            split=find_split_rows(split),
            label_names=["landbird", "waterbird"],
            attribute_names=["land", "water"],
            correlation=Correlation.one_to_one(2),
            files=paths,
        )


class CelebA(Photos):
    """CelebA: 162,770 train, 19,867 valid, 19,962 test; blond hair is mostly that of women.

    The files are ``list_attr_celeba`` and ``list_eval_partition`` (both .csv or both .txt) and ``img_align_celeba``, in
    the folder ``celeba``.
    """

    fit: Resizing = "crop"
    folders = ("celeba", "celebA", "CelebA", "celebA/data", "celebA_v1.0")
    source = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (not for commerce)"

    def __init__(self, label: str = "Blond_Hair", attribute: str = "Male", **photos: Any) -> None:
        """Choose the task, the place of the files and the form of the images.

        Args:
            label: Which of the forty attributes is the label.
            attribute: Which of them is the attribute that may mislead.
            **photos: Those of ``Photos``; the middle square of an image is resized.
        """
        super().__init__(**photos)
        self.label, self.attribute = label, attribute
        base = get_data_folder(self.root)
        csv = any((place / "list_attr_celeba.csv").is_file() for place in (base, *map(base.joinpath, self.folders)))
        self.ending = "csv" if csv else "txt"
        self.files = [f"list_attr_celeba.{self.ending}", f"list_eval_partition.{self.ending}", "img_align_celeba"]

    def build(self) -> DataTable:
        file, split_file, images = (self.folder() / name for name in self.files)
        if (images / images.name).is_dir():  # as one of the usual archives unpacks
            images = images / images.name
        columns, of_split = ["image_id", self.label, self.attribute], ["image_id", "partition"]
        if self.ending == "txt":  # a header without that of the files stands in the second line
            with file.open(encoding="utf-8", errors="replace") as lines:
                header = ["image_id", *"".join(islice(lines, 1, 2)).split()]
            frame = read_columns(file, columns, header, skipped=2)
            partition = read_columns(split_file, of_split, of_split)
        else:
            frame, partition = read_columns(file, columns), read_columns(split_file, of_split)
        places = partition.drop_duplicates("image_id").set_index("image_id")["partition"]
        problems = RowErrors(f"{file} or {split_file.name}", format_row_names(frame.index))
        split = encode_column(frame["image_id"].map(places).fillna(""), {"0": 0, "1": 1, "2": 2}, problems)
        label, attribute = (
            encode_column(frame[name], {"-1": 0, "1": 1}, problems) for name in (self.label, self.attribute)
        )
        names = frame["image_id"].tolist()
        paths = find_files_within(images, names, problems, "image_id", look=False)
        problems.raise_if_any(fix=f"get {file.name} and {split_file.name} again, or fix them")
        usual = (self.label, self.attribute) == ("Blond_Hair", "Male")
        spoken = [name.replace("_", " ").lower() for name in (self.label, self.attribute)]
        return self.table(
            images,
            paths,
            names,
            {"source": "CelebA, aligned and cropped"},
            label=label,
            attribute=attribute,
            split=find_split_rows(split),
            label_names=[f"not {spoken[0]}", spoken[0]],
            attribute_names=[f"not {spoken[1]}", spoken[1]],
            # Hair that is not blond goes with either gender, blond hair with women.
            correlation=Correlation.from_table([[0, 1], [0]]) if usual else None,
            files=paths,
        )


class BiasedFFHQ(Photos):
    """Biased FFHQ: 19,200 faces, age agrees with gender in all but 96 of them.

    The files are the folders ``0.5pct``, ``valid`` and ``test``, in the folder ``bffhq``.
    """

    folders = ("bffhq", "bFFHQ")
    source = "https://github.com/kakaoenterprise/Learning-Debiased-Disentangled (not for commerce)"

    def __init__(self, pct: str = "0.5pct", **photos: Any) -> None:
        """Choose the place of the files and the form of the images.

        Args:
            pct: Name of the training folder, which tells its share of bias-conflicting images.
            **photos: Those of ``Photos``.
        """
        if not re.fullmatch(r"[\w.]*\w", pct):
            raise InputError(f"pct {pct!r} is no name of a folder: give one such as 0.5pct")
        super().__init__(**photos)
        self.pct, self.files = pct, [f"{pct}/align", f"{pct}/conflict", "valid", "test"]

    def build(self) -> DataTable:
        folder = self.folder()
        paths, names, label, attribute, split = read_conflict_folders(folder, self.files, 2)
        metadata: dict[str, object] = {
            "source": f"Biased FFHQ, {self.pct}",
            "names": "numbers of the file names; young women and old men are the majority",
            "usual figure": "accuracy on the bias-conflicting test images alone, here the minority figure",
        }
        return self.table(
            folder,
            paths,
            names,
            metadata,
            label=label,
            attribute=attribute,
            split=split,
            label_names=["age 0", "age 1"],
            attribute_names=["gender 0", "gender 1"],
            correlation=Correlation.one_to_one(2),
            ordered=False,  # aligned images come first, and names tell the attribute: files are for no view
        )
