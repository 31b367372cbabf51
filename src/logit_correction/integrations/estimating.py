"""Attributes for code that numbers its labels by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from logit_correction.errors import InputError
from logit_correction.runs.estimate import AttributeEstimates, estimate_attributes


def estimate(data: Any, label: Any, **options: Any) -> AttributeEstimates:
    """Return ``estimate_attributes(data, label, ...)`` with the labels numbered as those that are given.

    Args:
        data: The rows, or a data source.
        label: (N,) names, whole numbers 0..L-1, or None for a data source.
        **options: Those of ``estimate_attributes``.

    Raises:
        InputError: Labels are whole numbers, but not 0..L-1 with none left out, or something else given is wrong.
    """
    numbers = None if label is None else np.asarray(label)
    if numbers is not None and numbers.dtype.kind in "iu":
        there = np.unique(numbers)
        missing = np.setdiff1d(np.arange(there.max(initial=-1) + 1), there)
        if len(missing) or (len(there) and there[0] < 0):
            what = f"no row has label {missing[0]}" if len(missing) else f"one is {there[0]}"
            raise InputError(f"labels must be numbered 0, 1, 2 and so on like the network's outputs, but {what}")
    found = estimate_attributes(data, label, **options)
    if numbers is not None and numbers.dtype.kind in "iu" and not np.array_equal(numbers, found.label):
        raise InputError("the labels were numbered anew: give their names, in whose order the outputs then stand")
    return found
