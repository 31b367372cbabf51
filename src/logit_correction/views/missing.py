"""Which columns of a row have no value."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from logit_correction.views.base import View, ViewInputs
from logit_correction.views.columns import is_missing


class Missing(View):
    """The pattern of missing values: who fills a form in, or which machine measures, may leave out what it will."""

    name = "missing"
    sentence = "which values are missing, and how many"
    breadth = 0
    needs = "a table of features with missing values"

    def __init__(self) -> None:
        self._columns: list[str] = []

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        """Return the view if any value is missing."""
        return [cls()] if any(is_missing(values).any() for values in inputs.columns.values()) else []

    def can_look(self, inputs: ViewInputs) -> bool:
        """Return whether there are columns of features."""
        return bool(inputs.columns)

    def fit(self, inputs: ViewInputs) -> None:
        """Learn in which columns values are missing."""
        self._columns = [name for name, values in inputs.columns.items() if is_missing(values).any()]

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return a flag for each column in which training rows miss values, and how many a row misses in all columns.

        Returns:
            (N, columns + 1).
        """
        number = np.zeros(inputs.num_rows, dtype=np.float32)
        for values in inputs.columns.values():
            number += is_missing(values)
        flags = [is_missing(inputs.columns[name]) for name in self._columns]
        return torch.from_numpy(np.stack([*flags, number], axis=1, dtype=np.float32, casting="unsafe"))
