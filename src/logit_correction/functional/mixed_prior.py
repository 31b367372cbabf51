"""What Group MixUp does to the group prior: the probability of the partner's attribute."""

from __future__ import annotations

import torch
from torch import Tensor

from logit_correction.functional.mixup import MixupForm

#: Probabilities are kept this far from 0 and 1 where they are divided by.
_LEAST = 1e-6


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
    """``partner_prior`` of some pairs of attribute values, without the table of all.

    Args:
        table: As of ``partner_prior``.
        minority: Likewise.
        batch_size: Likewise.
        attribute: (P,) long, a_j of each pair.
        partner_attribute: (P,) long, a_i of each pair.
        form: Likewise.

    Returns:
        (L, P).

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
