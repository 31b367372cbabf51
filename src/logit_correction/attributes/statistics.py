"""Figures of held-out predictions: information, ratios with intervals, and how well rows are told apart."""

from __future__ import annotations

import math

import torch
from torch import Tensor

#: Probabilities count as no less than this where a logarithm is taken.
LEAST = 1e-6

#: Standard deviations to either side of an interval of 90 %.
DEVIATIONS = 1.645


def information_of(probability: Tensor, label: Tensor) -> float:
    """Return the share of the label's entropy that predictions take away: 1 less cross-entropy over entropy.

    Args:
        probability: (n, L) held-out class probabilities.
        label: (n,) long.

    >>> information_of(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]))
    1.0
    >>> information_of(torch.tensor([[0.5, 0.5], [0.5, 0.5]]), torch.tensor([0, 1]))
    0.0
    """
    share = torch.bincount(label, minlength=probability.shape[1]).double() / len(label)
    entropy = -torch.special.xlogy(share, share).sum()
    surprise = -probability.double().gather(1, label.unsqueeze(1)).clamp_min(LEAST).log().mean()
    return float(1 - surprise / entropy.clamp_min(LEAST))


def ratio_interval(one: Tensor, other: Tensor) -> tuple[float, float, float]:
    """Return the ratio of the means of two paired columns of 0 and 1, with its interval of 90 % by the delta method.

    Args:
        one: (n,) float64.
        other: (n,) float64, not all 0.

    >>> [round(value, 3) for value in ratio_interval(torch.tensor([1.0, 1, 0, 1]), torch.tensor([1.0, 1, 1, 1]))]
    [0.75, 0.466, 1.206]
    """
    count, a, b = len(one), float(one.mean()), float(other.mean())
    if a == 0 or b == 0:
        return (0.0, 0.0, 0.0) if b else (math.inf, 0.0, math.inf)
    spread = (one / a - other / b).square().mean().item() / count
    half = DEVIATIONS * math.sqrt(spread)
    return a / b, a / b * math.exp(-half), a / b * math.exp(half)


def told_apart(seen: Tensor, network: Tensor, label: Tensor, sure: float = 0.8) -> tuple[float, float, float]:
    """Return how well a network tells rows that contradict a view from rows that it fits, with an interval of 90 %.

    Label noise is the rival explanation of rows where a view is sure of another label: if their labels are wrong, they
    are like the rows of the label that the view names, and the network's probability of that label cannot tell which
    is which. The area under the curve is 0.5 then. In a shortcut's minority the network sees something of the label
    itself. Areas are taken within rows of one view's answer and joined by their numbers of pairs (van Elteren's test
    with weights of its own; the variance is the one under label noise).

    Args:
        seen: (n, L) held-out class probabilities of a head on the view.
        network: (n, L) held-out class probabilities of the network on the same rows.
        label: (n,) long.
        sure: Probability from which the view is sure.

    >>> seen = torch.tensor([[0.9, 0.1]] * 4)
    >>> network = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]])
    >>> told_apart(seen, network, torch.tensor([0, 0, 0, 1]))[0]
    1.0
    """
    confidence, says = seen.max(dim=1)
    certain = confidence > sure
    says, label, score = says[certain], label[certain], network[certain].double()
    wins = pairs = variance = 0.0
    for answer in says[says != label].unique().tolist():
        of_answer = says == answer
        fits = label[of_answer] == answer
        rank = _mean_rank(score[of_answer, answer])
        many, few = int(fits.sum()), int((~fits).sum())
        wins += float(rank[fits].sum()) - many * (many + 1) / 2
        pairs += many * few
        variance += many * few * (many + few + 1) / 12
    if not pairs:
        return math.nan, math.nan, math.nan
    half = DEVIATIONS * math.sqrt(variance) / pairs
    return wins / pairs, max(0.0, wins / pairs - half), min(1.0, wins / pairs + half)


def _mean_rank(value: Tensor) -> Tensor:
    """Return the rank of each value, from 1; equal ones share their mean rank."""
    _, group, count = value.unique(return_inverse=True, return_counts=True)
    return (count.cumsum(0) - (count - 1) / 2).double()[group]
