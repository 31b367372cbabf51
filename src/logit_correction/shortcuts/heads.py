"""Heads on the features of views, from which the attribute of each row is estimated.

A head is a linear or a small classifier of the label from a few features. Trained on a view that carries a shortcut, it
learns the shortcut and not the label itself: so what it predicts for a row is an estimate of the row's attribute. Heads
are cross-fitted: a row is predicted by heads that were trained on other rows. They are kept to predict unseen
rows.

Features are (N, F), standardised; label and target (N,) long, from 0 to L - 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, one_hot

from logit_correction.attributes.base import select_attribute
from logit_correction.attributes.folds import draw_halves_of_rows, predict_out_of_fold, ramp_up_q
from logit_correction.errors import InputError
from logit_correction.functional import GCE_EXPONENT, gce_from_cross_entropy
from logit_correction.seeds import derive_seed, make_generator, seed_default_generator
from logit_correction.training.optimizer import Optimizer
from logit_correction.types import Correlation, TrainingRows
from logit_correction.views.base import View, compute_features, restore_view, serialize_builtin_view

#: Features above which a linear head is regularised more strongly, so that it does not memorise rows.
MANY_FEATURES = 300

#: Inverse strength of the L2 penalty of a linear head (``C`` of scikit-learn): up to and above ``MANY_FEATURES``.
LINEAR_C = 1.0
LINEAR_C_MANY = 0.03

#: Features up to which a head is linear; more need a hidden layer to find the shortcut.
MAX_LINEAR_FEATURES = 100

#: Rounds of relabelling: they remove from the heads what these have learnt of the label itself.
RELABEL_ROUNDS = 2

#: Held-out odds of another label from which a row counts as bias-conflicting, by linear heads and by others.
LINEAR_ODDS = 4.0
HIDDEN_ODDS = 3.0

#: Held-out odds of another label from which that is the target of the next round.
RELABEL_ODDS = 10.0

#: Share of the training of heads with a hidden layer over which q rises to its value.
Q_RAMP_SHARE = 2 / 3

#: Standardised features are clipped to so many standard deviations.
MAX_DEVIATIONS = 8


@dataclass(frozen=True)
class Head:
    """A trained head: some columns of the features, through linear layers with ReLU in between.

    Attributes:
        columns: (F',) long.
        layers: Weight (out, in) and bias (out,) of each layer.
    """

    columns: Tensor
    layers: Sequence[tuple[Tensor, Tensor]]

    def __call__(self, features: Tensor) -> Tensor:
        """Return class probabilities (n, L)."""
        values = features[:, self.columns]
        for number, (weight, bias) in enumerate(self.layers):
            values = linear(values.relu() if number else values, weight, bias)
        return values.softmax(dim=1)


def standardize(features: Tensor, deviation: Tensor, mean: Tensor) -> Tensor:
    """Return features less their mean over their deviation, clipped; constant training features become 0.

    Args:
        features: (n, F) of any rows.
        deviation: (F,) standard deviation of the training rows' features.
        mean: (F,) their mean.
    """
    scaled = (features - mean) / deviation.clamp_min(1e-4)
    return scaled.mul_(deviation > 0).clamp_(-MAX_DEVIATIONS, MAX_DEVIATIONS)


def get_max_features_per_label(views: Sequence[View]) -> int | None:
    """Return how many features per label a head on these views uses; None for all."""
    return next((view.max_per_label for view in views if view.max_per_label is not None), None)


# -- linear heads


def fit_logistic_head(features: Tensor, target: Tensor, num_labels: int, max_per_label: int | None = None) -> Head:
    """Return a head that logistic regression has fitted.

    Args:
        features: (n, F) of the rows to learn from.
        target: (n,) of these rows.
        num_labels: L.
        max_per_label: Features of each label that are selected by their correlation; None for all.
    """
    from sklearn.linear_model import LogisticRegression

    columns = select_features_by_correlation(features, target, num_labels, max_per_label)
    present = target.unique()  # sorted, as in scikit-learn
    weight = torch.zeros(num_labels, len(columns))
    bias = torch.full((num_labels,), -torch.inf)
    bias[present] = 0.0
    if len(present) > 1:  # a label with a single row may be missing
        strength = LINEAR_C if len(columns) <= MANY_FEATURES else LINEAR_C_MANY
        model = LogisticRegression(C=strength, max_iter=300, tol=1e-3)
        with limit_to_one_thread():
            model.fit(features[:, columns].numpy(), target.numpy())
        # Of two labels, scikit-learn has one row of weights: of the second against the first.
        fitted = present[1:] if len(present) == 2 else present
        weight[fitted] = torch.from_numpy(model.coef_).float()
        bias[fitted] = torch.from_numpy(model.intercept_).float()
    return Head(columns, [(weight, bias)])


_get_threadpool_controller = cache(ThreadpoolController)


def limit_to_one_thread() -> AbstractContextManager[Any]:
    """Return a block in which BLAS uses one thread: for small matrices, waiting threads take longer."""
    return _get_threadpool_controller().limit(limits=1, user_api="blas")


def select_features_by_correlation(
    features: Tensor, label: Tensor, num_labels: int, max_per_label: int | None
) -> Tensor:
    """Return the columns of the features with the largest absolute correlation with each label, in rising order.

    Args:
        features: (n, F) of some rows.
        label: (n,) of the rows.
        num_labels: L.
        max_per_label: Columns of each label; None for all columns.
    """
    if max_per_label is None or features.shape[1] <= max_per_label * num_labels:
        return torch.arange(features.shape[1])
    indicator = one_hot(label, num_labels).float()
    indicator = indicator - indicator.mean(dim=0)
    centred = features - features.mean(dim=0)
    scaled = (indicator.t() @ centred).abs() / centred.norm(dim=0).clamp_min(1e-6)
    correlation = scaled / indicator.norm(dim=0).clamp_min(1e-6).unsqueeze(1)
    return correlation.topk(max_per_label, dim=1).indices.flatten().unique()


def select_most_predictive_members(members: Sequence[Tensor], label: Tensor, num_labels: int) -> list[int]:
    """Return the numbers of the members of a family that predict some label best, in rising order.

    Members are ranked by ridge regression in closed form, since there may be hundreds.

    Args:
        members: Features (N, F) of each member.
        label: (N,) of the rows.
        num_labels: L.
    """
    target = one_hot(label, num_labels).double()
    target = target - target.mean(dim=0)
    explained = []
    for features in members:
        values = features.double()
        ridge = 1e-3 * len(values) * torch.eye(values.shape[1], dtype=torch.float64)
        product = values.t() @ target
        explained.append((product * torch.linalg.solve(values.t() @ values + ridge, product)).sum(dim=0))
    return sorted(set(torch.stack(explained).argmax(dim=0).tolist()))


# -- heads with a hidden layer


def fit_hidden_layer_head(features: Tensor, target: Tensor, num_labels: int, seed: int) -> Head:
    """Return a trained head with a hidden layer.

    It is trained by Adam with generalized cross-entropy (eq. 3), whose q rises from 0, for 3 epochs and at least 150
    steps, with dropout of one feature in five.

    Args:
        features: (n, F) of the rows to learn from.
        target: (n,) of these rows.
        num_labels: L.
        seed: Of weights, dropout and batches.
    """
    batch_size = 256 if len(target) >= 8000 else 64
    steps = math.ceil(len(target) / batch_size)
    epochs = max(3, math.ceil(150 / steps))
    # Layers and dropout draw from the global generator only.
    with seed_default_generator(seed, "head"):
        first = nn.Linear(features.shape[1], 256)
        last = nn.Linear(256, num_labels)
        dropout = nn.Dropout(0.2)
        network = nn.Sequential(dropout, first, nn.ReLU(), dropout, last)
        optimizer = Optimizer([{"params": list(network.parameters())}], learning_rate=1e-3)
        generator = make_generator(seed, "order")
        for epoch in range(epochs):
            order = torch.randperm(len(target), generator=generator)
            for step, batch in enumerate(order.split(batch_size)):
                loss = cross_entropy(network(features.index_select(0, batch)), target[batch], reduction="none")
                q = ramp_up_q(GCE_EXPONENT, epoch + step / steps, Q_RAMP_SHARE * epochs)
                optimizer.zero_grad()
                gce_from_cross_entropy(loss, q).mean().backward()
                optimizer.step()
    layers = [(layer.weight.detach(), layer.bias.detach()) for layer in (first, last)]
    return Head(torch.arange(features.shape[1]), layers)


# -- from views to attributes


class ShortcutPrediction(NamedTuple):
    """What one shortcut predicts of n rows.

    Attributes:
        attribute: (n,) long.
        probabilities: (n, L) class probabilities by heads that were not trained on the row.
    """

    attribute: Tensor
    probabilities: Tensor

    @classmethod
    def from_odds(cls, probabilities: Tensor, label: Tensor, odds: float) -> ShortcutPrediction:
        """Return the prediction in which another label than the row's needs some odds.

        Args:
            probabilities: (n, L) class probabilities.
            label: (n,) of the rows.
            odds: From which a row counts as bias-conflicting.
        """
        one_to_one = Correlation.one_to_one(probabilities.shape[1])
        return cls(select_attribute(probabilities, label, one_to_one, odds), probabilities)


@dataclass(frozen=True)
class FittedHeads:
    """Fitted views, the scale of their features, and heads on them.

    Attributes:
        views: The views.
        deviation: (F,) standard deviation of the training rows' features.
        mean: (F,) their mean.
        heads: Trained heads, whose probabilities are averaged.
        odds: Odds of another label from which a row counts as bias-conflicting.
    """

    views: Sequence[View]
    deviation: Tensor
    mean: Tensor
    heads: Sequence[Head]
    odds: float

    @torch.no_grad()
    def predict(self, label: Tensor, features: Tensor) -> ShortcutPrediction:
        """Predict unseen rows by the features of the views.

        Args:
            label: (n,) of the rows.
            features: (n, F), not standardised.
        """
        features = standardize(features, self.deviation, self.mean)
        probabilities = torch.stack([head(features) for head in self.heads]).mean(dim=0)
        return ShortcutPrediction.from_odds(probabilities, label, self.odds)

    def get_state(self) -> dict[str, Any] | None:
        """Return plain values and tensors for a checkpoint; None with a custom view, which it could not restore."""
        views = [serialize_builtin_view(view) for view in self.views]
        return None if None in views else {**vars(self), "views": views, "heads": [vars(head) for head in self.heads]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> FittedHeads:
        """Return the heads that ``get_state`` described."""
        try:
            heads = [Head(**head) for head in state["heads"]]
            views = [restore_view(view) for view in state["views"]]
            return cls(**{**state, "views": views, "heads": heads})
        except (KeyError, TypeError) as error:
            raise InputError("the heads of the run are of another version: train again") from error


def estimate_by_heads(
    views: Sequence[View],
    rows: TrainingRows,
    num_labels: int,
    seed: int,
    features: Tensor | None = None,
    exact: bool = False,
) -> tuple[ShortcutPrediction, FittedHeads]:
    """Estimate the attribute of all training rows by heads on views, cross-fitted in halves.

    Args:
        views: Fitted here, unless there are ``features``.
        rows: The training rows.
        num_labels: L.
        seed: Of folds and heads.
        features: (N, F) of views that are fitted already.
        exact: The views hold the attribute itself, as a column that the user named does. A value then belongs to the
            label in which it is more frequent than in all rows: labels count as equally frequent, odds of 1 decide, and
            no row is relabelled.

    Returns:
        What heads predict of the training rows that they were not trained on, and all heads, for other rows.
    """
    if features is None:
        assert rows.view_inputs is not None
        rows.report(f"evaluating {', '.join(view.name for view in views)}")
        for view in views:
            view.fit(rows.view_inputs)
        features = torch.cat(compute_features(views, rows.view_inputs), dim=1)
    deviation, mean = torch.std_mean(features, dim=0)
    features = standardize(features, deviation, mean)
    max_per_label = get_max_features_per_label(views)
    is_linear = max_per_label is not None or features.shape[1] <= MAX_LINEAR_FEATURES
    target = rows.label
    last_round = 0 if exact else RELABEL_ROUNDS
    for number in range(last_round + 1):
        rows.report(f"estimating the attribute, round {number + 1} of {last_round + 1}")
        num_splits = 2 if number == last_round else 1  # targets of a next round need no more
        round_seed = derive_seed(seed, "round", number)
        probabilities, heads = cross_fit(
            features, target, num_labels, is_linear, max_per_label, num_splits, round_seed, rows.unit
        )
        target = relabel_conflicting_rows(probabilities, rows.label)
    odds = LINEAR_ODDS if is_linear else HIDDEN_ODDS
    if exact:
        odds = 1.0
        weight = -torch.bincount(rows.label, minlength=num_labels).clamp_min(1).log()
        probabilities = (probabilities.log() + weight).softmax(dim=1)
        for head in heads:
            head.layers[-1][1].add_(weight)
    prediction = ShortcutPrediction.from_odds(probabilities, rows.label, odds)
    return prediction, FittedHeads(views, deviation, mean, heads, odds)


def cross_fit(
    features: Tensor,
    target: Tensor,
    num_labels: int,
    is_linear: bool,
    max_per_label: int | None,
    num_splits: int,
    seed: int,
    unit: Tensor | None = None,
) -> tuple[Tensor, list[Head]]:
    """Train heads on each half of the rows.

    Args:
        features: (N, F).
        target: (N,) targets.
        num_labels: L.
        is_linear: Whether heads are linear; else they have a hidden layer.
        max_per_label: See ``fit_logistic_head``.
        num_splits: Divisions into halves, over which probabilities are averaged.
        seed: Of halves and heads.
        unit: See ``TrainingRows``.

    Returns:
        Class probabilities (N, L) of each row by heads that were trained on the other half, and all heads.
    """
    total = torch.zeros(len(features), num_labels)
    heads: list[Head] = []

    def fit_and_predict(split: int, learned: Tensor, left_out: Tensor, half: int) -> Tensor:
        if is_linear:
            head = fit_logistic_head(features[learned], target[learned], num_labels, max_per_label)
        else:
            head_seed = derive_seed(seed, "half", split, half)
            head = fit_hidden_layer_head(features[learned], target[learned], num_labels, head_seed)
        heads.append(head)
        return head(features[left_out])

    for split in range(num_splits):
        generator = make_generator(seed, "halves", split)
        halves = draw_halves_of_rows(target, unit, generator)
        total += predict_out_of_fold(partial(fit_and_predict, split), halves, num_labels)
    return total / num_splits, heads


def relabel_conflicting_rows(probabilities: Tensor, label: Tensor) -> Tensor:
    """Return the targets (N,) of the next round: another label where its held-out odds exceed 10, else the label.

    Args:
        probabilities: (N, L), held out.
        label: (N,) of the rows.

    >>> probabilities = torch.tensor([[0.95, 0.05], [0.8, 0.2]])
    >>> relabel_conflicting_rows(probabilities, torch.tensor([1, 1]))
    tensor([0, 1])
    """
    of_label = probabilities.gather(1, label.unsqueeze(1)).squeeze(1)
    largest, predicted = probabilities.max(dim=1)
    return torch.where(largest > RELABEL_ODDS * of_label, predicted, label)


def join_attributes(attributes: Sequence[Tensor], num_values: int) -> Tensor:
    """Return one attribute (N,) with a value for each combination of the values of several attributes (N,).

    >>> join_attributes([torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1])], num_values=2)
    tensor([1, 2, 3])
    """
    joint = attributes[0]
    for attribute in attributes[1:]:
        joint = joint * num_values + attribute
    return joint


def compute_joint_posterior(posteriors: Sequence[Tensor]) -> Tensor:
    """Return the posterior (N, K) of the joint attribute of ``join_attributes`` by those (N, L) of several."""
    joint = posteriors[0]
    for posterior in posteriors[1:]:
        joint = (joint.unsqueeze(2) * posterior.unsqueeze(1)).flatten(1)
    return joint
