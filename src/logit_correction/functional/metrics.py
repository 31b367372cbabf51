"""Accuracy and margins group by group.

A group is a column of a membership matrix (N, G), so groups may overlap, and a row may belong to none. It is dense,
or sparse, which takes time and memory for N + G rather than N G. These functions are for evaluation: they count in
float64, and a group without rows has the value NaN.
"""

from __future__ import annotations

import torch
from torch import Tensor


def group_membership(
    label: Tensor, attribute: Tensor, num_labels: int, num_attributes: int, sparse: bool = False
) -> Tensor:
    """Return which row belongs to which group, where group = label * K + attribute.

    Args:
        label: (N,) long, 0..L-1.
        attribute: (N,) long, 0..K-1; -1 where it is unknown, and such a row belongs to no group.
        num_labels: L.
        num_attributes: K.
        sparse: Return a sparse tensor (COO), for many groups.

    Returns:
        (N, L * K) bool.

    >>> group_membership(torch.tensor([0, 1]), torch.tensor([1, -1]), 2, 2)
    tensor([[False,  True, False, False],
            [False, False, False, False]])
    """
    check_groups(label, attribute, num_labels, num_attributes)
    row = (attribute >= 0).nonzero().squeeze(1)
    place = torch.stack((row, label[row] * num_attributes + attribute[row]))
    member = torch.ones(len(row), dtype=torch.bool, device=label.device)
    size = (len(label), num_labels * num_attributes)
    membership = torch.sparse_coo_tensor(place, member, size, is_coalesced=True, check_invariants=False)
    return membership if sparse else membership.to_dense()


def label_membership(label: Tensor, num_labels: int) -> Tensor:
    """Return which row has which label, (N, L) bool, sparse, for labels (N,) long, 0..L-1; each label is a group."""
    return group_membership(label, torch.zeros_like(label), num_labels, 1, sparse=True)


def check_groups(label: Tensor, attribute: Tensor, num_labels: int, num_attributes: int) -> None:
    """Raise ``ValueError`` unless labels (N,) and attributes (N,) lie in the ranges of ``group_membership``."""
    if label.shape != attribute.shape:
        raise ValueError(f"Labels and attributes need one shape, but have {(*label.shape,)} and {(*attribute.shape,)}.")
    if bool(((label < 0) | (label >= num_labels)).any()):
        raise ValueError(f"Every label must lie between 0 and {num_labels - 1}.")
    if bool(((attribute < -1) | (attribute >= num_attributes)).any()):
        raise ValueError(f"Every attribute must lie between 0 and {num_attributes - 1}, or be -1 (unknown).")


def group_members(membership: Tensor) -> tuple[Tensor, Tensor]:
    """Return all pairs of a row (M,) and a group (M,) that it belongs to, long, for (N, G) bool."""
    row, group = membership.coalesce().indices() if membership.is_sparse else membership.nonzero().unbind(1)
    return row, group


def group_count(membership: Tensor) -> Tensor:
    """Return the number of rows in each group, (G,) long, for (N, G) bool.

    >>> group_count(torch.tensor([[True, False], [True, True]]))
    tensor([2, 1])
    """
    return group_members(membership)[1].bincount(minlength=membership.shape[1])


def group_mean(value: Tensor, membership: Tensor) -> Tensor:
    """Return the mean of a value (N,), numbers or bools, over each group: (G,) float64, NaN for an empty group.

    >>> group_mean(torch.tensor([0.2, 0.4]), torch.tensor([[True, False], [True, True]]))
    tensor([0.3000, 0.4000], dtype=torch.float64)
    """
    if len(value) != len(membership):
        raise ValueError(f"There are {len(value)} values, but groups of {len(membership)} rows.")
    row, group = group_members(membership)
    sums = torch.zeros(membership.shape[1], dtype=torch.float64, device=value.device)
    return sums.index_add_(0, group, value.double()[row]) / group_count(membership)


def group_accuracy(prediction: Tensor, label: Tensor, membership: Tensor) -> Tensor:
    """Return the share of right predictions in each group: (G,) float64, NaN for an empty group.

    Args:
        prediction: (N,) long.
        label: (N,) long.
        membership: (N, G) bool.

    >>> membership = torch.tensor([[True, False, False], [True, True, False]])
    >>> group_accuracy(torch.tensor([0, 1]), torch.tensor([0, 0]), membership)
    tensor([0.5000, 0.0000,    nan], dtype=torch.float64)
    """
    if prediction.shape != label.shape:
        raise ValueError(f"There are predictions {(*prediction.shape,)}, but labels {(*label.shape,)}.")
    return group_mean(prediction == label, membership)


def group_balanced_accuracy(prediction: Tensor, label: Tensor, membership: Tensor) -> Tensor:
    """Return the mean accuracy (eq. 2) of the groups that have rows: 0-d float64, NaN if all are empty.

    >>> membership = torch.tensor([[True, False, False], [True, True, False]])
    >>> group_balanced_accuracy(torch.tensor([0, 1]), torch.tensor([0, 0]), membership)
    tensor(0.2500, dtype=torch.float64)
    """
    return group_accuracy(prediction, label, membership).nanmean()


def worst_group_accuracy(prediction: Tensor, label: Tensor, membership: Tensor) -> Tensor:
    """Return the least accuracy of the groups that have rows: 0-d float64, NaN if all are empty.

    >>> membership = torch.tensor([[True, False, False], [True, True, False]])
    >>> worst_group_accuracy(torch.tensor([0, 1]), torch.tensor([0, 0]), membership)
    tensor(0., dtype=torch.float64)
    """
    accuracy = group_accuracy(prediction, label, membership)
    present = accuracy[~accuracy.isnan()]
    return present.min() if present.numel() else accuracy.new_tensor(float("nan"))


def group_margin(margin: Tensor, membership: Tensor) -> Tensor:
    """Return the least margin (N,) in each group (Appendix C): (G,) of the margin's dtype, NaN for an empty group.

    >>> group_margin(torch.tensor([2.0, -1.0]), torch.tensor([[True, False], [True, False]]))
    tensor([-1., nan])
    """
    row, group = group_members(membership)
    least = margin.new_full((membership.shape[1],), float("inf")).scatter_reduce_(0, group, margin[row], "amin")
    return least.masked_fill(group_count(membership) == 0, float("nan"))


def wilson_interval(correct: Tensor | float, count: Tensor | float, confidence: float = 0.9) -> tuple[Tensor, Tensor]:
    """Return Wilson's score interval for a share, which holds for small groups and for shares of 0 and 1 too.

    Args:
        correct: Number of successes, of any shape.
        count: Number of trials, of the same shape. Without trials the interval is 0..1: nothing is known.
        confidence: Between 0 and 1, both excluded.

    Returns:
        Lower and upper ends, float64.

    >>> low, high = wilson_interval(9, 10)
    >>> round(low.item(), 3), round(high.item(), 3)
    (0.652, 0.977)
    """
    hits = torch.as_tensor(correct).double()
    trials = torch.as_tensor(count).double()
    z = torch.special.ndtri(torch.tensor(0.5 + confidence / 2, dtype=torch.float64, device=hits.device))
    centre = (hits + z**2 / 2) / (trials + z**2)
    spread = hits * (trials - hits) / trials.clamp_min(1.0) + z**2 / 4
    half = z * spread.sqrt() / (trials + z**2)
    return (centre - half).clamp(0.0, 1.0), (centre + half).clamp(0.0, 1.0)
