"""Group MixUp: partners and mixing."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

MixupForm: TypeAlias = Literal["every-row", "minority-rows"]


def ramp_up(epoch: float, length: float) -> float:
    """Return the strength of the mixing, t = 0.5 * exp(-5 * (1 - min(epoch / length, 1)) ** 2), which rises to 0.5.

    This is the usual sigmoid ramp-up. With the parentheses as printed in Algorithm 1 it would fall again.

    Args:
        epoch: Epochs (or steps) done so far, 0 or more.
        length: Length of the ramp in the same unit; 0 gives 0.5 at once.

    >>> round(ramp_up(0, 10), 5), ramp_up(10, 10), ramp_up(0, 0)
    (0.00337, 0.5, 0.5)
    """
    progress = min(epoch / length, 1.0) if length > 0 else 1.0
    return 0.5 * math.exp(-5.0 * (1.0 - progress) ** 2)


def mix(inputs: Tensor, partner: Tensor, weight: Tensor | float) -> Tensor:
    """Return each row mixed with its partner: weight * x + (1 - weight) * x[partner].

    Args:
        inputs: (B, ...) of a floating-point dtype.
        partner: (B,) long, rows of this batch.
        weight: A number, a 0-d tensor, or (B,) with one weight for each row.

    >>> mix(torch.tensor([[0.0], [1.0]]), torch.tensor([1, 0]), 0.75)
    tensor([[0.2500],
            [0.7500]])
    """
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        raise ValueError("Only floating-point inputs can be mixed: use mixing=NoMixing, or mix features.")
    if isinstance(weight, Tensor):
        weight = weight.to(inputs.dtype)
        if weight.dim() == 1:
            weight = weight.view(-1, *[1] * (inputs.dim() - 1))
    # In place on the gathered copy: a second large buffer costs more than the arithmetic.
    return inputs.index_select(0, partner).lerp_(inputs, weight)


def mixup_partner(
    label: Tensor,
    minority: Tensor,
    num_labels: int,
    generator: torch.Generator,
    form: MixupForm = "every-row",
) -> Tensor:
    """Draw the partner of each row for Group MixUp; a row that is not mixed is its own partner.

    Args:
        label: (B,) long, 0..L-1.
        minority: (B,) bool, rows estimated to be bias-conflicting.
        num_labels: L.
        generator: Source of the randomness; may be on the CPU while labels are on a GPU.
        form: "every-row" (Algorithm 1): each row gets a minority row of its label. "minority-rows" (eq. 13):
            each minority row gets a majority row of its label, majority rows stay as they are. A label
            without such rows draws among all its rows.

    Returns:
        (B,) long, rows of this batch.

    >>> label, minority = torch.tensor([0, 0, 0, 1]), torch.tensor([False, True, False, False])
    >>> mixup_partner(label, minority, 2, torch.Generator().manual_seed(0))  # row 1 is the only minority row of label 0
    tensor([1, 1, 1, 3])
    """
    wanted = minority if form == "every-row" else ~minority
    # Sorting by this key lays the rows of a label side by side, wanted ones first: a partner is an offset.
    key, order = torch.add(~wanted, label, alpha=2).sort()
    bounds = torch.searchsorted(key, torch.arange(2 * num_labels + 1, device=key.device))
    start, middle, end = bounds[:-1:2], bounds[1::2], bounds[2::2]
    size = torch.where(middle > start, middle, end) - start
    start, size = start.index_select(0, label), size.index_select(0, label)
    uniform = torch.rand(label.shape[0], generator=generator, device=generator.device)
    # The greatest uniform number is 1 - 2^-24, and its product with a size is rounded to less than the size.
    offset = (uniform.to(label.device, non_blocking=True) * size).long()
    partner = order.index_select(0, start + offset)
    if form == "every-row":
        return partner
    return torch.where(minority, partner, torch.arange(label.shape[0], device=label.device))


def group_mixup(
    inputs: Tensor,
    prior: Tensor,
    label: Tensor,
    minority: Tensor,
    *,
    weight: Tensor | float,
    form: MixupForm = "every-row",
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Mix rows, and their group priors alike, with rows of the same label (eq. 13, Algorithm 1).

    Args:
        inputs: (B, ...) floating-point images or features.
        prior: (B, L), P(., a_x) of each row.
        label: (B,) long, 0..L-1; the labels stay as they are.
        minority: (B,) bool, rows taken for bias-conflicting.
        weight: Weight of the row itself, the partner has 1 - weight: a number, a 0-d tensor, or (B,).
        form: See ``mixup_partner``.
        generator: Source of the randomness; the same seed gives the same partners.

    Returns:
        Mixed inputs (B, ...) and mixed priors (B, L).

    >>> inputs, prior = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    >>> label, minority, generator = torch.tensor([0, 0]), torch.tensor([False, True]), torch.Generator()
    >>> group_mixup(inputs, prior, label, minority, weight=0.75, generator=generator)  # with row 1, the minority
    (tensor([[0.2500],
            [1.0000]]), tensor([[0.7250, 0.2750],
            [0.2000, 0.8000]]))
    """
    partner = mixup_partner(label, minority, prior.shape[1], generator, form)
    return mix(inputs, partner, weight), mix(prior, partner, weight)
