"""Small heads on the features of a view, each predicting only rows that it was not trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.biased import ramped_q
from logit_correction.attributes.kept_heads import Head
from logit_correction.attributes.linear_heads import held_out_logistic
from logit_correction.functional import generalize
from logit_correction.seeds import derive_seed, make_generator

#: Least number of steps of a head, whatever the number of rows.
LEAST_STEPS = 150


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
