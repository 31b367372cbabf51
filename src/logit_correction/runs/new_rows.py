"""New rows from Python, whatever they are, as a run's data source reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.arrays import checked_values
from logit_correction.data.images import UnreadableImages
from logit_correction.data.reader import DataSource
from logit_correction.data.stores import InputStore
from logit_correction.errors import InputError
from logit_correction.types import DataInfo, as_array

#: What a run predicts: names of files, texts, numbers or mappings of columns, a row each; arrays, or a data frame.
NewInputs: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | Mapping[str, Any]

#: New rows as the source reads them, and in what other forms views may look at them.
Part: TypeAlias = tuple[InputStore, dict[str, Any]]

#: Image files in memory at a time.
CHUNK = 512


def as_rows(inputs: NewInputs) -> Any:
    """Return rows as an array or a tensor, a data frame or a mapping of columns, or a list of names or texts.

    Raises:
        InputError: If they are one row alone, or no rows.
    """
    if isinstance(inputs, str | Path):
        raise InputError(f"inputs are one name, {str(inputs)!r}: give a list of names")
    columns = inputs.values() if isinstance(inputs, Mapping) else ()
    if any(isinstance(one, str) or not hasattr(one, "__len__") for one in columns):
        raise InputError("the inputs are one row, a mapping of single values: give a list of such rows")
    if isinstance(inputs, Tensor | Mapping) or hasattr(inputs, "columns"):
        return inputs
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "UO":
        return inputs
    if not isinstance(inputs, Iterable):
        raise InputError(f"the inputs are of type {type(inputs).__name__}: give a list of rows")
    rows = list(inputs)
    if all(isinstance(row, str | Path) for row in rows):  # or there are none
        return rows
    if all(isinstance(row, Mapping) for row in rows):
        return pd.DataFrame(rows, dtype=object)  # a gap beside a 3 does not make it 3.0
    try:
        array = np.asarray(rows)
    except ValueError:  # rows of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "uifb":
        kinds = ", ".join(sorted({type(row).__name__ for row in rows}))
        raise InputError(
            f"the inputs are a list of {kinds}, and cannot be read as rows: give rows of equally many numbers, "
            "mappings of columns, texts or names of files, all of one kind, or a data frame"
        )
    return array


def _are_files(inputs: Any, source: DataSource) -> bool:
    """Return whether rows are names of files; where texts are inputs only a ``Path`` is one."""
    return isinstance(inputs, list) and (not source.takes_texts or any(isinstance(one, Path) for one in inputs))


def store_of(inputs: NewInputs, source: DataSource, info: DataInfo) -> InputStore:
    """Return inputs that are no files as the networks take them.

    Args:
        inputs: Arrays, texts, a data frame or a mapping of columns.
        source: The run's data source.
        info: What inputs are.

    Raises:
        InputError: If the shape or the values do not fit.
    """
    if not isinstance(inputs, Tensor | np.ndarray):
        return source.read_values(inputs)
    if isinstance(inputs, np.ndarray):
        inputs = np.require(inputs, requirements=["C", "W"])  # else torch refuses a flipped array
    values, shape = torch.as_tensor(inputs), info.input_shape
    if len(shape) == 3 and values.dim() == 4 and tuple(values.shape[1:]) == (*shape[1:], shape[0]):
        values = values.permute(0, 3, 1, 2)  # channels last, as most programs have images
    if tuple(values.shape[1:]) != shape:
        shown = ", ".join(map(str, shape))
        raise InputError(f"inputs have shape {tuple(values.shape)}, but must be (n, {shown})")
    if len(shape) == 3:
        values = torch.from_numpy(checked_values(as_array(values)))
    if values.is_floating_point() and not bool(torch.isfinite(values).all()):
        raise InputError("the inputs hold NaN or infinity: fix or remove those rows")
    return source.as_store(values)


def parts_of(inputs: NewInputs, source: DataSource, info: DataInfo) -> Iterator[Part]:
    """Yield new rows as a source reads them, images of files a few at a time.

    Args:
        inputs: Arrays, texts, a data frame, a mapping of columns, names of files, or a list of rows.
        source: The data source, prepared by its training rows.
        info: What inputs are.

    Raises:
        InputError: If a file cannot be read, or the shape or the values do not fit.
    """
    inputs = as_rows(inputs)
    if isinstance(inputs, list) and not inputs:
        return
    if not _are_files(inputs, source):
        store = store_of(inputs, source, info)
        images = len(info.input_shape) == 3  # which views see as they are
        yield store, {} if images else source.looks(inputs)
        return
    paths, faults = [Path(path) for path in inputs], []
    for start in range(0, len(paths), CHUNK):
        chunk = paths[start : start + CHUNK]
        try:
            store = source.read_new(chunk)
        except UnreadableImages as error:  # the others are looked at as well, to name all at once
            faults += error.faults
        else:
            yield store, {"files": chunk}
    if faults:
        raise UnreadableImages(faults)
