"""Rows as people hold them in Python, arrays, a data frame or texts, with their labels beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from logit_correction.config import ComponentConfig
from logit_correction.data.from_arrays import from_arrays
from logit_correction.data.from_table import from_table
from logit_correction.data.tabular_io import are_texts
from logit_correction.errors import InputError


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
