"""Group priors P(y, a) as (L, K) tables, estimated from rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.functional.metrics import check_groups


def shifted(log_prior: Tensor, least: float = -30.0) -> Tensor:
    """Return log priors (B, L) less each row's greatest one, none below ``least``.

    The shift does not change a corrected loss, and a uniform prior becomes exactly 0. What never occurs counts as very
    improbable, not as impossible: an infinity would meet a row's own label, or strength 0. The result is finite also
    for an attribute value that no row has.
    """
    greatest = log_prior.amax(1, keepdim=True).clamp_min_(torch.finfo(log_prior.dtype).min)
    return (log_prior - greatest).clamp_min_(least)


def cell_sums(
    label: Tensor, attribute: Tensor, value: Tensor, num_labels: int, num_attributes: int
) -> tuple[Tensor, Tensor]:
    """Return the sum of a value, and the number of rows, in each cell (label, attribute).

    Args:
        label: (B,) long, 0..L-1.
        attribute: (B,) long, 0..K-1.
        value: (B,) float.
        num_labels: L.
        num_attributes: K.

    Returns:
        Sums (L, K) and counts (L, K), both of the value's dtype; their quotient is the mean, NaN where empty.

    >>> sums, counts = cell_sums(torch.tensor([0, 0]), torch.tensor([1, 1]), torch.tensor([0.5, 0.25]), 2, 2)
    >>> sums[0, 1], counts[0, 1]
    (tensor(0.7500), tensor(2.))
    """
    cell = torch.add(attribute, label, alpha=num_attributes)
    size = num_labels * num_attributes
    sums = value.new_zeros(size).index_add_(0, cell, value)
    counts = value.new_zeros(size).index_add_(0, cell, torch.ones_like(value))
    return sums.view(num_labels, num_attributes), counts.view(num_labels, num_attributes)


def count_prior(label: Any, attribute: Any, num_labels: int, num_attributes: int, smoothing: float = 0.0) -> Tensor:
    """Return the group prior counted from known or estimated attributes: count + smoothing, normalized.

    Args:
        label: (N,) whole numbers, 0..L-1: a tensor, or what ``torch.as_tensor`` takes.
        attribute: (N,) whole numbers, 0..K-1; rows with -1 (unknown) are left out.
        num_labels: L.
        num_attributes: K.
        smoothing: Added to the count of each cell, 0 or more.

    Returns:
        (L, K) of torch's default dtype, sums to 1.

    Raises:
        ValueError: A label or an attribute lies outside its range, or there is nothing to count.

    >>> count_prior([0, 0, 1], [0, 1, 1], 2, 2, smoothing=1.0)
    tensor([[0.2857, 0.2857],
            [0.1429, 0.2857]])
    """
    label, attribute = _whole(label), _whole(attribute)
    check_groups(label, attribute, num_labels, num_attributes)
    known = (attribute >= 0).double()
    if not 0 <= smoothing < math.inf:
        raise ValueError(f"smoothing must be finite and 0 or more, but is {smoothing}.")
    counts = cell_sums(label, attribute.clamp_min(0), known, num_labels, num_attributes)[0] + smoothing
    if not bool(counts.sum() > 0.0):
        raise ValueError("No row has a known attribute to count for the group prior: set smoothing above 0.")
    return (counts / counts.sum()).to(torch.get_default_dtype())


def _whole(values: Any) -> Tensor:
    """Return whole numbers as a tensor."""
    found = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
    if found.is_floating_point() and bool((found != found.floor()).any()):
        raise ValueError("Labels and attributes must be whole numbers, but some are not.")
    return found.long()
