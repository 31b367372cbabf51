"""Rows from Python, saved once so that a run can be resumed, judged again and repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from logit_correction.config import ComponentConfig
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.cache import cache_folder, digest, made_once, read_arrays, tables_folder
from logit_correction.data.frames import are_texts, as_text, check_names, check_unique
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import OnBadRows, Problems, Records, Splitting, build_table, copies_told
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, reason_of
from logit_correction.types import as_array

#: Where images have their channels: (n, C, H, W) or (n, H, W, C).
Channels: TypeAlias = Literal["first", "last"]

#: How many channels an image may have.
COUNTS = (1, 3)


def channels_first(images: NDArray[Any], channels: Channels | None = None) -> NDArray[Any]:
    """Return images (n, C, H, W).

    Args:
        images: (n, C, H, W) or (n, H, W, C), with 1 or 3 channels.
        channels: Which of them; None tells it by the axis of length 1 or 3.

    Raises:
        InputError: If neither fits, or both do and nobody said which.

    >>> channels_first(np.zeros((5, 28, 28, 3))).shape
    (5, 3, 28, 28)
    >>> channels_first(np.zeros((5, 3, 28, 3)))
    Traceback (most recent call last):
    ...
    logit_correction.errors.InputError: images have shape (5, 3, 28, 3), of which axis 1 or axis 3 may be the channels:
    give channels="first" or channels="last"
    """
    if channels not in (None, "first", "last"):
        raise InputError(f'channels is {channels!r}, but must be "first", "last" or None')
    fits = {"first": images.shape[1] in COUNTS, "last": images.shape[3] in COUNTS}
    if channels is None and all(fits.values()):
        raise InputError(
            f"images have shape {images.shape}, of which axis 1 or axis 3 may be the channels: give "
            'channels="first" or channels="last"'
        )
    found = channels or ("first" if fits["first"] else "last")
    if not fits[found]:
        wanted = {None: "", "first": " first", "last": " last"}[channels]
        raise InputError(
            f"images have shape {images.shape}, but must be (rows, channels, height, width) or (rows, height, width, "
            f"channels), with 1 or 3 channels{wanted}"
        )
    return images if found == "first" else np.moveaxis(images, 3, 1)


def checked_values(images: NDArray[Any]) -> NDArray[Any]:
    """Return images as unsigned bytes or float32 in [0, 1]; NaN and infinity stay, for those who tell of rows.

    Raises:
        InputError: If they are of another type, or finite values lie outside.

    >>> checked_values(np.array([0, 255]))
    Traceback (most recent call last):
    ...
    logit_correction.errors.InputError: images are of type int64, but must be unsigned bytes or floats in [0, 1]
    """
    wanted = "but must be unsigned bytes or floats in [0, 1]"
    if images.dtype.kind not in "fb" and images.dtype != np.uint8:
        raise InputError(f"images are of type {images.dtype}, {wanted}")
    if images.dtype == np.uint8 or not images.size:
        return images
    images = images.astype(np.float32, copy=False)
    ends = images.min(), images.max()
    if not np.isfinite(ends).all():
        finite = images[np.isfinite(images)]
        ends = (finite.min(), finite.max()) if finite.size else (0, 0)
    if ends[0] < 0 or ends[1] > 1:
        raise InputError(f"images lie between {ends[0]:g} and {ends[1]:g}, {wanted}: scale them")
    return images


#: Features of which each is a column that can be looked at alone; of more, one says little.
MOST_COLUMNS = 256


class Arrays(DataSource):
    """Arrays from Python, as ``from_arrays`` saved them."""

    def __init__(
        self,
        file: str,
        augment: AugmentationName = "none",
        valid_fraction: float = 0.1,
        test_fraction: float = 0.2,
        seed: int = 0,
        on_bad_rows: OnBadRows = "error",
    ) -> None:
        """Choose the file.

        Args:
            file: ``.npz`` with ``inputs`` and ``label``, and ``attribute`` and ``split`` if there are such.
            augment: Random changes of training images: none, crop-flip (small images), resized-crop-flip.
            valid_fraction: Fraction of each label's rows for validation, where no split is given.
            test_fraction: Fraction of each label's rows for the test, where no split is given.
            seed: Seed of the split, apart from the run's.
            on_bad_rows: ``error`` names the bad rows and stops, ``skip`` names them and leaves them out.
        """
        self.file, self.augment, self.on_bad_rows = Path(file).expanduser(), augment, on_bad_rows
        self.splitting = Splitting(valid_fraction, test_fraction, seed)
        self.shape: tuple[int, ...] = ()

    def build(self) -> DataTable:
        """Read the file and check the arrays."""
        arrays = self._read()
        inputs, names = arrays["inputs"], [f"row {row}" for row in range(len(arrays["label"]))]
        problems = Problems("the arrays", names)
        if inputs.dtype != np.uint8:
            finite = np.isfinite(inputs.reshape(len(inputs), -1)).all(axis=1)
            for row in np.flatnonzero(~finite).tolist():
                problems.add(row, "its input holds NaN or infinity")
            inputs = np.where(finite.reshape(-1, *([1] * (inputs.ndim - 1))), inputs, 0).astype(np.float32)
        raw = Records(
            problems,
            [as_text(value) for value in arrays["label"].tolist()],
            [as_text(value) for value in arrays["split"].tolist()] if "split" in arrays else None,
            {"attribute": _known(arrays["attribute"])} if "attribute" in arrays else {},
            metadata={"source": "arrays given in Python"},
        )
        augment = named_augmentation(self.augment, inputs.shape[2:]) if inputs.ndim == 4 else None
        store = ArrayStore(torch.from_numpy(inputs))
        table = copies_told(build_table(raw, lambda: store, self.splitting, self.on_bad_rows, augment))
        return replace(table, columns=columns_of(inputs), preparation={"shape": list(inputs.shape[1:])})

    def prepare(self, preparation: Mapping[str, Any]) -> None:
        """Take over the shape of an input, so that image files can be read where the arrays' file is gone."""
        self.shape = tuple(preparation.get("shape", ()))

    def _read(self) -> dict[str, NDArray[Any]]:
        try:
            arrays = read_arrays(self.file)
        except (OSError, ValueError) as error:
            raise InputError(
                f"the arrays' file {self.file} cannot be read ({error}): call from_arrays again, which saves it"
            ) from error
        return checked_arrays(arrays)

    def read_new(self, paths: Sequence[Path]) -> InputStore:
        """Read image files, resized to the images of training."""
        shape = self.shape = self.shape or self._read()["inputs"].shape[1:]
        if len(shape) != 3 or shape[0] != 3:
            raise InputError(f"this model takes arrays of shape {shape}, not image files")
        self.image_size = (shape[1], shape[2])
        return super().read_new(paths)

    def looks(self, values: Any, folder: Path | None = None) -> dict[str, Any]:
        """Return the columns of feature vectors."""
        return {"columns": columns_of(np.asarray(values))}


def columns_of(inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the columns of feature vectors (n, F), named by their number, for views; none of anything else."""
    if inputs.ndim != 2 or inputs.shape[1] > MOST_COLUMNS:
        return {}
    return {str(i): inputs[:, i] for i in range(inputs.shape[1])}


def _known(values: NDArray[Any]) -> list[str | None]:
    """Return attributes as texts; -1 of whole numbers is unknown."""
    unknown = "-1" if values.dtype.kind in "iu" else None
    return [None if (text := as_text(value)) == unknown else text for value in values.tolist()]


def checked_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return arrays that can be rows of data, as bytes, floats or texts.

    Raises:
        InputError: If shapes, types or the values of images do not fit.
    """
    inputs, label = arrays.get("inputs"), arrays.get("label")
    if inputs is None or label is None:
        raise InputError("arrays need inputs and label")
    if inputs.ndim not in (2, 4) or not len(inputs) or inputs.dtype.kind not in "uifb":
        raise InputError(
            f"inputs have shape {inputs.shape} and type {inputs.dtype}, but must be numbers: (rows, features), or "
            "(rows, channels, height, width) for images"
        )
    if inputs.ndim == 4 and inputs.shape[1] not in COUNTS:
        raise InputError(f"images have shape {inputs.shape}, but must be (rows, channels, height, width): transpose")
    for name in ("label", "attribute", "split"):
        if name in arrays and arrays[name].shape != (len(inputs),):
            raise InputError(f"{name} has shape {arrays[name].shape}, but must be ({len(inputs)},), one for each input")
    return {**arrays, "inputs": checked_values(inputs) if inputs.ndim == 4 else inputs.astype(np.float32)}


def from_arrays(
    inputs: ArrayLike | Tensor,
    label: ArrayLike | Tensor,
    *,
    attribute: ArrayLike | Tensor | None = None,
    split: ArrayLike | None = None,
    channels: Channels | None = None,
    folder: Path | str | None = None,
    **options: Any,
) -> ComponentConfig:
    """Make arrays the data of a run: ``RunConfig(data=from_arrays(X, y), method=ComponentConfig("LC"))``.

    The arrays are saved to one file named by its content, so that a run can go on, be judged again and be repeated.

    Args:
        inputs: Features (n, F); or images (n, C, H, W) or (n, H, W, C), unsigned bytes or floats in [0, 1].
        label: (n,) names or whole numbers.
        attribute: (n,) names or whole numbers, None or -1 where unknown; leave it out where none is known.
        split: (n,) train, valid or test; drawn label by label where it is left out.
        channels: Whether images have their channels ``first`` or ``last``; None tells it by the axis of length 1 or 3.
        folder: Where to save; by default ``arrays`` in the cache folder.
        **options: Those of ``Arrays``, such as ``test_fraction``.

    Raises:
        InputError: If shapes, types or the values of images do not fit.

    >>> from_arrays([[0.0, 1.0], [1.0, 0.0]], ["a"])
    Traceback (most recent call last):
    ...
    logit_correction.errors.InputError: label has shape (1,), but must be (2,), one for each input
    """
    arrays = {"inputs": _array(inputs), "label": _plain(label)}
    if arrays["inputs"].ndim == 4 and arrays["inputs"].dtype.kind in "uifb":
        arrays["inputs"] = np.ascontiguousarray(channels_first(arrays["inputs"], channels))
    if attribute is not None:
        arrays["attribute"] = _plain(attribute)
    if split is not None:
        arrays["split"] = _plain(split)
    arrays = checked_arrays(arrays)
    parts: list[str | bytes] = []
    for name, values in sorted(arrays.items()):
        parts += [name, f"{values.dtype} {values.shape}", np.ascontiguousarray(values).tobytes()]
    target = (cache_folder() / "arrays" if folder is None else Path(folder)) / f"{digest(parts)}.npz"
    made_once(target, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
    return ComponentConfig("Arrays", {"file": str(target), **options})


def _array(values: ArrayLike | Tensor) -> NDArray[Any]:
    try:
        return as_array(values)
    except ValueError as error:
        raise InputError("the rows are of different lengths or shapes: give all rows as many numbers") from error


def _plain(values: ArrayLike | Tensor) -> NDArray[Any]:
    """Return an array that can be saved without pickle: names as texts, empty where there is none."""
    array = _array(values)
    if array.dtype.kind in "OSU":
        return np.asarray([as_text(value) or "" for value in array.ravel().tolist()]).reshape(array.shape)
    return array


def from_table(rows: Any, *, label: str, folder: Path | str | None = None, **options: Any) -> ComponentConfig:
    """Make a table in memory the data of a run, with the options of ``Table``.

    Args:
        rows: A pandas DataFrame; a Hugging Face ``Dataset``, or a ``DatasetDict`` of splits; or a mapping of columns.
        label: Column of labels. A Hugging Face ``ClassLabel`` becomes its names.
        folder: Where to save; by default ``tables`` in the cache folder.
        **options: Those of ``Table``: ``text``, ``path`` or ``features``, ``split``, ``attribute``, and so on.

    Raises:
        InputError: If it is no table, has no rows or two columns of one name, or values of a column differ in kind.

    >>> import tempfile
    >>> from logit_correction import from_table
    >>> rows = {"review": ["good", "bad", "fine", "poor"], "verdict": ["yes", "no", "yes", "no"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     from_table(rows, label="verdict", text="review", folder=folder).name
    'Table'
    """
    from pyarrow import ArrowException

    frame, has_splits = _frame_of(rows)
    names = [str(name) for name in frame.columns]
    check_unique(names, "the table")
    check_names(names, "the table", [str(label)])
    if has_splits:
        options.setdefault("split", "split")
    try:
        content = frame.to_parquet(index=False)
    except (ArrowException, ValueError, TypeError, OverflowError) as error:
        reason = reason_of(error)
        raise InputError(f"the table cannot be saved ({reason}): give each column values of one kind") from error
    target = (tables_folder() if folder is None else Path(folder)) / f"{digest([content])}.parquet"
    made_once(target, lambda file: file.write_bytes(content))
    if "path" in options:
        options.setdefault("root", str(Path.cwd()))
    return ComponentConfig("Table", {"file": str(target), "label": str(label), **options})


def _frame_of(rows: Any) -> tuple[Any, bool]:
    """Return a data frame, and whether it was put together from splits."""
    import pandas as pd

    if isinstance(rows, pd.DataFrame):
        return rows, False
    if isinstance(rows, Mapping) and rows and all(hasattr(part, "to_pandas") for part in rows.values()):
        parts = [_frame_of(part)[0].assign(split=name) for name, part in rows.items()]
        return pd.concat(parts, ignore_index=True), True
    if hasattr(rows, "to_pandas"):
        frame = rows.to_pandas()
        for name, feature in (getattr(rows, "features", None) or {}).items():
            if getattr(feature, "names", None) and name in frame.columns:
                frame[name] = [feature.names[number] if number >= 0 else None for number in frame[name].tolist()]
        return frame, False
    if isinstance(rows, Mapping):
        return pd.DataFrame({name: list(values) for name, values in rows.items()}), False
    raise InputError(f"{type(rows).__name__} is no table: give a data frame, a dataset, or a mapping of columns")


def from_rows(
    inputs: Any, label: ArrayLike | Sequence[Any], *, folder: Path | str | None = None, **options: Any
) -> ComponentConfig:
    """Make rows the data of a run, whatever they are.

    Args:
        inputs: An array or tensor, as ``from_arrays`` takes it; a data frame, of which all columns are features; or a
            list of texts.
        label: (n,) names or whole numbers.
        folder: Where to save; by default the cache folder.
        **options: Those of ``Arrays`` or ``Table``, such as ``test_fraction``.

    Raises:
        InputError: If it is none of these, or numbers of inputs and labels differ.

    >>> from_rows(["good", "bad"], [1, 0]).options["text"]
    'text'
    """
    import pandas as pd

    if isinstance(inputs, pd.DataFrame):
        name = _free_name(inputs.columns)
        _check_count(len(inputs), len(label))  # type: ignore[arg-type]
        labelled = inputs.reset_index(drop=True).assign(**{name: np.asarray(label)})
        return from_table(labelled, label=name, folder=folder, features="*", **options)
    if isinstance(inputs, str):
        raise InputError("the inputs are one text: give a list of texts, one for each label")
    if are_texts(inputs):
        _check_count(len(inputs), len(label))  # type: ignore[arg-type]
        texts = {"text": list(inputs), "label": np.asarray(label).tolist()}
        return from_table(texts, label="label", folder=folder, text="text", **options)
    return from_arrays(inputs, label, folder=folder, **options)


def _check_count(rows: int, labels: int) -> None:
    if rows != labels:
        raise InputError(f"there are {rows} rows and {labels} labels: give one label for each row")


def _free_name(taken: Any) -> str:
    """Return a name for the column of labels that is not taken."""
    name = "label"
    while name in taken:
        name += "_"
    return name
