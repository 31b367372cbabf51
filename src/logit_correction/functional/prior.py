"""Group priors P(y, a) as (L, K) tables: estimated from rows, and what Group MixUp makes of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from logit_correction.functional.metrics import check_groups
from logit_correction.functional.mixup import MixupForm

#: The least log prior relative to a row's greatest one: no infinity may meet a row's own label, or strength 0.
LEAST_LOG = -30.0

#: Probabilities are kept this far from 0 and 1 where they are divided by.
_LEAST = 1e-6


def shifted(log_prior: Tensor) -> Tensor:
    """Return log priors (B, L) less each row's greatest one, none below ``LEAST_LOG``.

    The shift leaves a corrected loss as it is, and makes a uniform prior correct by exactly nothing. What never occurs
    counts as very improbable, not as impossible. It is finite also where nobody has a row's attribute.
    """
    greatest = log_prior.amax(1, keepdim=True).clamp_min_(torch.finfo(log_prior.dtype).min)
    return (log_prior - greatest).clamp_min_(LEAST_LOG)


def joint_sums(label: Tensor, posterior: Tensor, num_labels: int) -> tuple[Tensor, Tensor]:
    """Sums of P(a | x) over the rows of each label, and the number of all rows in each cell, both (L, K)."""
    sums = posterior.new_zeros(num_labels, posterior.shape[1]).index_add_(0, label, posterior)
    return sums, torch.full_like(sums, float(label.shape[0]))


def joint_prior(label: Tensor, posterior: Tensor, num_labels: int) -> Tensor:
    """Group prior as the mean over rows of P(y, a | x), where y is each row's own label (eq. 9 - 11).

    Args:
        label: (B,) long, 0..L-1.
        posterior: (B, K), P(a | x); rows sum to 1.
        num_labels: L.

    Returns:
        (L, K), sums to 1.

    >>> joint_prior(torch.tensor([0, 1]), torch.tensor([[1.0, 0.0], [0.25, 0.75]]), 2)
    tensor([[0.5000, 0.0000],
            [0.1250, 0.3750]])
    """
    sums, counts = joint_sums(label, posterior, num_labels)
    return sums / counts


def cell_sums(
    label: Tensor, attribute: Tensor, value: Tensor, num_labels: int, num_attributes: int
) -> tuple[Tensor, Tensor]:
    """Sum of a value, and number of rows, in each cell (label, attribute).

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
    """Group prior counted once from known or estimated attributes: (count + smoothing), normalised.

    Args:
        label: (N,) whole numbers, 0..L-1: a tensor, or what ``torch.as_tensor`` takes.
        attribute: (N,) whole numbers, 0..K-1; rows with -1 (unknown) are left out.
        num_labels: L.
        num_attributes: K.
        smoothing: Added to the count of each cell, 0 or more.

    Returns:
        (L, K) of torch's default dtype, sums to 1.

    Raises:
        ValueError: The smoothing is negative, a label or an attribute lies outside its range, or there is nothing to
            count.

    >>> count_prior([0, 0, 1], [0, 1, 1], 2, 2, smoothing=1.0)
    tensor([[0.2857, 0.2857],
            [0.1429, 0.2857]])
    """
    if not 0.0 <= smoothing < float("inf"):
        raise ValueError(f"smoothing must be 0 or more, but it is {smoothing}.")
    label, attribute = torch.as_tensor(label).long(), torch.as_tensor(attribute).long()
    check_groups(label, attribute, num_labels, num_attributes)
    known = (attribute >= 0).double()
    counts = cell_sums(label, attribute.clamp_min(0), known, num_labels, num_attributes)[0] + smoothing
    if not bool(counts.sum() > 0.0):
        raise ValueError("No row has a known attribute to count for the group prior; set smoothing above 0.")
    return (counts / counts.sum()).to(torch.get_default_dtype())


def checked_table(table: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return the table (or a number for all of it); raise ``ValueError`` unless it can be a prior of this shape."""
    if 0 in shape or (table.dim() != 0 and table.shape != shape):
        raise ValueError(f"The group prior needs the shape {shape}, none of it 0, not {tuple(table.shape)}.")
    if not bool((table.isfinite() & (table >= 0)).all()) or not bool(table.any()):
        raise ValueError("A group prior must be finite, 0 or more, and not 0 everywhere: give counts or probabilities.")
    return table


def partner_prior(table: Tensor, minority: Tensor, batch_size: int, form: MixupForm = "every-row") -> Tensor:
    """Probability of the partner's attribute given the row's own label and attribute, as ``mixup_partner`` draws.

    The product P(y, a_j) P(a_i | y, a_j) is the prior of a label and of all that a mixed sample shows of attributes.
    It allows for rows that are their own partners, and for batches in which a label has no row to choose from.

    Args:
        table: (L, K), P(y, a); need not be normalised.
        minority: (L, K) bool, the groups whose rows are taken for bias-conflicting.
        batch_size: B, the number of rows among which partners are drawn, each drawn from P(y, a).
        form: See ``mixup_partner``.

    Returns:
        (L, K, K), entry (y, a_j, a_i); sums to 1 over a_i.

    >>> table, minority = torch.tensor([[0.3, 0.2], [0.0, 0.5]]), torch.tensor([[False, True], [True, False]])
    >>> partner_prior(table, minority, batch_size=4)[0]  # a row of attribute 0 meets one of attribute 1: 1 - 0.8 ** 3
    tensor([[0.5120, 0.4880],
            [0.0000, 1.0000]])
    """
    value = torch.arange(table.shape[1], device=table.device)
    pairs = value.repeat_interleave(len(value)), value.repeat(len(value))
    return partner_prior_of(table, minority, batch_size, *pairs, form).view(len(table), len(value), len(value))


def partner_prior_of(
    table: Tensor,
    minority: Tensor,
    batch_size: int,
    attribute: Tensor,
    partner_attribute: Tensor,
    form: MixupForm = "every-row",
) -> Tensor:
    """``partner_prior`` of pairs of attribute values a_j (P,) and a_i (P,), without the table of all: (L, P).

    >>> table, minority = torch.tensor([[0.3, 0.2], [0.0, 0.5]]), torch.tensor([[False, True], [True, False]])
    >>> partner_prior_of(table, minority, 4, torch.tensor([0, 0]), torch.tensor([0, 1]))[0]
    tensor([0.5120, 0.4880])
    """
    table = table / table.sum()
    candidate = minority if form == "every-row" else ~minority
    chosen, among = _mass(table, candidate)
    other, rest = _mass(table, ~candidate)
    own = (attribute == partner_attribute).to(table.dtype)

    def drawn(share_of: Tensor, probability: Tensor) -> Tensor:
        """Draw uniformly from the row itself and the others, each of which is to choose from with a probability."""
        share = -torch.expm1(batch_size * torch.log1p(-probability)) / (batch_size * probability)
        return share.view(-1, 1) * own + (1 - share).view(-1, 1) * share_of

    # A row that is a candidate itself may be drawn; any other one draws from candidates if the batch has some.
    among, rest = among[:, partner_attribute], rest[:, partner_attribute]
    inside = drawn(among, chosen)
    some = -torch.expm1((batch_size - 1) * torch.log1p(-chosen)).view(-1, 1)
    without = (other / (1 - chosen)).clamp(_LEAST, 1 - _LEAST)
    outside = some * among + (1 - some) * drawn(rest, without)
    result = torch.where(candidate[:, attribute], inside, outside)
    return result if form == "every-row" else torch.where(minority[:, attribute], result, own)


def _mass(table: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
    """Each label's mass in a part of the table (L,), kept from 0 and 1, and P(a | y, part) (L, K)."""
    kept = table * part
    mass = kept.sum(dim=1).clamp(_LEAST, 1 - _LEAST)
    return mass, kept / mass.unsqueeze(1)
