"""The published photos: Waterbirds, CelebA and Biased FFHQ; your own copies of their files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from logit_correction.data.augment import AugmentationName, build_augmentation
from logit_correction.data.cells import format_row_names
from logit_correction.data.image_files import Resizing
from logit_correction.data.images import ImageReader, read_image_store
from logit_correction.data.rows import RowErrors
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, check_range
from logit_correction.types import Correlation
from logit_correction_lab.original_crops import OriginalCropFlip, read_image_sizes
from logit_correction_lab.sources.published import (
    PublishedSource,
    encode_column,
    find_split_rows,
    get_data_folder,
    read_labels_from_file_names,
    read_list_columns,
)

if TYPE_CHECKING:
    import pandas as pd


class Photos(PublishedSource):
    """A published data set of photos.

    Attributes:
        fit: How images are brought to one size.
    """

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

    def build_table_from_images(
        self,
        image_dir: Path,
        paths: list[Path],
        row_names: Sequence[str],
        metadata: dict[str, object],
        **table_fields: Any,
    ) -> DataTable:
        """Read the images and return the table.

        Args:
            image_dir: Where the images lie, for messages.
            paths: M images.
            row_names: M names of them.
            metadata: That of the table; facts on the images are added.
            **table_fields: Other fields of the table.

        Raises:
            InputError: Images are missing or damaged; the message names the first.
        """
        errors = RowErrors(str(image_dir), list(row_names))
        fix = f"get the images of {self.title} again, or fix them"
        inputs, _ = read_image_store(paths, self.size, errors, self.fit)
        errors.raise_if_any(remedy=fix)
        height, width = self.size
        size = f"{height} x {width}"
        metadata["images"] = {
            "stretch": f"resized to {size}",
            "crop": f"middle square, resized to {size}",
            "centre": f"the middle of images resized to 8/7 of {size}",
        }[self.fit]
        augment = self.augment
        if self.crops == "original":
            train = table_fields["split"]["train"].tolist()
            side = round(height * 12 / 7)
            others = set(range(len(paths))).difference(train)
            store, _ = read_image_store(paths, (side, side), errors, skip=others)
            errors.raise_if_any(remedy=fix)
            originals = torch.ones(len(paths), 2, dtype=torch.long)
            originals[train] = read_image_sizes([paths[row] for row in train])
            augment = OriginalCropFlip(store, originals, self.size)
            metadata["training images"] = f"parts of the originals, resized to {size}"
        return DataTable(inputs=inputs, augment=augment, row_names=row_names, metadata=metadata, **table_fields)

    def build_table_from_list(
        self, frame: pd.DataFrame, folder: Path, list_name: str, codes: Mapping[str, int], **contents: Any
    ) -> DataTable:
        """Read the images that a published list names and return the table.

        Args:
            frame: The list; its four columns are file, label, attribute and split (0, 1 or 2), as texts.
            folder: Where the images lie.
            list_name: The file of the list, for messages.
            codes: Text -> number, of labels and of attributes.
            **contents: Other fields of the table.

        Raises:
            InputError: The list or images are damaged.
        """
        file, label, attribute, split = frame.columns
        errors = RowErrors(list_name, format_row_names(frame.index))
        names = frame[file].tolist()
        contents["label"] = encode_column(frame[label], codes, errors)
        contents["attribute"] = encode_column(frame[attribute], codes, errors)
        contents["split"] = find_split_rows(encode_column(frame[split], {"0": 0, "1": 1, "2": 2}, errors))
        contents["files"] = [folder / name for name in names]
        errors.raise_if_any(remedy=f"get {list_name} again, or fix the rows")
        return self.build_table_from_images(folder, contents["files"], names, **contents)


class Waterbirds(Photos):
    """Waterbirds: 4,795 train, 1,199 valid, 5,794 test; the background agrees with the bird in 95 % of training.

    The files are ``metadata.csv`` and its images, in the folder ``waterbird_complete95_forest2water2``.
    """

    folders = ("waterbird_complete95_forest2water2", "waterbirds_v1.0", "waterbirds", "Waterbirds")
    files = ("metadata.csv",)
    source = "https://nlp.stanford.edu/data/dro/waterbird_complete95_forest2water2.tar.gz (not for commerce)"

    def build(self) -> DataTable:
        folder = self.find_folder()
        file = folder / "metadata.csv"
        metadata = {
            "source": "Waterbirds (waterbird_complete95_forest2water2)",
            "usual figures": "worst group, and the average with groups weighted as in training",
        }
        return self.build_table_from_list(
            read_list_columns(file, ["img_filename", "y", "place", "split"]),
            folder,
            str(file),
            {"0": 0, "1": 1},
            metadata=metadata,
            label_names=["landbird", "waterbird"],
            attribute_names=["land", "water"],
            correlation=Correlation.one_to_one(2),
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
        self.label = label
        self.attribute = attribute
        base = get_data_folder(self.root)
        is_csv = any((base / folder / "list_attr_celeba.csv").is_file() for folder in (".", *self.folders))
        self.ending = "csv" if is_csv else "txt"
        self.files = (f"list_attr_celeba.{self.ending}", f"list_eval_partition.{self.ending}", "img_align_celeba")

    def build(self) -> DataTable:
        file, split_file, images = (self.find_folder() / name for name in self.files)
        if (images / images.name).is_dir():  # as one of the usual archives unpacks
            images = images / images.name
        columns = ["image_id", self.label, self.attribute]
        split_columns = ["image_id", "partition"]
        if self.ending == "txt":  # the second line is a header that lacks the column of file names
            header = ["image_id", *file.read_text(encoding="utf-8", errors="replace").split("\n", 2)[1].split()]
            frame = read_list_columns(file, columns, header, skipped_lines=2)
            partition = read_list_columns(split_file, split_columns, split_columns)
        else:
            frame = read_list_columns(file, columns)
            partition = read_list_columns(split_file, split_columns)
        splits = partition.drop_duplicates("image_id").set_index("image_id")["partition"]
        label, attribute = (name.replace("_", " ").lower() for name in columns[1:])
        is_usual = columns[1:] == ["Blond_Hair", "Male"]
        return self.build_table_from_list(
            frame.assign(partition=frame["image_id"].map(splits).fillna("")),
            images,
            f"{file} and {split_file.name}",
            {"-1": 0, "1": 1},
            metadata={"source": "CelebA, aligned and cropped"},
            label_names=[f"not {label}", label],
            attribute_names=[f"not {attribute}", attribute],
            # Both genders have hair that is not blond; most blond people are women.
            correlation=Correlation.from_table([[0, 1], [0]]) if is_usual else None,
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
            pct: Name of the training folder, which holds its share of bias-conflicting images.
            **photos: Those of ``Photos``.
        """
        if not re.fullmatch(r"[\w.]*\w", pct):
            raise InputError(f"pct {pct!r} is not the name of a folder: give one such as 0.5pct")
        super().__init__(**photos)
        self.pct = pct
        self.files = (f"{pct}/align", f"{pct}/conflict", "valid", "test")

    def build(self) -> DataTable:
        folder = self.find_folder()
        paths, contents = read_labels_from_file_names(folder, self.files, 2)
        metadata: dict[str, object] = {
            "source": f"Biased FFHQ, {self.pct}",
            "names": "numbers of the file names; young women and old men are the majority",
            "usual figure": "accuracy on the bias-conflicting test images alone, here the minority figure",
        }
        return self.build_table_from_images(
            folder,
            paths,
            metadata=metadata,
            label_names=["age 0", "age 1"],
            attribute_names=["gender 0", "gender 1"],
            correlation=Correlation.one_to_one(2),
            **contents,
        )
