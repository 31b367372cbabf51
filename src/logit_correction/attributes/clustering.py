"""Clusters of rows that several labels have in common, whatever else tells these labels apart."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from logit_correction.errors import InputError


class Found(NamedTuple):
    """Clusters of points of length 1.

    Attributes:
        center: (P, F).
        variance: Of the points around their centres, in one direction in which the centres differ.
        size: (P,) number of points.
    """

    center: Tensor
    variance: float
    size: Tensor


def find_clusters(features: Tensor, label: Tensor, labels: list[int], number: int, seed: int) -> Found:
    """Cluster the features, scaled to length 1, less the directions in which the labels themselves differ.

    Args:
        features: (N, F) double.
        label: (N,) long.
        labels: Those that are among ``label``.
        number: P, the number of clusters.
        seed: Seed of k-means, below 2^32.

    Raises:
        InputError: If features are not finite, or a label has fewer rows than there are clusters.
    """
    if not bool(features.isfinite().all()):
        raise InputError("the features to be clustered are not finite: lower the biased network's learning rate")
    points = normalize(features, dim=1)
    middles = []
    for y in labels:
        own = points[label == y]
        if len(own) < number:
            raise InputError(
                f"label {y} goes with {number} attribute values, but has {len(own)} training rows: name fewer "
                "values for it in the correlation table, or give more rows"
            )
        # The mean of the centres, not of the rows: labels may have the values in different proportions.
        middles.append(_k_means(own, number, seed)[0].mean(dim=0) if len(labels) > 1 else own.mean(dim=0))
    points = _without(points, torch.stack(middles))
    center, member = _k_means(points, number, seed)
    within = _directions(center)
    spread = ((points - center[member]) @ within.t()).square().sum(dim=1).mean() / max(len(within), 1)
    return Found(center, float(spread.clamp_min(1e-6)), torch.bincount(member, minlength=number))


def _k_means(points: Tensor, number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Centres (number, F) and each row's cluster (N,)."""
    from sklearn.cluster import KMeans

    found = KMeans(number, n_init=10, random_state=seed).fit(points.numpy())
    return torch.from_numpy(found.cluster_centers_), torch.from_numpy(found.labels_).long()


def _directions(points: Tensor) -> Tensor:
    """Orthonormal directions (R, F) in which a few points (P, F) differ from each other, R <= P - 1."""
    _, strength, directions = torch.linalg.svd(points - points.mean(dim=0), full_matrices=False)
    return directions[strength > 1e-6 * points.norm(dim=1).max()]


def _without(points: Tensor, middles: Tensor) -> Tensor:
    """Points (N, F) less their parts along the directions in which ``middles`` (P, F) differ."""
    return points - (points @ _directions(middles).t()) @ _directions(middles)
