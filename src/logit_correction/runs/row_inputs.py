"""Inputs of networks as rows: several batches as one, and in archives next to other arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch

from logit_correction.errors import InputError
from logit_correction.types import Array, Inputs

#: Name of the array of inputs in an archive; a colon and the name of an input follow where a network takes several.
INPUTS = "inputs"


def concatenate_inputs(batches: Sequence[Inputs]) -> Inputs:
    """Return the inputs of all rows of several batches."""
    first = batches[0]
    if isinstance(first, dict):
        return {name: torch.cat([batch[name] for batch in batches]) for name in first}  # type: ignore[index]
    return torch.cat(list(batches))  # type: ignore[arg-type]


def write_row_archive(path: Path, inputs: Inputs | None, **arrays: Array) -> None:
    """Write inputs and other arrays of the same rows as a NumPy archive, which holds no code.

    Args:
        path: The file.
        inputs: Of the networks; None writes none.
        **arrays: Name -> array.
    """
    parts = inputs if isinstance(inputs, dict) else {"": inputs}
    tensors = {f"{INPUTS}:{name}": tensor.numpy() for name, tensor in parts.items() if tensor is not None}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays, **tensors)  # type: ignore[arg-type]


def read_row_archive(path: Path, row_axes: Mapping[str, int], remedy: str) -> tuple[Inputs | None, dict[str, Array]]:
    """Return the inputs and the other arrays that ``write_row_archive`` has written.

    Args:
        path: The file.
        row_axes: Name of each other array that the file must hold -> its axis of rows.
        remedy: What a user can do about a damaged file.

    Returns:
        The inputs, None where there are none, and name -> array.

    Raises:
        InputError: The file is missing or damaged, or its arrays have different numbers of rows.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        names = [name for name in arrays if name.partition(":")[0] == INPUTS]
        tensors = {name.partition(":")[2]: torch.from_numpy(arrays.pop(name)) for name in names}
        num_rows = {arrays[name].shape[axis] for name, axis in row_axes.items()}
        if len(num_rows.union(map(len, tensors.values()))) > 1:
            raise ValueError("its arrays have different numbers of rows")
    except (OSError, ValueError, KeyError, IndexError, EOFError, TypeError, BadZipFile) as error:
        raise InputError(f"{path} is missing or damaged ({error}): {remedy}") from error
    return tensors.get("", tensors or None), arrays
