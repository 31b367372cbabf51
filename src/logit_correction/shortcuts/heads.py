"""Heads on the features of views: linear or with one hidden layer, cross-fitted, kept to tell of new rows.

In all of them features are (N, F), standardised; label and target (N,) long, 0..num_labels - 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, one_hot

from logit_correction.attributes.base import select_attribute
from logit_correction.attributes.folds import FoldFitter, draw_halves, predict_out_of_fold, ramp_up_q
from logit_correction.errors import InputError
from logit_correction.functional import GCE_EXPONENT, gce_from_cross_entropy
from logit_correction.seeds import derive_seed, make_generator
from logit_correction.training.optimizer import Optimizer
from logit_correction.types import Correlation, TrainingRows, ViewInputs
from logit_correction.views.base import View, compute_features, get_view_state, restore_view

#: From so many features on a linear head is shrunk more: one that learns rows by heart tells nothing. Up to so many a
#: linear head finds the shortcut, and is the surer for it; more want a hidden layer.
MANY_FEATURES, LINEAR_FEATURES = 300, 100

#: Rounds of relabelling: heads forget what they knew of the label itself.
ROUNDS = 2

#: Held-out odds from which a row counts as minority: of linear heads, and of those with a hidden layer; and odds from
#: which it is given another target in the next round.
LINEAR_ODDS, HIDDEN_ODDS, RELABEL_ODDS = 4.0, 3.0, 10.0


@dataclass(frozen=True)
class Head:
    """A trained head as plain tensors: it uses some columns, through linear layers with ReLU in between."""

    columns: Tensor  # (F',) long
    layers: Sequence[tuple[Tensor, Tensor]]  # weight (out, in) and bias (out,)

    def __call__(self, features: Tensor) -> Tensor:
        """Return class probabilities (n, L)."""
        found = features[:, self.columns]
        for number, (weight, bias) in enumerate(self.layers):
            found = linear(found.relu() if number else found, weight, bias)
        return found.softmax(dim=1)


def standardize(features: Tensor, deviation: Tensor, mean: Tensor) -> Tensor:
    """Bring features (n, F) to mean 0 and deviation 1 of those that these are of, and within 8 deviations."""
    found = (features - mean) / deviation.clamp_min(1e-4)
    # A head has learnt nothing of what did not vary, so new values of it count for nothing.
    return found.mul_(deviation > 0).clamp_(-8, 8)


# -- linear heads


def make_logistic_learner(
    features: Tensor, label: Tensor, num_labels: int, few: int | None = None, kept: list[Head] | None = None
) -> FoldFitter:
    """Return logistic regression for ``predict_out_of_fold``, on selected features; ``kept`` takes the heads."""
    from sklearn.linear_model import LogisticRegression

    def fit(rows: Tensor, number: int) -> Callable[[Tensor], Tensor]:
        columns = select_features_by_correlation(features[rows], label[rows], num_labels, few)
        seen, there = features[:, columns], label[rows].unique()  # sorted, as scikit-learn has them
        weight, bias = torch.zeros(num_labels, len(columns)), torch.full((num_labels,), -torch.inf)
        bias[there] = 0.0
        if len(there) > 1:  # of a label with a single row, none is left to learn from
            head = LogisticRegression(C=1.0 if len(columns) <= MANY_FEATURES else 0.03, max_iter=300, tol=1e-3)
            with one_thread():
                head.fit(seen[rows].numpy(), label[rows].numpy())
            # Of two labels there is one row of weights: those of the second label against the first.
            own = there[1:] if len(there) == 2 else there
            weight[own], bias[own] = torch.from_numpy(head.coef_).float(), torch.from_numpy(head.intercept_).float()
        trained = Head(columns, [(weight, bias)])
        if kept is not None:
            kept.append(trained)
        return lambda others: trained(features[others])

    return fit


_libraries = cache(ThreadpoolController)


def one_thread() -> AbstractContextManager[Any]:
    """Return a block in which matrices are multiplied by one thread: several that wait for each other take longer."""
    return _libraries().limit(limits=1, user_api="blas")


def select_features_by_correlation(features: Tensor, label: Tensor, num_labels: int, few: int | None) -> Tensor:
    """Return the columns of features that correlate most with each label, ``few`` of each; all without ``few``."""
    if few is None or features.shape[1] <= few * num_labels:
        return torch.arange(features.shape[1])
    member = one_hot(label, num_labels).float()
    centred, member = features - features.mean(dim=0), member - member.mean(dim=0)
    product = (member.t() @ centred).abs() / centred.norm(dim=0).clamp_min(1e-6)
    correlation = product / member.norm(dim=0).clamp_min(1e-6).unsqueeze(1)
    return correlation.topk(few, dim=1).indices.flatten().unique()


def select_members(members: Sequence[Tensor], label: Tensor, num_labels: int) -> list[int]:
    """Return the members of a family (features of each) that tell each label best, one for each, in rising order."""
    target = one_hot(label, num_labels).double()
    target = target - target.mean(dim=0)
    explained = []
    for features in members:
        # Least squares in closed form: there may be hundreds of members, and it only has to rank them.
        values = features.double()
        gram = values.t() @ values + 1e-3 * len(values) * torch.eye(values.shape[1], dtype=torch.float64)
        product = values.t() @ target
        explained.append((product * torch.linalg.solve(gram, product)).sum(dim=0))
    return sorted(set(torch.stack(explained).argmax(dim=0).tolist()))


# -- heads with a hidden layer


def make_hidden_layer_learner(
    features: Tensor, target: Tensor, num_labels: int, seed_of: Callable[[int], int], kept: list[Head]
) -> FoldFitter:
    """Return heads with a hidden layer for ``predict_out_of_fold``, of a seed for each fold; ``kept`` takes the heads.

    They are trained by Adam with generalized cross-entropy, over 3 passes and at least 150 steps, q rising from 0 to
    0.7 over two thirds of them, and one feature in five hidden.
    """

    def fit(rows: Tensor, number: int) -> Callable[[Tensor], Tensor]:
        size = 256 if len(rows) >= 8000 else 64
        steps, seed = math.ceil(len(rows) / size), seed_of(number)
        epochs = max(3, math.ceil(150 / steps))
        # The global generator, since layers draw their weights and dropout its masks from nothing else.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(seed, "head"))
            first, last, hide = nn.Linear(features.shape[1], 256), nn.Linear(256, num_labels), nn.Dropout(0.2)
            network = nn.Sequential(hide, first, nn.ReLU(), hide, last)
            optimizer = Optimizer([{"params": list(network.parameters())}], learning_rate=1e-3)
            generator = make_generator(seed, "order")
            for epoch in range(epochs):
                order = rows[torch.randperm(len(rows), generator=generator)]
                for step, batch in enumerate(order.split(size)):
                    loss = cross_entropy(network(features.index_select(0, batch)), target[batch], reduction="none")
                    q = ramp_up_q(GCE_EXPONENT, epoch + step / steps, 2 / 3 * epochs)
                    optimizer.zero_grad()
                    gce_from_cross_entropy(loss, q).mean().backward()
                    optimizer.step()
        layers = [(layer.weight.detach(), layer.bias.detach()) for layer in (first, last)]
        head = Head(torch.arange(features.shape[1]), layers)
        kept.append(head)
        return lambda others: head(features[others])

    return fit


# -- from views to attributes


@dataclass(frozen=True)
class KeptHeads:
    """Fitted views, how their features are brought to one scale, and heads on them; tensors and plain values alone."""

    views: Sequence[View]
    deviation: Tensor  # (F,) of the training rows' features
    mean: Tensor
    heads: Sequence[Head]
    odds: float  # from which a row counts as minority

    def probability(self, rows: ViewInputs) -> Tensor:
        """Return class probabilities (n, L) of rows by what the views keep of them, the mean over the heads."""
        return self.of_features(torch.cat(compute_features(self.views, rows), dim=1))

    @torch.no_grad()
    def of_features(self, features: Tensor) -> Tensor:
        """Return the same by the features (n, F) of the views, side by side."""
        features = standardize(features, self.deviation, self.mean)
        return torch.stack([head(features) for head in self.heads]).mean(dim=0)

    def state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds; None with a view of a user's own, whose class no checkpoint brings back."""
        views = [get_view_state(view) for view in self.views]
        return None if None in views else {**vars(self), "views": views, "heads": [vars(head) for head in self.heads]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> KeptHeads:
        """Return what ``state`` described."""
        try:
            heads, views = [Head(**one) for one in state["heads"]], [restore_view(one) for one in state["views"]]
            return cls(**{**state, "views": views, "heads": heads})
        except (KeyError, TypeError) as error:
            raise InputError("the heads of the run are of another version: train again") from error


def estimate_by_heads(
    views: Sequence[View],
    rows: TrainingRows,
    correlation: Correlation,
    seed: int,
    features: Tensor | None = None,
    exact: bool = False,
) -> tuple[Tensor, Tensor, KeptHeads]:
    """Fit views, and estimate the attribute of all training rows by heads on them, cross-fitted in halves.

    ``features`` (N, F) are those of views that are fitted already. ``exact`` views hold the attribute itself, as a
    column does that a person names. A value then belongs to the label that has it oftener than all rows have it: labels
    count as equally frequent, and odds of 1 decide.

    Returns:
        The attribute (N,), class probabilities (N, L) by heads that have not seen the row, and the heads.
    """
    if features is None:
        assert rows.view_inputs is not None
        rows.report(f"looking at {', '.join(view.name for view in views)}")
        for view in views:
            view.fit(rows.view_inputs)
        features = torch.cat(compute_features(views, rows.view_inputs), dim=1)
    scale = torch.std_mean(features, dim=0)
    features, few = (
        standardize(features, *scale),
        next((view.max_per_label for view in views if view.max_per_label is not None), None),
    )
    linear = few is not None or features.shape[1] <= LINEAR_FEATURES
    target, num_labels = rows.label, correlation.num_labels
    rounds = 0 if exact else ROUNDS
    for turn in range(rounds + 1):
        rows.report(f"estimating the attribute, round {turn + 1} of {rounds + 1}")
        splits = 2 if turn == rounds else 1  # the targets of a round need be no better than that
        found, heads = cross_fit(features, target, num_labels, linear, few, splits, derive_seed(seed, "round", turn))
        target = relabel_conflicting_rows(found, rows.label)
    kept = KeptHeads(views, *scale, heads, 1.0 if exact else LINEAR_ODDS if linear else HIDDEN_ODDS)
    if exact:
        weight = -torch.bincount(rows.label, minlength=num_labels).clamp_min(1).log()
        found = (found.log() + weight).softmax(dim=1)
        for head in heads:
            head.layers[-1][1].add_(weight)
    return select_attribute(correlation.posterior(found), rows.label, correlation, kept.odds), found, kept


def cross_fit(
    features: Tensor, target: Tensor, num_labels: int, linear: bool, few: int | None, splits: int, seed: int
) -> tuple[Tensor, list[Head]]:
    """Return class probabilities (N, L) by heads that were trained on the other half, over splits, and the heads."""
    total, heads = torch.zeros(len(features), num_labels), list[Head]()
    for split in range(splits):
        if linear:
            fit = make_logistic_learner(features, target, num_labels, few, heads)
        else:
            fit = make_hidden_layer_learner(
                features, target, num_labels, partial(derive_seed, seed, "half", split), heads
            )
        total += predict_out_of_fold(fit, draw_halves(len(features), make_generator(seed, "halves", split)), num_labels)
    return total / splits, heads


def relabel_conflicting_rows(probability: Tensor, label: Tensor) -> Tensor:
    """Return the targets (N,) of the next round: another label where its held-out odds exceed 10, else the label.

    >>> probability = torch.tensor([[0.95, 0.05], [0.8, 0.2]])
    >>> relabel_conflicting_rows(probability, torch.tensor([1, 1]))
    tensor([0, 1])
    """
    own = probability.gather(1, label.unsqueeze(1)).squeeze(1)
    greatest, other = probability.max(dim=1)
    return torch.where(greatest > RELABEL_ODDS * own, other, label)


def join_attributes(parts: Sequence[Tensor], size: int) -> Tensor:
    """Return one attribute (N,) for several (N,) of 0..size - 1: each combination of their values is one.

    >>> join_attributes([torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1])], size=2)
    tensor([1, 2, 3])
    """
    found = parts[0]
    for part in parts[1:]:
        found = found * size + part
    return found


def join_posteriors(parts: Sequence[Tensor]) -> Tensor:
    """Return P (N, K) of the ``joined`` attribute by those (N, size) of several."""
    found = parts[0]
    for part in parts[1:]:
        found = (found.unsqueeze(2) * part.unsqueeze(1)).flatten(1)
    return found
