"""A user's own files: ``ImageFolder``, images in folders, and ``Table``, a CSV or Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from logit_correction.config import listed
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.cache import is_content
from logit_correction.data.features import Columns
from logit_correction.data.frames import Written, check_columns, label_kind, read_frame, texts_of
from logit_correction.data.images import Images, find_images, label_folders
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import Rows, Splitting, build_table
from logit_correction.data.table import DataTable
from logit_correction.data.texts import Texts
from logit_correction.errors import InputError
from logit_correction.files import canonical, printable

#: A column of this name says which rows are for what, also where nobody has named it: * leaves it out.
SPLIT = "split"

#: What pandas calls a CSV's first column where it has no name: its index, which would tell labels that stand in order.
UNNAMED = "Unnamed: 0"


class ImageFolder(DataSource):
    """Your own images: ``root/LABEL/*.jpg`` or ``root/{train,valid,test}/LABEL/*.jpg``."""

    users_own = True

    def __init__(
        self, root: str, size: int | None = None, augment: AugmentationName = "none", **splitting: Any
    ) -> None:
        """Choose the folder and how images are read.

        Args:
            root: The folder of a folder for each label, or for each split.
            size: Height and width of images: the middle is taken and resized. None takes the median of their shorter
                sides, at most 224.
            augment: Random changes of training images: none, crop-flip (small images), resized-crop-flip.
            **splitting: Those of ``Splitting``.
        """
        self.root = Path(root).expanduser()
        self.reader = Images(size, "crop")
        self.augment, self.splitting = named_augmentation(augment), Splitting(**splitting)

    def build(self) -> DataTable:
        if not self.root.is_dir():
            raise InputError(f"--data.root {self.root} is no folder: give the folder that holds the images")
        folders = label_folders(self.root)
        if len({folder.name for folder in folders}) < 2:
            holds = ", ".join(printable(path.relative_to(self.root)) for path in sorted(self.root.glob("*"))[:10])
            raise InputError(
                f"{self.root} must hold a folder of images for each of at least two labels, or such folders in train, "
                f"valid and test; it holds {holds or 'nothing'}: give the folder above it, or a table of images itself"
            )
        rows, notes = find_images(self.root, folders)
        return build_table(
            rows,
            self.reader,
            self.splitting,
            source=f"the images of {self.root.resolve().name}",
            notes=notes,
            augment=self.augment,
            ordered=False,  # folders are read label by label: the place of a row would tell its label
        )


class Table(DataSource):
    """Your own CSV or Parquet file, one row an example: a text, an image file, or columns of features."""

    users_own = True

    def __init__(
        self,
        file: str,
        label: str | None = None,
        text: str | None = None,
        path: str | None = None,
        features: str | list[str] | None = None,
        categorical: str | list[str] | None = None,
        numbers: str | list[str] | None = None,
        split: str | None = None,
        split_by: str | None = None,
        attribute: str | list[str] | None = None,
        tokenizer: str | None = None,
        max_tokens: int = 128,
        root: str | None = None,
        size: int | None = None,
        augment: AugmentationName = "none",
        decimal: str | None = None,
        thousands: str | None = None,
        encoding: str | None = None,
        dayfirst: bool = False,
        **splitting: Any,
    ) -> None:
        """Name the columns. Of ``text``, ``path`` and ``features`` give one; features are all others if you give none.

        Args:
            file: CSV (commas, semicolons, tabs or |) or Parquet.
            label: Column of labels, names or numbers; it must be named.
            text: Column of texts.
            path: Column of image files.
            features: Columns of features, or * for all that have no other part, but for texts that are no categories
                and a column split. Numbers, and dates such as 2024-05-31, are standardised by the training rows; a
                column of names becomes one number, 0 or 1, for each name. Values may be missing.
            categorical: Those features whose numbers stand for names, such as 3 for the third hospital.
            numbers: Those features whose other cells, such as >10 or n/k, count as missing.
            split: Column that says train, valid or test; splits that it does not give are drawn, label by label. Rows
                that it calls new are those that the model will be used on: their labels may be missing.
            split_by: Column such as a patient: rows that share its value are drawn into one split.
            attribute: Columns of attributes, where you have them; several make one attribute of their combinations. An
                empty cell is unknown.
            tokenizer: Splits texts for a language model: a name on the Hugging Face hub or a folder. Without one, words
                are counted.
            max_tokens: Tokens of a text that are read.
            root: Folder of the image files, by default that of the table; they may not leave it. Those of a new table
                may lie next to it, too.
            size: Height and width of images: the middle is taken and resized. None takes the median of their shorter
                sides, at most 224.
            augment: Random changes of training images: none, crop-flip (small images), resized-crop-flip.
            decimal: What numbers have before their fraction; of a CSV separated by semicolons a comma, else a point.
            thousands: What numbers have between thousands.
            encoding: Encoding of a CSV, such as latin-1; by default UTF-8.
            dayfirst: Read 31/12/2024 as a date, the day first.
            **splitting: Those of ``Splitting``.
        """
        chosen, names, cells = listed(features) or ([] if text or path else ["*"]), listed(categorical), listed(numbers)
        label, text, path, split, split_by = (one and canonical(one) for one in (label, text, path, split, split_by))
        self.file, self.attributes = Path(file).expanduser(), listed(attribute)
        self.split, self.split_by = split, split_by
        self.layout = {"encoding": encoding} if encoding else {}
        if label is None or sum(map(bool, (text, path, chosen))) != 1:
            columns = ", ".join(list(read_frame(self.file, **self.layout).columns)[:20])
            raise InputError(
                "give --data.label and one of --data.text, --data.path (images) and --data.features (numbers, dates "
                f"and names, or * for all others): {file} has the columns {columns}"
            )
        if label in (text, path, *chosen):
            raise InputError(f"the label {label!r} would be its own input: leave it out of the inputs")
        self.label = label
        self.splitting = Splitting(**splitting)
        self.named = {label, split, split_by, text, path, *self.attributes, *chosen, *names, *cells}
        self.augment = named_augmentation(augment) if path else None
        if text:
            self.reader = Texts(text, tokenizer, max_tokens)
        elif path:
            self.reader = Images(size, "crop", column=path, root=Path(root).expanduser() if root else None)
        else:
            others = [
                label,
                *self.attributes,
                *({split or "", split_by or "", SPLIT} - {*names, *cells, *chosen}),
            ]
            self.reader = Columns(chosen, others, names, cells, Written(decimal, thousands, dayfirst))

    def build(self) -> DataTable:
        from_python = is_content(self.file, "call from_table again")
        frame = read_frame(self.file, **self.layout)
        place = "the table given in Python" if from_python else str(self.file)
        notes = []
        if frame.columns[0] == UNNAMED and UNNAMED not in self.named:
            frame = frame.drop(columns=UNNAMED)
            notes.append(f"the first column, without a name, is not used ({UNNAMED})")
        check_columns(frame, place, [one for one in (self.label, self.split, self.split_by, *self.attributes) if one])
        rows = Rows(
            place,
            frame.index,
            frame,
            self.file.parent,
            label=texts_of(frame, self.label),
            split=texts_of(frame, self.split) if self.split else None,
        )
        if SPLIT in frame.columns and SPLIT not in self.named:
            notes.append("the column 'split' is not used: give --data.split split to use it")
        return build_table(
            rows,
            self.reader,
            self.splitting,
            source="rows given in Python" if from_python else f"the rows of {self.file.name}",
            split_by=self.split_by,
            units=texts_of(frame, self.split_by) if self.split_by else (),
            attributes={name: texts_of(frame, name) for name in self.attributes},
            notes=notes,
            augment=self.augment,
            label_kind=label_kind(frame[self.label]),
            lines=torch.tensor(frame.index.to_numpy()) if frame.index.name == "line" else None,
        )
