"""Rows from Python, saved once so that a run can be resumed, judged again and repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from logit_correction.config import ComponentConfig
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.cache import cache_folder, is_content, kept_content
from logit_correction.data.frames import as_text, attributes_as_texts, check_names, label_kind, texts_of
from logit_correction.data.images import images_of
from logit_correction.data.reader import DataSource, Numbers, as_frame, rows_of
from logit_correction.data.rows import Rows, Splitting, build_table
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, reason_of
from logit_correction.files import canonical, plain
from logit_correction.types import as_array


class Arrays(DataSource):
    """Arrays from Python, as ``from_arrays`` saved them."""

    users_own = True

    def __init__(self, file: str, augment: AugmentationName = "none", **splitting: Any) -> None:
        """Choose the file.

        Args:
            file: ``.npz`` with ``inputs`` and ``label``, and ``attribute`` and ``split`` if there are such.
            augment: Random changes of training images: none, crop-flip (small images), resized-crop-flip.
            **splitting: Those of ``Splitting``.
        """
        self.file, self.augment = Path(file).expanduser(), augment
        self.splitting, self.reader = Splitting(**splitting), Numbers(learns=True)

    def build(self) -> DataTable:
        is_content(self.file, "call from_arrays again")
        try:
            with np.load(plain(self.file), allow_pickle=False) as kept:
                arrays = checked_arrays({name: kept[name] for name in kept.files})
        except Exception as error:  # zipfile and NumPy raise many kinds
            raise InputError(f"{self.file} cannot be read ({reason_of(error)}): call from_arrays again") from error
        inputs = arrays.pop("inputs")
        texts = {name: [as_text(value) for value in values.tolist()] for name, values in arrays.items()}
        attribute = attributes_as_texts(arrays["attribute"]) if "attribute" in arrays else None
        every = range(len(inputs))
        return build_table(
            Rows("the arrays", every, values=inputs, label=texts["label"], split=texts.get("split")),
            self.reader,
            self.splitting,
            source="arrays given in Python",
            label_kind=label_kind(arrays["label"]),
            attributes={"attribute": attribute} if attribute else {},
            augment=named_augmentation(self.augment) if inputs.ndim == 4 else None,
        )


def checked_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return arrays that can be rows of data, as bytes, floats or texts; ``InputError`` if they do not fit."""
    inputs = arrays["inputs"]
    if inputs.ndim not in (2, 4) or not len(inputs) or inputs.dtype.kind not in "uifb":
        given = f"not {inputs.dtype} of shape {inputs.shape}"
        raise InputError(f"inputs must be numbers (rows, features) or (rows, channels, height, width), {given}")
    for name in ("label", "attribute", "split"):
        if name in arrays and arrays[name].shape != (len(inputs),):
            raise InputError(f"{name} has shape {arrays[name].shape}, but must be ({len(inputs)},), one for each input")
    floats = np.result_type(inputs, np.float32)  # which holds large whole numbers, such as times, too
    return {**arrays, "inputs": images_of(inputs) if inputs.ndim == 4 else inputs.astype(floats)}


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
    arrays = {}
    for name, values in given.items():
        if values is not None:
            try:
                array = as_array(values)
                if array.dtype.kind == "O" and name == "label":  # numbers stay numbers
                    array = np.asarray(array.tolist())
            except ValueError as error:
                raise InputError(f"{name} has rows of different shapes: give all rows as many numbers") from error
            if array.dtype.kind == "S":
                array = np.char.decode(array)
            if array.dtype.kind in "OU":  # what can be saved without pickle
                array = np.asarray([as_text(value) or "" for value in array.ravel().tolist()]).reshape(array.shape)
            arrays[name] = array
    arrays = checked_arrays(arrays)
    content = BytesIO()
    np.savez(content, **{name: np.ascontiguousarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    target = kept_content(cache_folder() / "arrays" if folder is None else Path(folder), content.getvalue(), ".npz")
    return ComponentConfig("Arrays", {"file": str(target), **options})


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

    frame = as_frame(rows)
    if frame is None:
        raise InputError(f"{type(rows).__name__} is no table: give a data frame, a dataset, or a mapping of columns")
    if not len(frame):
        raise InputError("the table has no rows: give one with some")
    check_names(list(frame.columns), "the table", [canonical(str(label))])
    for name, values in frame.items():
        try:
            pyarrow.array(values, from_pandas=True)
        except (pyarrow.ArrowException, ValueError, TypeError, OverflowError):  # values of several kinds are texts
            frame = frame.assign(**{str(name): np.asarray(texts_of(frame, str(name)), dtype=object)})
    content = frame.to_parquet(index=False)
    target = kept_content(cache_folder() / "tables" if folder is None else Path(folder), content, ".parquet")
    if "path" in options:
        options.setdefault("root", str(Path.cwd()))
    return ComponentConfig("Table", {"file": str(target), "label": str(label), **options})


def from_rows(
    inputs: Any, label: ArrayLike | Sequence[Any], *, folder: Path | str | None = None, **options: Any
) -> ComponentConfig:
    """Make rows the data of a run, whatever they are: all columns of a data frame are features."""
    rows = next(rows_of(inputs, texts=True), None)
    if rows is None or rows.values is not None:
        return from_arrays(inputs, label, folder=folder, **options)
    labels = np.asarray(label)
    if len(rows) != len(labels):
        raise InputError(f"there are {len(rows)} rows and {len(labels)} labels: give one label for each row")
    if rows.texts is not None:
        table = {"text": rows.texts, "label": labels.tolist()}
        return from_table(table, label="label", folder=folder, text="text", **options)
    if rows.frame is None:
        raise InputError("the rows are files: put them into a folder for each label, and give the folder")
    name = "label"
    while name in rows.frame.columns:
        name += "_"
    frame = rows.frame.reset_index(drop=True).assign(**{name: labels})
    return from_table(frame, label=name, folder=folder, **options)
