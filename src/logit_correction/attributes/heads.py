"""Small heads on the features of a view, each predicting only rows that it was not trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.biased import ramped_q
from logit_correction.attributes.kept_heads import Head
from logit_correction.functional import generalize
from logit_correction.seeds import derive_seed, make_generator

#: Least number of steps of a head, whatever the number of rows.
LEAST_STEPS = 150

#: Ridge of the least squares that rank the members of a family, as a share of the rows.
RIDGE = 1e-3

#: From so many features on a linear head is shrunk more.
RICH = 300


@dataclass(frozen=True)
class HeadTraining:
    """How a head is trained: one hidden layer, generalized cross-entropy, Adam.

    Attributes:
        epochs: Passes over its half of the rows; None takes 3, and more where these are fewer than 150 steps.
        learning_rate: Of Adam.
        q: Exponent of the generalized cross-entropy.
        q_ramp_up: Share of the epochs over which q rises from 0.
        dropout: Probability with which a feature is hidden while the head trains.
        hidden: Width of the hidden layer.
    """

    epochs: int | None = None
    learning_rate: float = 1e-3
    q: float = 0.7
    q_ramp_up: float = 2 / 3
    dropout: float = 0.2
    hidden: int = 256

    def batch_size(self, num_rows: int) -> int:
        """Return 256, and 64 where a head trains on fewer than 8,000 rows."""
        return 256 if num_rows >= 8000 else 64

    def length(self, num_rows: int) -> int:
        """Return the epochs of a head that trains on so many rows."""
        if self.epochs is not None:
            return self.epochs
        return max(3, math.ceil(LEAST_STEPS / math.ceil(num_rows / self.batch_size(num_rows))))


def train_head(
    features: Tensor, target: Tensor, rows: Tensor, num_labels: int, training: HeadTraining, seed: int
) -> nn.Module:
    """Train a head.

    Args:
        features: (N, F), standardised.
        target: (N,) long, 0..L-1.
        rows: (n,) long, the rows to train on.
        num_labels: L.
        training: How.
        seed: Seed of the weights, the order and the dropout.

    Returns:
        A module from features (B, F) to logits (B, L), in evaluation mode.
    """
    # The global generator, since layers draw their weights and dropout its masks from nothing else.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "head"))
        network = nn.Sequential(
            nn.Dropout(training.dropout),
            nn.Linear(features.shape[1], training.hidden),
            nn.ReLU(),
            nn.Dropout(training.dropout),
            nn.Linear(training.hidden, num_labels),
        )
        optimizer = torch.optim.Adam(network.parameters(), lr=training.learning_rate, fused=True)
        generator = make_generator(seed, "order")
        epochs, size = training.length(len(rows)), training.batch_size(len(rows))
        steps = math.ceil(len(rows) / size)
        for epoch in range(epochs):
            order = rows[torch.randperm(len(rows), generator=generator)]
            for step, batch in enumerate(order.split(size)):
                loss = cross_entropy(network(features.index_select(0, batch)), target[batch], reduction="none")
                q = ramped_q(training.q, epoch + step / steps, training.q_ramp_up * epochs)
                optimizer.zero_grad()
                generalize(loss, q).mean().backward()
                optimizer.step()
    return network.eval()


def cross_fit(
    features: Tensor,
    target: Tensor,
    num_labels: int,
    training: HeadTraining | None,
    *,
    few: int | None = None,
    splits: int = 1,
    seed: int = 0,
    kept: list[Head] | None = None,
) -> Tensor:
    """Return held-out class probabilities (N, L): each row's from heads that were trained on the other half.

    Args:
        features: (N, F), standardised.
        target: (N,) long, 0..L-1, what the heads are to predict.
        num_labels: L.
        training: How heads with a hidden layer are trained; None takes logistic regression.
        few: How many features logistic regression may use for each label; None for all.
        splits: Number of random splits into two halves, whose probabilities are averaged.
        seed: Seed of the splits and the heads.
        kept: Takes the heads.
    """
    total = torch.zeros(len(features), num_labels)
    for split in range(splits):
        fold = torch.zeros(len(features), dtype=torch.long)
        order = torch.randperm(len(features), generator=make_generator(seed, "halves", split))
        fold[order[len(order) // 2 :]] = 1
        if training is None:
            total += held_out_logistic(features, target, fold, num_labels, few, kept)
            continue
        for side in (0, 1):
            half, other = (fold == side).nonzero().squeeze(1), (fold != side).nonzero().squeeze(1)
            head = train_head(features, target, half, num_labels, training, derive_seed(seed, "half", split, side))
            with torch.no_grad():
                total[other] += head(features[other]).softmax(dim=1)
            if kept is not None:
                layers = [layer for layer in head.modules() if isinstance(layer, nn.Linear)]
                pairs = [(layer.weight.detach(), layer.bias.detach()) for layer in layers]
                kept.append(Head(torch.arange(features.shape[1]), pairs))
    return total / splits


def relabeled(probability: Tensor, label: Tensor, odds: float) -> Tensor:
    """Return the targets (N,) of the next round: another label where its held-out odds exceed ``odds``, else the label.

    >>> probability = torch.tensor([[0.95, 0.05], [0.8, 0.2]])
    >>> relabeled(probability, torch.tensor([1, 1]), odds=10)
    tensor([0, 1])
    """
    own = probability.gather(1, label.unsqueeze(1)).squeeze(1)
    greatest, other = probability.max(dim=1)
    return torch.where(greatest > odds * own, other, label)


def held_out_logistic(
    features: Tensor,
    label: Tensor,
    fold: Tensor,
    num_labels: int,
    few: int | None = None,
    kept: list[Head] | None = None,
) -> Tensor:
    """Return held-out class probabilities (N, L) by logistic regression, each fold's from a fit on the others.

    Args:
        features: (N, F), standardised.
        label: (N,) long, 0..L-1.
        fold: (N,) long, the fold of each row; -1 for rows that are learned from in any case, which are not predicted.
        num_labels: L.
        few: How many features may be used for each label, those that go with it most on the other folds; None for all.
        kept: Takes the heads, one a fold.
    """
    found = torch.zeros(len(label), num_labels)
    for number in fold[fold >= 0].unique().tolist():
        held_out = fold == number
        chosen = telling_features(features[~held_out], label[~held_out], num_labels, few)
        found[held_out], layer = _fold_logistic(features[:, chosen], label, held_out, num_labels)
        if kept is not None:
            kept.append(Head(chosen, [layer]))
    return found


def _fold_logistic(
    features: Tensor, label: Tensor, held_out: Tensor, num_labels: int
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return class probabilities (n, L) of held-out rows by logistic regression on the others, and its layer."""
    from sklearn.linear_model import LogisticRegression

    # The richer the features, the stronger the shrinkage: a head that learns rows by heart tells nothing.
    head = LogisticRegression(C=1.0 if features.shape[1] <= RICH else 0.03, max_iter=300, tol=1e-3)
    head.fit(features[~held_out].numpy(), label[~held_out].numpy())
    found = torch.zeros(int(held_out.sum()), num_labels)
    there = torch.from_numpy(head.classes_)
    found[:, there] = torch.from_numpy(head.predict_proba(features[held_out].numpy())).float()
    weight, bias = torch.from_numpy(head.coef_).float(), torch.from_numpy(head.intercept_).float()
    if len(there) == 2:  # one row of weights: those of the second label against the first
        weight, bias = torch.cat([torch.zeros_like(weight), weight]), torch.cat([torch.zeros_like(bias), bias])
    layer = torch.zeros(num_labels, features.shape[1]), torch.full((num_labels,), -torch.inf)
    layer[0][there], layer[1][there] = weight, bias
    return found, layer


def telling_features(features: Tensor, label: Tensor, num_labels: int, few: int | None) -> Tensor:
    """Return the columns that correlate most with each label, ``few`` of each; all without ``few``."""
    if few is None or features.shape[1] <= few * num_labels:
        return torch.arange(features.shape[1])
    member = torch.nn.functional.one_hot(label, num_labels).float()
    centred, member = features - features.mean(dim=0), member - member.mean(dim=0)
    product = (member.t() @ centred).abs() / centred.norm(dim=0).clamp_min(1e-6)
    scaled = product / member.norm(dim=0).clamp_min(1e-6).unsqueeze(1)
    return scaled.topk(few, dim=1).indices.flatten().unique()


def telling_members(members: Sequence[Tensor], label: Tensor, num_labels: int) -> list[int]:
    """Return the members of a family of views that tell each label best from the others, one for each label.

    Args:
        members: Features (N, F_m) of each member, standardised.
        label: (N,) long.
        num_labels: L.

    Returns:
        Numbers of members, each once, in rising order; at most L.
    """
    target = torch.nn.functional.one_hot(label, num_labels).double()
    target = target - target.mean(dim=0)
    explained = []
    for features in members:
        # Least squares in closed form: there may be hundreds of members, and it only has to rank them.
        values = features.double()
        gram = values.t() @ values + RIDGE * len(values) * torch.eye(values.shape[1], dtype=torch.float64)
        product = values.t() @ target
        explained.append((product * torch.linalg.solve(gram, product)).sum(dim=0))
    return sorted(set(torch.stack(explained).argmax(dim=0).tolist()))


def held_out_family(members: Sequence[Tensor], label: Tensor, fold: Tensor, num_labels: int) -> Tensor:
    """Return held-out class probabilities (N, L) by the members of a family that tell each label best.

    Args:
        members: Features (N, F_m) of each member, standardised.
        label: (N,) long.
        fold: (N,) long, the fold of each row; -1 for rows that are learned from in any case, which are not predicted.
        num_labels: L.
    """
    found = torch.zeros(len(label), num_labels)
    for number in fold[fold >= 0].unique().tolist():
        others = fold != number
        chosen = telling_members([features[others] for features in members], label[others], num_labels)
        features = torch.cat([members[i] for i in chosen], dim=1)
        found[~others] = _fold_logistic(features, label, fold == number, num_labels)[0]
    return found
