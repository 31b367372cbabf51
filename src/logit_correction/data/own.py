"""A user's own data: images in folders, a CSV or Parquet file, and rows from Python.

Rows from Python are saved once, so that a run can be resumed, judged again and repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from logit_correction.data.augment import AugmentationName, build_augmentation
from logit_correction.data.build import build_table
from logit_correction.data.cache import cache_file, get_cache_folder, is_cached_file
from logit_correction.data.cells import (
    check_required_column_names,
    check_required_columns,
    convert_attributes_to_texts,
    convert_to_label_array,
    convert_to_texts,
    infer_label_kind,
)
from logit_correction.data.column_kinds import NumberFormat
from logit_correction.data.features import ColumnReader
from logit_correction.data.image_folders import HIDDEN_PREFIXES, find_label_folders, find_labelled_images
from logit_correction.data.images import ImageReader
from logit_correction.data.new_rows import convert_to_frame, convert_to_rows
from logit_correction.data.reader import convert_to_channels_first
from logit_correction.data.rows import Rows
from logit_correction.data.source import DataSource
from logit_correction.data.splits import Splitting
from logit_correction.data.table import DataTable
from logit_correction.data.table_files import SAVE_AS_UTF8, read_frame
from logit_correction.data.texts import TextReader
from logit_correction.errors import InputError
from logit_correction.formatting import format_option, format_reason
from logit_correction.paths import reject_special_file
from logit_correction.registry import ComponentConfig, parse_name_list
from logit_correction.unicode_text import escape_undecodable, normalize_text

#: Columns and files that a message lists.
MAX_LISTED_COLUMNS = 20
MAX_LISTED_FILES = 10


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
        self.reader = ImageReader(size, "crop")
        self.augment = build_augmentation(augment)
        self.splitting = Splitting(**splitting)

    def build(self) -> DataTable:
        if not self.root.is_dir():
            raise InputError(
                f"{format_option('data.root', self.root)} is not a folder: give the folder that holds the images"
            )
        folders = find_label_folders(self.root)
        if len({folder.name for folder in folders}) < 2:
            paths = sorted(self.root.glob("*"))[:MAX_LISTED_FILES]
            content = ", ".join(escape_undecodable(path.relative_to(self.root)) for path in paths)
            raise InputError(
                f"{self.root} must hold a folder of images for each of at least two labels, or such folders in train, "
                f"valid and test (none whose name begins with {' or '.join(HIDDEN_PREFIXES)}); it holds "
                f"{content or 'nothing'}: give the folder above it, or a table that names images and labels"
            )
        return build_table(
            find_labelled_images(self.root, folders),
            self.reader,
            self.splitting,
            source=f"the images of {self.root.resolve().name}",
            augment=self.augment,
            ordered=False,  # folders are read label by label: the place of a row would give its label away
        )


class Table(DataSource):
    """Your own CSV or Parquet file, one row an example: a text, an image file, or columns of features."""

    SPLIT = "split"  # a column of this name holds splits even if it is not named: * leaves it out
    UNNAMED = "Unnamed: 0"  # the first column, if it has no name: pandas' index, by which labels may be sorted

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
        dayfirst: bool | None = None,
        **splitting: Any,
    ) -> None:
        """Name the columns. Of ``text``, ``path`` and ``features`` give one; features are all others if you give none.

        Args:
            file: CSV (commas, semicolons, tabs or |) or Parquet.
            label: Column of labels, names or numbers; it must be named.
            text: Column of texts.
            path: Column of image files. A name may lack its ending, differ in case, or have backslashes, where only one
                image can be meant.
            features: Columns of features, or * for all that have no other part, except texts that are not categories
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
            encoding: Encoding of a CSV, such as cp1252; by default that of its byte order mark, or UTF-8.
            dayfirst: Whether dates such as 08/11/2024 begin with the day, true, or the month, false. By default each
                column tells by dates that fit one order alone; where both fit all rows you are asked.
            **splitting: Those of ``Splitting``.
        """
        self.file = Path(file).expanduser()
        self.encoding = encoding
        self.label, text, path, self.split, self.split_by = (
            name and normalize_text(name) for name in (label, text, path, split, split_by)
        )
        self.attributes = parse_name_list(attribute)
        features = parse_name_list(features) or ([] if text or path else ["*"])
        categorical = parse_name_list(categorical)
        numbers = parse_name_list(numbers)
        self._check_columns_chosen(text, path, features)
        self.splitting = Splitting(**splitting)
        self.augment = build_augmentation(augment) if path else None
        self.part_columns = [name for name in (self.label, self.split, self.split_by, *self.attributes) if name]
        self.chosen_columns = {*self.part_columns, text, path, *features, *categorical, *numbers}
        if text:
            self.reader = TextReader(text, tokenizer, max_tokens)
        elif path:
            self.reader = ImageReader(size, "crop", column=path, root=Path(root).expanduser() if root else None)
        else:
            not_features = {self.split or "", self.split_by or "", self.SPLIT} - {*categorical, *numbers, *features}
            others = [str(self.label), *self.attributes, *not_features]
            number_format = NumberFormat(decimal, thousands, dayfirst)
            self.reader = ColumnReader(features, others, categorical, numbers, number_format)

    def _check_columns_chosen(self, text: str | None, path: str | None, features: Sequence[str]) -> None:
        """Raise ``InputError`` unless there is a label and one kind of inputs, without the label."""
        if not self.label:
            columns = ", ".join(list(self._read_frame().columns)[:MAX_LISTED_COLUMNS])
            raise InputError(
                f"{format_option('data.label')} is missing: name the column of labels, and a column of texts by "
                f"{format_option('data.text')} or of image files by {format_option('data.path')} if that is the input; "
                f"{self.file} has the columns {columns}"
            )
        if sum(map(bool, (text, path, features))) != 1:
            raise InputError(
                f"{format_option('data.text')}, {format_option('data.path')} and {format_option('data.features')} each "
                "name the input: give one of them"
            )
        if self.label in (text, path, *features):
            raise InputError(f"the label {self.label!r} would be its own input: leave it out of the inputs")

    def _read_frame(self) -> pd.DataFrame:
        other_encoding = format_option("data.encoding", "cp1252")
        remedy = f"{SAVE_AS_UTF8}; one of Excel in another encoding is read by {other_encoding}"
        return read_frame(self.file, self.encoding, remedy)

    def build(self) -> DataTable:
        is_from_python = is_cached_file(self.file, "call from_table again")
        place = "the table given in Python" if is_from_python else str(self.file)
        frame = self._read_frame()
        notes = []
        if frame.columns[0] == self.UNNAMED and self.UNNAMED not in self.chosen_columns:
            frame = frame.drop(columns=self.UNNAMED)
            notes.append(f"the first column, without a name, is not used ({self.UNNAMED})")
        if self.SPLIT in frame.columns and self.SPLIT not in self.chosen_columns:
            notes.append(f"the column 'split' is not used: give {format_option('data.split', 'split')} to use it")
        check_required_columns(frame, place, self.part_columns)
        texts: dict[str | None, list[str | None]] = {name: convert_to_texts(frame[name]) for name in self.part_columns}
        rows = Rows(
            place,
            frame.index,
            frame,
            self.file.parent,
            label=texts[self.label],
            split=texts.get(self.split),
            notes=tuple(notes),
        )
        return build_table(
            rows,
            self.reader,
            self.splitting,
            source="rows given in Python" if is_from_python else f"the rows of {self.file.name}",
            split_by=self.split_by,
            units=texts.get(self.split_by, ()),
            attributes={name: texts[name] for name in self.attributes},
            augment=self.augment,
            label_kind=infer_label_kind(frame[self.label]),
            lines=torch.tensor(frame.index) if frame.index.name == "line" else None,
        )


class Arrays(DataSource):
    """Arrays from Python, as ``from_arrays`` saved them."""

    TEXTS = ("label", "attribute", "split")  # what the file holds as texts, the empty one for none

    users_own = True

    def __init__(self, file: str, augment: AugmentationName = "none", **splitting: Any) -> None:
        """Choose the file.

        Args:
            file: What ``from_arrays`` wrote.
            augment: Random changes of training images: none, crop-flip (small images), resized-crop-flip.
            **splitting: Those of ``Splitting``.
        """
        self.file = Path(file).expanduser()
        self.augment: AugmentationName = augment
        self.splitting = Splitting(**splitting)

    def build(self) -> DataTable:
        is_cached_file(self.file, "call from_arrays again")
        try:
            with np.load(reject_special_file(self.file), allow_pickle=False) as saved:
                inputs = saved["inputs"]
                label_kind = str(saved["label_kind"].item())
                texts = {name: [text or None for text in saved[name].tolist()] for name in self.TEXTS if name in saved}
        except Exception as error:  # zipfile and NumPy raise many kinds
            raise InputError(f"{self.file} cannot be read ({format_reason(error)}): call from_arrays again") from error
        rows = Rows("the arrays", range(len(inputs)), values=inputs, label=texts["label"], split=texts.get("split"))
        return build_table(
            rows,
            self.reader,
            self.splitting,
            source="arrays given in Python",
            label_kind=label_kind,
            attributes={"attribute": texts["attribute"]} if "attribute" in texts else {},
            augment=build_augmentation(self.augment) if inputs.ndim == 4 else None,
        )


def from_arrays(
    inputs: ArrayLike | Tensor,
    label: ArrayLike | Tensor,
    *,
    attribute: ArrayLike | Tensor | None = None,
    split: ArrayLike | None = None,
    folder: Path | str | None = None,
    **options: Any,
) -> ComponentConfig:
    """Make arrays the data of a run: ``RunConfig(data=from_arrays(X, y), method=ComponentConfig("LC"))``.

    The arrays are saved to one file named by its content, so a run can be resumed, evaluated and repeated.

    Args:
        inputs: Features (n, F); or images (n, C, H, W) or (n, H, W, C), unsigned bytes or floats in [0, 1].
        label: (n,) names or whole numbers.
        attribute: (n,) names or whole numbers, None or -1 where unknown; leave it out where all are unknown.
        split: (n,) train, valid or test; drawn label by label where it is left out.
        folder: Where to save; by default ``arrays`` in the cache folder.
        **options: Those of ``Arrays``, such as ``test_fraction``.
    """
    given = {"inputs": inputs, "label": label, "attribute": attribute, "split": split}
    try:
        arrays = {name: convert_to_label_array(values) for name, values in given.items() if values is not None}
    except ValueError as error:
        fault = f"one of {', '.join(given)} has rows of different shapes"
        raise InputError(f"{fault}: give all rows as many numbers") from error
    rows = arrays.pop("inputs")
    if rows.ndim not in (2, 4) or not len(rows) or rows.dtype.kind not in "uifb":
        raise InputError(
            "inputs must be numbers (rows, features) or (rows, channels, height, width), "
            f"not {rows.dtype} of shape {rows.shape}"
        )
    float_type = np.result_type(rows, np.float32)  # which holds large whole numbers, such as times, too
    saved = {"inputs": convert_to_channels_first(rows) if rows.ndim == 4 else rows.astype(float_type)}
    saved["label_kind"] = np.asarray([infer_label_kind(arrays["label"])])
    for name, values in arrays.items():
        if values.shape != (len(rows),):
            raise InputError(f"{name} has shape {values.shape}, but must be ({len(rows)},), one for each input")
        if values.dtype.kind == "S":
            values = np.char.decode(values)
        texts = convert_attributes_to_texts(values) if name == "attribute" else convert_to_texts(values)
        saved[name] = np.asarray([text or "" for text in texts])
    content = BytesIO()
    np.savez(content, **{name: np.ascontiguousarray(array) for name, array in saved.items()})  # type: ignore[arg-type]
    return _cache_rows_as_source("Arrays", "arrays", content.getvalue(), ".npz", folder, options)


def from_table(rows: Any, *, label: str, folder: Path | str | None = None, **options: Any) -> ComponentConfig:
    """Make a table in memory the data of a run, with the options of ``Table``.

    Args:
        rows: A pandas DataFrame; what has ``to_pandas``, as Hugging Face's and Polars' tables do; or columns by name.
        label: Column of labels.
        folder: Where to save; by default ``tables`` in the cache folder.
        **options: Those of ``Table``: ``text``, ``path`` or ``features``, ``split``, ``attribute``, and so on.

    >>> import tempfile
    >>> from logit_correction import from_table
    >>> rows = {"review": ["good", "bad", "fine", "poor"], "verdict": ["yes", "no", "yes", "no"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     from_table(rows, label="verdict", text="review", folder=folder).name
    'Table'
    """
    import pyarrow

    frame = convert_to_frame(rows)
    if frame is None:
        raise InputError(
            f"label={label!r} names a column, and the rows are not a table"
            f": give a list of labels, or a data frame, a dataset or a mapping of columns"
        )
    if not len(frame):
        raise InputError("the table has no rows: give one with some")
    check_required_column_names(frame, "the table", [normalize_text(str(label))])
    try:
        content = frame.to_parquet(index=False)
    except pyarrow.ArrowException as error:
        fault = f"the table holds what no file can ({format_reason(error)})"
        raise InputError(f"{fault}: leave the column out, or write what is in it anew") from error
    if "path" in options:
        options.setdefault("root", str(Path.cwd()))
    return _cache_rows_as_source("Table", "tables", content, ".parquet", folder, {"label": str(label), **options})


def _cache_rows_as_source(
    source_name: str,
    cache_subfolder: str,
    content: bytes,
    suffix: str,
    folder: Path | str | None,
    options: dict[str, Any],
) -> ComponentConfig:
    """Save rows to a file named by its content, and return the source that reads it."""
    file = cache_file(get_cache_folder() / cache_subfolder if folder is None else Path(folder), content, suffix)
    return ComponentConfig(source_name, {"file": str(file), **options})


def from_rows(
    inputs: Any, label: ArrayLike | Sequence[Any], *, folder: Path | str | None = None, **options: Any
) -> ComponentConfig:
    """Make rows in any form the data of a run; all columns of a data frame are features.

    Args:
        inputs: n rows, as ``convert_to_rows`` takes them; a str is a text.
        label: n labels.
        folder: Where to save; by default the cache folder.
        **options: Those of ``Table`` or ``Arrays``.
    """
    rows = next(convert_to_rows(inputs, texts=True), None)
    if rows is None or rows.values is not None:
        return from_arrays(inputs, label, folder=folder, **options)
    labels = convert_to_label_array(label)
    if labels.shape != (len(rows),):
        raise InputError(f"label has shape {labels.shape}, but must be ({len(rows)},), one for each row")
    if rows.texts is not None:
        table = {"text": rows.texts, "label": labels.tolist()}
        return from_table(table, label="label", folder=folder, text="text", **options)
    if rows.frame is None:
        raise InputError("the rows are files: put them into a folder for each label, and give the folder")
    name = "label"
    while name in rows.frame.columns:
        name += "_"
    frame = rows.frame.reset_index(drop=True).assign(**{name: pd.Series(labels)})
    return from_table(frame, label=name, folder=folder, **options)
