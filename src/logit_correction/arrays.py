"""Tensors, and what NumPy takes, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def as_array(values: Any) -> NDArray[Any]:
    """Return a tensor, or what NumPy takes, as an array; half precision as single.

    >>> import torch
    >>> as_array(torch.ones(2, dtype=torch.bfloat16, requires_grad=True)).dtype
    dtype('float32')
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        half = values.is_floating_point() and values.dtype.itemsize < 4
        return np.asarray((values.float() if half else values).numpy())  # NumPy knows no bfloat16
    return np.asarray(values)
