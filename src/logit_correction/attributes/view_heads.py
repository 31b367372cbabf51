"""From views to class probabilities of rows that heads did not see, and from these to their likely attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.attributes.heads import HeadTraining, cross_fit, relabeled
from logit_correction.attributes.kept_heads import Head, KeptHeads, scale_of, scaled
from logit_correction.correlation import Correlation
from logit_correction.seeds import derive_seed
from logit_correction.types import TrainingRows
from logit_correction.views.base import View, ViewInputs


class HeadsOnViews(AttributeEstimator):
    """An estimator by heads on views, which can be kept to tell of other rows than those of training.

    Attributes:
        kept: The heads; None before they are trained, and where there are none.
        own_views: Views by name that the options give; a checkpoint may bring in no other class of a user's own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept: KeptHeads | None = None
        self.own_views: list[str] = []

    def estimate_new(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        """Return what the heads say of rows (n,), by the same odds as of training rows; None where they cannot look."""
        if self.kept is None or not all(view.can_look(rows) for view in self.kept.views):
            return None
        posterior = self.correlation.posterior(self.kept.probability(rows))
        return likely_attribute(posterior, label, self.correlation, self.kept.odds)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the heads too."""
        return {**super().get_extra_state(), "kept": None if self.kept is None else self.kept.state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take over the heads too, where there are any."""
        super().set_extra_state(state)
        self.kept = KeptHeads.from_state(state["kept"], self.own_views)


def features_of(views: Sequence[View], rows: TrainingRows) -> tuple[Tensor, tuple[Tensor, Tensor], int | None]:
    """Fit the views, and look through them.

    Returns:
        Their features (N, F), side by side and standardised; mean and deviation (F,) that they had; how many of them a
        head may use, if that is said.
    """
    assert rows.view_inputs is not None
    parts = []
    for view in views:
        rows.report(f"looking at {view.name}")
        view.fit(rows.view_inputs)
        parts.append(view.features(rows.view_inputs))
    features = torch.cat(parts, dim=1)
    scale = scale_of(features)
    return scaled(features, *scale), scale, next((view.few for view in views if view.few is not None), None)


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
    kept: list[Head] | None = None,
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
        kept: Takes the heads of the last round.
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
            kept=kept if last else None,
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
