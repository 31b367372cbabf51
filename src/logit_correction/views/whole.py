"""The whole input, as the network sees it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from logit_correction.views.base import View, ViewInputs

#: Numbers of a row at most; of more a small head makes little.
MOST_NUMBERS = 8192


class Inputs(View):
    """All numbers that the network sees, in a row: pixels, features, or what a frozen encoder makes of them.

    It can see everything, so that what it finds is no evidence by itself; only the head upon it is small.
    """

    name = "inputs"
    sentence = "everything that the network sees"
    breadth = 3

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        """Return the view if an input is a tensor of few numbers; tokens are none."""
        if not inputs.num_rows:
            return []
        first = inputs.inputs(torch.zeros(1, dtype=torch.long))
        return [cls()] if isinstance(first, Tensor) and 0 < math.prod(first.shape[1:]) <= MOST_NUMBERS else []

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the inputs, (N, F); what is not finite is 0."""
        values = torch.zeros(0, 0)
        for rows in inputs.image_chunks():
            part = inputs.inputs(rows)
            assert isinstance(part, Tensor)
            if not len(values):  # filled in place, so that there is no second copy
                values = torch.zeros(inputs.num_rows, math.prod(part.shape[1:]))
            values[rows] = part.reshape(len(rows), -1).float().cpu()
        return values.nan_to_num_(0.0, 0.0, 0.0)
