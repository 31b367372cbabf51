"""The paper's formulas as functions on tensors: losses, metrics by group, group priors and Group MixUp.

A model that is trained by cross-entropy learns the shortcut that holds in most rows, and fails in the groups in which
it does not hold. Logit correction adds the logarithm of the group prior to the logits while it trains (eq. 7). Groups
are judged apart from each other, since their mean accuracy hides the rare ones.

Equation numbers are those of the paper. Shapes: B rows of a batch, N rows, L labels, K attribute values, G groups. A
group is a column of a membership matrix (N, G), so groups may overlap, and a row may belong to none. The matrix is
dense, or sparse, which takes time and memory for N + G rather than N G. Metrics by group are for evaluation: they count
in float64, and a group without rows has the value NaN.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.errors import check_range

#: Which rows Group MixUp mixes.
MixupForm: TypeAlias = Literal["every-row", "minority-rows"]

#: How losses of rows are reduced, as torch names it.
Reduction: TypeAlias = Literal["none", "mean", "sum"]

#: Label of a row that does not count, as in torch.
IGNORED = -100

#: The paper's exponent q of the generalized cross-entropy (eq. 3).
GCE_EXPONENT = 0.7

# -- Losses and margins, one value for each row of a batch


def check_gce_exponent(q: float) -> None:
    """Raise ``InputError`` unless the exponent q of the generalized cross-entropy lies in 0..1."""
    check_range("q", q, 0, 1)


def generalized_cross_entropy(
    logits: Tensor, label: Tensor, q: float = GCE_EXPONENT, *, multiply_by_q: bool = False
) -> Tensor:
    """Return the generalized cross-entropy (1 - p ** q) / q of each row (eq. 3), where p is its label's probability.

    It trusts rows that are already right and gives little weight to the others, so a network trained with it learns
    the shortcut: use it for a biased network. It is computed from log p, since the gradient of p ** q with respect to p
    is infinite at p = 0. With respect to the logits the gradient is p ** q times that of cross-entropy, and vanishes
    there.

    Args:
        logits: (B, L).
        label: (B,) long, 0..L-1.
        q: Exponent, 0 <= q <= 1. 0 gives cross-entropy, 1 the mean absolute error; the greater, the less a row counts
            that is wrong. The paper's 0.7 by default.
        multiply_by_q: Return 1 - p ** q instead, which has the gradient of the published code: q times that of eq. 3.

    Returns:
        (B,) losses, 0 or more.

    Raises:
        InputError: q is outside of its range.

    >>> loss = generalized_cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([0]), q=1.0)
    >>> round(loss.item(), 6)
    0.5
    """
    check_gce_exponent(q)
    loss = cross_entropy(logits, label, reduction="none")
    return gce_from_cross_entropy(loss, q, multiply_by_q=multiply_by_q)


def gce_from_cross_entropy(loss: Tensor, q: float, *, multiply_by_q: bool = False) -> Tensor:
    """Return the generalized cross-entropy (eq. 3) of rows whose cross-entropy, -log p, is known already.

    Args:
        loss: (B,) cross-entropies.
        q: Exponent, 0 <= q <= 1, which is not checked here: training steps call this.
        multiply_by_q: See ``generalized_cross_entropy``.

    Returns:
        (B,) losses.

    >>> gce_from_cross_entropy(torch.tensor([0.5, 3.0]), q=1.0)  # 1 - p
    tensor([0.3935, 0.9502])
    """
    if multiply_by_q:
        return -torch.expm1(loss * -q)
    return torch.expm1(loss * -q) / -q if q else loss


def logit_corrected_cross_entropy(
    logits: Tensor,
    label: Tensor,
    log_prior: Tensor,
    reduction: Reduction = "none",
    *,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of the logits plus the logarithm of each row's group prior (eq. 7).

    Its minimiser has uncorrected logits that maximise the group-balanced accuracy (eq. 2), provided that each row has
    one attribute (Proposition 1). So predict with the uncorrected logits. The loss equals the pairwise margin loss of
    eq. 8.

    Args:
        logits: (B, L).
        label: (B,) long, 0..L-1, or -100 for a row that does not count.
        log_prior: (B, L), log P(y, a_x) for every label y and the row's own attribute a_x; finite. A constant
            added to a row changes nothing, so log P(y | a_x) does as well.
        reduction: "none", or "mean" or "sum" over the rows.
        label_smoothing: In [0, 1], the share of a row's target that goes to all labels, in proportion to the row's
            prior. If it were spread evenly, a rare label would have more of the target than of the prior, and the
            uncorrected logits would predict it for every row of the attribute.

    Returns:
        (B,) losses, or their mean or sum, 0-d.

    Raises:
        ValueError: The shapes of the logits and the log priors differ.

    >>> logits, label = torch.zeros(1, 2), torch.tensor([1])
    >>> log_prior = torch.log(torch.tensor([[0.45, 0.05]]))
    >>> round(logit_corrected_cross_entropy(logits, label, log_prior).exp().item(), 4)
    10.0
    """
    if logits.shape != log_prior.shape:  # broadcasting would hide the mistake
        raise ValueError(
            f"Logits have shape {tuple(logits.shape)} and log priors {tuple(log_prior.shape)}, but both need one value "
            "for each row and label. Two labels need two logits; an estimate has only the labels that some row has."
        )
    corrected = logits + log_prior
    if not label_smoothing:
        return cross_entropy(corrected, label, reduction=reduction)
    loss = cross_entropy(corrected, label, reduction="none")
    spread = cross_entropy(corrected, log_prior.softmax(dim=1).to(corrected.dtype), reduction="none")
    counts = label != IGNORED if label.dim() == 1 else torch.ones_like(loss, dtype=torch.bool)
    loss = torch.where(counts, (1 - label_smoothing) * loss + label_smoothing * spread, 0.0)
    return loss if reduction == "none" else loss.sum() / (counts.sum() if reduction == "mean" else 1)


def margin(logits: Tensor, label: Tensor) -> Tensor:
    """Return the margin of each row (Appendix C): the label's logit minus the greatest other logit.

    A small margin marks a row that the network hardly gets right, or gets wrong.

    Args:
        logits: (B, L) with at least two labels.
        label: (B,) long, 0..L-1.

    Returns:
        (B,) margins, positive where the prediction is right.

    >>> margin(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([1]))
    tensor([-2.])
    """
    column = label.unsqueeze(1)
    other = logits.scatter(1, column, float("-inf")).amax(dim=1)
    return logits.gather(1, column).squeeze(1) - other


# -- Accuracy and margins group by group


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


def check_groups(label: Tensor, attribute: Tensor, num_labels: int, num_attributes: int) -> None:
    """Check the labels and attributes of rows, which make their groups.

    Args:
        label: (N,) long.
        attribute: (N,) long, -1 where unknown.
        num_labels: L; labels must lie in 0..L-1.
        num_attributes: K; attributes must lie in -1..K-1.

    Raises:
        ValueError: The shapes differ, or a value lies outside of its range.
    """
    if label.shape != attribute.shape:
        raise ValueError(f"Labels and attributes need one shape, but have {(*label.shape,)} and {(*attribute.shape,)}.")
    if bool(((label < 0) | (label >= num_labels)).any()):
        raise ValueError(f"Every label must lie between 0 and {num_labels - 1}.")
    if bool(((attribute < -1) | (attribute >= num_attributes)).any()):
        raise ValueError(f"Every attribute must lie between 0 and {num_attributes - 1}, or be -1 (unknown).")


def list_membership_pairs(membership: Tensor) -> tuple[Tensor, Tensor]:
    """Return the M pairs of a row and a group that it belongs to: rows (M,) and groups (M,), long.

    Args:
        membership: (N, G) bool, dense or sparse.
    """
    row, group = membership.coalesce().indices() if membership.is_sparse else membership.nonzero().unbind(1)
    return row, group


def group_count(membership: Tensor) -> Tensor:
    """Return the number of rows in each group, (G,) long, for (N, G) bool.

    >>> group_count(torch.tensor([[True, False], [True, True]]))
    tensor([2, 1])
    """
    return list_membership_pairs(membership)[1].bincount(minlength=membership.shape[1])


def group_mean(value: Tensor, membership: Tensor) -> Tensor:
    """Return the mean of a value over the rows of each group.

    Args:
        value: (N,) numbers or bools.
        membership: (N, G) bool, dense or sparse.

    Returns:
        (G,) float64, NaN for an empty group.

    Raises:
        ValueError: The numbers of rows differ.

    >>> group_mean(torch.tensor([0.2, 0.4]), torch.tensor([[True, False], [True, True]]))
    tensor([0.3000, 0.4000], dtype=torch.float64)
    """
    if len(value) != len(membership):
        raise ValueError(f"There are {len(value)} values, but groups of {len(membership)} rows.")
    row, group = list_membership_pairs(membership)
    sums = torch.zeros(membership.shape[1], dtype=torch.float64, device=value.device)
    return sums.index_add_(0, group, value.double()[row]) / group_count(membership)


def group_accuracy(prediction: Tensor, label: Tensor, membership: Tensor) -> Tensor:
    """Return the accuracy in each group, the share of its rows whose prediction is right.

    Args:
        prediction: (N,) long, predicted labels.
        label: (N,) long, true labels.
        membership: (N, G) bool, dense or sparse.

    Returns:
        (G,) float64 in 0..1, NaN for an empty group.

    Raises:
        ValueError: The numbers of rows differ.

    >>> membership = torch.tensor([[True, False, False], [True, True, False]])
    >>> group_accuracy(torch.tensor([0, 1]), torch.tensor([0, 0]), membership)
    tensor([0.5000, 0.0000,    nan], dtype=torch.float64)
    """
    if prediction.shape != label.shape:
        raise ValueError(f"There are predictions {(*prediction.shape,)}, but labels {(*label.shape,)}.")
    return group_mean(prediction == label, membership)


def group_balanced_accuracy(prediction: Tensor, label: Tensor, membership: Tensor) -> Tensor:
    """Return the group-balanced accuracy (eq. 2): the mean of the groups' accuracies, each group counted alike.

    Args:
        prediction: (N,) long, predicted labels.
        label: (N,) long, true labels.
        membership: (N, G) bool, dense or sparse.

    Returns:
        0-d float64 in 0..1, over the groups that have rows; NaN if all are empty.

    >>> membership = torch.tensor([[True, False, False], [True, True, False]])
    >>> group_balanced_accuracy(torch.tensor([0, 1]), torch.tensor([0, 0]), membership)
    tensor(0.2500, dtype=torch.float64)
    """
    return group_accuracy(prediction, label, membership).nanmean()


def worst_group_accuracy(prediction: Tensor, label: Tensor, membership: Tensor) -> Tensor:
    """Return the accuracy of the group in which it is least: what a model is worth where the shortcut fails.

    Args:
        prediction: (N,) long, predicted labels.
        label: (N,) long, true labels.
        membership: (N, G) bool, dense or sparse.

    Returns:
        0-d float64 in 0..1, over the groups that have rows; NaN if all are empty.

    >>> membership = torch.tensor([[True, False, False], [True, True, False]])
    >>> worst_group_accuracy(torch.tensor([0, 1]), torch.tensor([0, 0]), membership)
    tensor(0., dtype=torch.float64)
    """
    accuracy = group_accuracy(prediction, label, membership)
    present = accuracy[~accuracy.isnan()]
    return present.min() if present.numel() else accuracy.new_tensor(float("nan"))


def group_margin(margin: Tensor, membership: Tensor) -> Tensor:
    """Return the least margin in each group (Appendix C).

    Args:
        margin: (N,) margins of rows; see ``margin``.
        membership: (N, G) bool, dense or sparse.

    Returns:
        (G,) of the margin's dtype, NaN for an empty group.

    >>> group_margin(torch.tensor([2.0, -1.0]), torch.tensor([[True, False], [True, False]]))
    tensor([-1., nan])
    """
    row, group = list_membership_pairs(membership)
    empty = margin.new_full((membership.shape[1],), float("nan"))
    return empty.scatter_reduce_(0, group, margin[row], "amin", include_self=False)


def wilson_interval(correct: Tensor | float, count: Tensor | float, confidence: float = 0.9) -> tuple[Tensor, Tensor]:
    """Return Wilson's score interval for a share, such as the accuracy of a group.

    It also holds for few rows and for shares of 0 and 1, where the usual mean plus or minus two errors does not.

    Args:
        correct: Number of successes, of any shape.
        count: Number of trials, of the same shape. Without trials the interval is 0..1: nothing is known.
        confidence: Probability that the interval holds the true share, between 0 and 1, both excluded.

    Returns:
        Lower and upper ends in 0..1, float64.

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


# -- Group priors P(y, a) as (L, K) tables


def shift_log_prior(log_prior: Tensor, least: float = -30.0) -> Tensor:
    """Return log priors less the greatest one of each row, which changes no corrected loss.

    A uniform prior becomes exactly 0. A group that never occurs counts as very improbable, not as impossible: minus
    infinity would give infinite losses for rows of it, and NaN at strength 0. The result is finite
    also for an attribute value that no row has.

    Args:
        log_prior: (B, L), may hold minus infinity.
        least: Lower limit of the result, below 0; -30 is a probability of 1e-13.

    Returns:
        (B, L) in least..0.
    """
    greatest = log_prior.amax(1, keepdim=True).clamp_min_(torch.finfo(log_prior.dtype).min)
    return (log_prior - greatest).clamp_min_(least)


def sum_by_group(
    label: Tensor, attribute: Tensor, value: Tensor, num_labels: int, num_attributes: int
) -> tuple[Tensor, Tensor]:
    """Return the sum of a value, and the number of rows, in each group (label, attribute) of a batch.

    Args:
        label: (B,) long, 0..L-1.
        attribute: (B,) long, 0..K-1.
        value: (B,) float.
        num_labels: L.
        num_attributes: K.

    Returns:
        Sums (L, K) and counts (L, K), both of the value's dtype; their quotient is the mean, NaN where empty.

    >>> sums, counts = sum_by_group(torch.tensor([0, 0]), torch.tensor([1, 1]), torch.tensor([0.5, 0.25]), 2, 2)
    >>> sums[0, 1], counts[0, 1]
    (tensor(0.7500), tensor(2.))
    """
    group = torch.add(attribute, label, alpha=num_attributes)
    size = num_labels * num_attributes
    sums = value.new_zeros(size).index_add_(0, group, value)
    counts = value.new_zeros(size).index_add_(0, group, torch.ones_like(value))
    return sums.view(num_labels, num_attributes), counts.view(num_labels, num_attributes)


def count_groups(label: Tensor, attribute: Tensor, num_labels: int, num_attributes: int) -> Tensor:
    """Return the number of rows in each group (label, attribute), (L, K) long.

    Args:
        label: (N,) long, 0..L-1.
        attribute: (N,) long, 0..K-1, or -1 where unknown: such rows are left out.
        num_labels: L.
        num_attributes: K.

    >>> count_groups(torch.tensor([0, 0, 1]), torch.tensor([1, 1, -1]), 2, 2)
    tensor([[0, 2],
            [0, 0]])
    """
    group = (label * num_attributes + attribute)[attribute >= 0]
    return group.bincount(minlength=num_labels * num_attributes).view(num_labels, num_attributes)


def count_prior(label: Any, attribute: Any, num_labels: int, num_attributes: int, smoothing: float = 0.0) -> Tensor:
    """Return the group prior P(y, a) counted from known or estimated attributes: count + smoothing, normalized.

    Use it for ``LogitCorrectedLoss`` where each training row has an attribute; without attributes, ``GroupPrior``
    estimates it.

    Args:
        label: (N,) whole numbers, 0..L-1: a tensor, or what ``torch.as_tensor`` takes.
        attribute: (N,) whole numbers, 0..K-1; rows with -1 (unknown) are left out.
        num_labels: L.
        num_attributes: K.
        smoothing: Added to the count of each group, 0 or more: with 0 a group without rows has the probability 0.

    Returns:
        (L, K) of torch's default dtype, sums to 1.

    Raises:
        ValueError: A label or an attribute lies outside its range, or there is nothing to count.

    >>> count_prior([0, 0, 1], [0, 1, 1], 2, 2, smoothing=1.0)
    tensor([[0.2857, 0.2857],
            [0.1429, 0.2857]])
    """
    label = _to_whole_numbers(label)
    attribute = _to_whole_numbers(attribute)
    check_groups(label, attribute, num_labels, num_attributes)
    if not 0 <= smoothing < math.inf:
        raise ValueError(f"smoothing must be finite and 0 or more, but is {smoothing}.")
    counts = count_groups(label, attribute, num_labels, num_attributes).double() + smoothing
    if not bool(counts.sum() > 0.0):
        raise ValueError("No row has a known attribute to count for the group prior: set smoothing above 0.")
    return (counts / counts.sum()).to(torch.get_default_dtype())


def _to_whole_numbers(values: Any) -> Tensor:
    numbers = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
    if numbers.is_floating_point() and bool((numbers != numbers.floor()).any()):
        raise ValueError("Labels and attributes must be whole numbers, but some are not.")
    return numbers.long()


# -- Group MixUp: partners and mixing


def ramp_up_mixing_strength(epoch: float, ramp_length: float) -> float:
    """Return the strength of the mixing at an epoch, t = 0.5 * exp(-5 * (1 - min(epoch / ramp_length, 1)) ** 2).

    It rises to 0.5 along the usual sigmoid ramp-up, so that training begins with unmixed rows while the estimate of the
    attributes is poor. With the parentheses as printed in Algorithm 1 it would fall again.

    Args:
        epoch: Epochs (or steps) done so far, 0 or more.
        ramp_length: Length of the ramp in the same unit; 0 gives 0.5 at once.

    Returns:
        A number in 0.003..0.5.

    >>> round(ramp_up_mixing_strength(0, 10), 5), ramp_up_mixing_strength(10, 10), ramp_up_mixing_strength(0, 0)
    (0.00337, 0.5, 0.5)
    """
    progress = min(epoch / ramp_length, 1.0) if ramp_length > 0 else 1.0
    return 0.5 * math.exp(-5.0 * (1.0 - progress) ** 2)


def mix_rows(inputs: Tensor, partner: Tensor, weight: Tensor | float) -> Tensor:
    """Return each row mixed with its partner (eq. 13): weight * x + (1 - weight) * x[partner].

    Args:
        inputs: (B, ...) of a floating-point dtype.
        partner: (B,) long, rows of this batch.
        weight: Weight of the row itself: a number, a 0-d tensor, or (B,) with one weight for each row.

    Returns:
        (B, ...), a new tensor.

    Raises:
        ValueError: The inputs are not of a floating-point dtype.

    >>> mix_rows(torch.tensor([[0.0], [1.0]]), torch.tensor([1, 0]), 0.75)
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
    is_candidate = minority if form == "every-row" else ~minority
    # Sorting by this key puts the rows of a label in one run, candidates first: a partner is an offset from its start.
    key, order = torch.add(~is_candidate, label, alpha=2).sort()
    bounds = torch.searchsorted(key, torch.arange(2 * num_labels + 1, device=key.device))
    start = bounds[:-1:2]
    middle = bounds[1::2]
    size = torch.where(middle > start, middle, bounds[2::2]) - start
    uniform = torch.rand(label.shape[0], generator=generator, device=generator.device)
    # The greatest uniform number is 1 - 2^-24, and its product with a size is rounded to less than the size.
    offset = (uniform.to(label.device, non_blocking=True) * size.index_select(0, label)).long()
    partner = order.index_select(0, start.index_select(0, label) + offset)
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

    It makes rare groups less rare: each label's rows become mixtures with its bias-conflicting rows.

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
    return mix_rows(inputs, partner, weight), mix_rows(prior, partner, weight)
