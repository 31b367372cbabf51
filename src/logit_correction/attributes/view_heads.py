"""From views to held-out class probabilities of every row, and from these to its likely attribute."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from logit_correction.attributes.heads import HeadTraining, cross_fit, relabeled, standardized
from logit_correction.correlation import Correlation
from logit_correction.seeds import derive_seed
from logit_correction.types import TrainingRows
from logit_correction.views.base import View


def features_of(views: Sequence[View], rows: TrainingRows) -> tuple[Tensor, int | None]:
    """Return the views' features (N, F), side by side, and how many of them a head may use, if that is said."""
    assert rows.view_inputs is not None
    parts = []
    for view in views:
        rows.report(f"looking at {view.name}")
        view.fit(rows.view_inputs)
        parts.append(standardized(view.features(rows.view_inputs)))
    return torch.cat(parts, dim=1), next((view.few for view in views if view.few is not None), None)


def held_out_by_heads(
    features: Tensor,
    rows: TrainingRows,
    num_labels: int,
    training: HeadTraining | None,
    *,
    few: int | None,
    splits: int,
    rounds: int,
    odds: float,
    seed: int,
) -> Tensor:
    """Return held-out class probabilities (N, L) by heads on features, after all rounds of relabelling.

    Args:
        features: (N, F), standardised.
        rows: The training rows.
        num_labels: L.
        training: How heads with a hidden layer train; None takes linear ones.
        few: How many features a head may use for each label; None for all.
        splits: Random splits into halves in the last round.
        rounds: Rounds of relabelling.
        odds: Held-out odds for another label from which a row has that one for its target in the next round.
        seed: Seed of everything random.
    """
    target = rows.label
    for turn in range(rounds + 1):
        rows.report(f"estimating the attribute, round {turn + 1} of {rounds + 1}")
        last = turn == rounds
        found = cross_fit(
            features,
            target,
            num_labels,
            training,
            few=few,
            splits=splits if last else 1,  # the targets of a round need be no better than that
            seed=derive_seed(seed, "round", turn),
        )
        target = relabeled(found, rows.label, odds)
    return found


def likely_attribute(posterior: Tensor, label: Tensor, correlation: Correlation, odds: float = 1.0) -> Tensor:
    """Return the attribute (N,) of each row: a minority value only where it exceeds the label's own ones by ``odds``.

    Args:
        posterior: (N, K), P(a | x).
        label: (N,) long.
        correlation: Which values are a label's own.
        odds: 1 is the argmax.

    >>> posterior = torch.tensor([[0.75, 0.25], [0.95, 0.05]])
    >>> likely_attribute(posterior, torch.tensor([1, 1]), Correlation.one_to_one(2), odds=10.0)
    tensor([1, 0])
    """
    conflicting = correlation.minority_groups(posterior.device).index_select(0, label)
    kept = posterior.masked_fill(conflicting, -1.0)
    own_value, own = kept.max(dim=1)
    other_value, other = posterior.masked_fill(~conflicting, -1.0).max(dim=1)
    return torch.where(other_value > odds * own_value, other, own)
