"""Logistic regression on the features of views, and which features and members of a family tell labels apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from logit_correction.attributes.kept_heads import Head

#: Ridge of the least squares that rank the members of a family, as a share of the rows.
RIDGE = 1e-3

#: From so many features on a linear head is shrunk more.
RICH = 300


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

    there = label[~held_out].unique()  # sorted, as the head has them
    layer = torch.zeros(num_labels, features.shape[1]), torch.full((num_labels,), -torch.inf)
    found = torch.zeros(int(held_out.sum()), num_labels)
    if len(there) == 1:  # of a label with a single row, none is left to learn from
        found[:, there], layer[1][there] = 1.0, 0.0
        return found, layer
    # The richer the features, the stronger the shrinkage: a head that learns rows by heart tells nothing.
    head = LogisticRegression(C=1.0 if features.shape[1] <= RICH else 0.03, max_iter=300, tol=1e-3)
    head.fit(features[~held_out].numpy(), label[~held_out].numpy())
    found[:, there] = torch.from_numpy(head.predict_proba(features[held_out].numpy())).float()
    weight, bias = torch.from_numpy(head.coef_).float(), torch.from_numpy(head.intercept_).float()
    if len(there) == 2:  # one row of weights: those of the second label against the first
        weight, bias = torch.cat([torch.zeros_like(weight), weight]), torch.cat([torch.zeros_like(bias), bias])
    layer[0][there], layer[1][there] = weight, bias
    return found, layer


def telling_features(features: Tensor, label: Tensor, num_labels: int, few: int | None) -> Tensor:
    """Return the columns that correlate most with each label, ``few`` of each; all without ``few``."""
    if few is None or features.shape[1] <= few * num_labels:
        return torch.arange(features.shape[1])
    member = one_hot(label, num_labels).float()
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
    target = one_hot(label, num_labels).double()
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
