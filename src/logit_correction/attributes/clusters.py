"""A biased network's attributes, the several values of one label told apart by clusters (LC+; section 3.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, normalize

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator, Builder
from logit_correction.attributes.heads import likely_attribute
from logit_correction.attributes.online import Online
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError
from logit_correction.functional import cell_sums
from logit_correction.networks.base import Network, feature_size
from logit_correction.registry import component
from logit_correction.seeds import StepRandomness, derive_seed
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, TrainingRows


class Clusters(AttributeEstimator):
    """A biased network's class probabilities, divided among the several attribute values of a label (LC+).

    Where a label goes with several attribute values, class probabilities alone cannot tell them apart. So the biased
    network's features are clustered after its head start, see ``divided``. The data source must know which
    labels go with which values.
    """

    components = MappingProxyType({"attributes": "attributes"})
    trains_network = True
    num_stages = 1

    def __init__(self, attributes: AttributeEstimator | str = "Online") -> None:
        """Choose the biased network.

        Args:
            attributes: ``Online`` with a head start, after which its network stays as it is; by its name alone, of two
                epochs.
        """
        super().__init__()
        if attributes == "Online":
            attributes = Online(head_start_epochs=2, epochs=2)
        inner = component("attribute estimator", attributes, ESTIMATORS, AttributeEstimator)
        if not isinstance(inner, Online) or not inner.settled:
            raise InputError("Clusters needs Online with a head start: give head_start_epochs, and epochs the same")
        self.inner = inner

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self.correlation = info.chosen_correlation("known")
        shared_sets(self.correlation)  # refuses a table whose clusters could not be named
        self.inner.attach(build, network, info, seed)
        feature_size(self.inner.network)  # refuses one without features

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        self.inner.setup(rows)

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        return self.inner.begin_stage(stage, outputs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        return self.inner.step(batch, epoch, randomness)

    def collect(self, batch: Batch) -> Tensor:
        """Return class probabilities of rows, and their features, (B, L + F)."""
        network = cast(Network, self.inner.network)
        features = network.features(batch.inputs)
        probability = self.inner.probability(log_softmax(network.head(features).float(), dim=1))
        return torch.cat([probability, features.float()], dim=1)

    def predict(self, inputs: Inputs) -> Tensor:
        return self.inner.predict(inputs)

    def parameter_groups(self) -> list[dict[str, object]]:
        return self.inner.parameter_groups()

    def finish(self, outputs: Tensor | None) -> None:
        assert outputs is not None
        self.inner.finish(outputs[:, : self.info.num_labels])
        super().finish(outputs)

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        assert outputs is not None
        label, size = self.rows.label, self.info.num_labels
        probability, features = outputs[:, :size], outputs[:, size:]
        posterior = divided(probability, features, label, self.correlation, self.seed)
        own = probability.gather(1, label.unsqueeze(1)).squeeze(1)
        return likely_attribute(posterior, label, self.correlation), own

    def describe(self) -> str:
        return f"{self.inner.describe()}, values of one label told apart by clusters"


def divided(probability: Tensor, features: Tensor, label: Tensor, correlation: Correlation, seed: int) -> Tensor:
    """Return P(a | x), (N, K): class probabilities (N, L) divided among the values of a label by clusters of features.

    The share of value j of label y is weighed by how well the row's features z (N, F), scaled to length 1, fit its
    cluster,

        share_j(x, y) proportional to N_yj exp(-|z - c_j|^2 / (2 s^2)),

    c_j being its centre, s^2 the variance within clusters in the directions in which centres differ, and N_yj the rows
    of the label in the cluster, which makes the share the posterior given that the clusters are right. (The paper has
    the weights of Seo, Lee and Han, CVPR 2022, in their place, which are importance weights and no probabilities.)

    Labels that go with the very same values are clustered together, less the directions in which these labels differ,
    so that a cluster means the same value for all of them. No clustering knows which value a cluster stands for: the
    largest gets the value with the greatest weight in the correlation, so values of a set may be exchanged. A loss is
    none the worse for it; a comparison with true attributes must allow for it.
    """
    table = correlation.weights.float()
    center, variance = torch.zeros(table.shape[1], features.shape[1]), torch.ones(table.shape[1])
    for values, labels in shared_sets(correlation).items():
        rows = torch.isin(label, torch.tensor(labels))
        its_seed = derive_seed(seed, "clusters", *values) % 2**32
        found, spread, size = find_clusters(features[rows].double(), label[rows], labels, len(values), its_seed)
        # The largest cluster first, and the value that the table weighs most.
        by_size = size.argsort(descending=True, stable=True)
        by_weight = table[labels].sum(dim=0)[list(values)].argsort(descending=True, stable=True)
        places = torch.tensor(values)[by_weight]
        center[places], variance[places] = found[by_size].float(), spread
    # -|z - c|^2 = 2 z.c - |c|^2 - |z|^2. The centres have nothing of the directions that were taken out.
    products = [(normalize(part, dim=1).unsqueeze(1) * center).sum(dim=2) for part in features.split(4096)]
    fit = (torch.cat(products) - center.square().sum(dim=1) / 2) / variance
    cluster = fit.masked_fill(table[label] == 0, float("-inf")).argmax(dim=1)
    count = cell_sums(label, cluster, torch.ones(len(label)), *table.shape)[1].clamp_min(1.0)
    weight = count.log().masked_fill(table == 0, float("-inf"))
    parts = zip(probability.split(4096), fit.split(4096), strict=True)
    return torch.cat([(p.unsqueeze(2) * (f.unsqueeze(1) + weight).softmax(dim=2)).sum(dim=1) for p, f in parts])


def shared_sets(correlation: Correlation) -> dict[tuple[int, ...], list[int]]:
    """Return the sets of several attribute values, each with the labels that go with it; none may overlap another."""
    rows = [tuple(values) for values in correlation.to_table()]
    sets: dict[tuple[int, ...], list[int]] = {}
    for label, values in enumerate(rows):
        if len(values) > 1:
            sets.setdefault(values, []).append(label)
        other = next((one for one in rows if one != values and set(one) & set(values)), None)
        if other is not None:
            raise InputError(
                f"label {label} goes with the attribute values {list(values)}, which overlap {list(other)} but are not "
                "the same: let labels share all values or none, or take correlation=one-to-one"
            )
    return sets


def find_clusters(
    features: Tensor, label: Tensor, labels: Sequence[int], number: int, seed: int
) -> tuple[Tensor, float, Tensor]:
    """Cluster features (N, F), scaled to length 1, less the directions in which the labels themselves differ.

    Returned are centres (P, F), the variance around them in one direction in which they differ, and sizes (P,).
    """
    points = normalize(features, dim=1)
    middles = []
    for y in labels:
        own = points[label == y]
        if len(own) < number:
            raise InputError(f"label {y} goes with {number} attribute values, but has {len(own)} rows: give more rows")
        # The mean of the centres, not of the rows: labels may have the values in different proportions.
        middles.append(_k_means(own, number, seed)[0].mean(dim=0) if len(labels) > 1 else own.mean(dim=0))
    apart = _directions(torch.stack(middles))
    points = points - (points @ apart.t()) @ apart
    center, member = _k_means(points, number, seed)
    within = _directions(center)
    spread = ((points - center[member]) @ within.t()).square().sum(dim=1).mean() / max(len(within), 1)
    return center, float(spread.clamp_min(1e-6)), torch.bincount(member, minlength=number)


def _k_means(points: Tensor, number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return centres (number, F) and each row's cluster (N,)."""
    from sklearn.cluster import KMeans

    found = KMeans(number, n_init=10, random_state=seed).fit(points.numpy())
    return torch.from_numpy(found.cluster_centers_), torch.from_numpy(found.labels_).long()


def _directions(points: Tensor) -> Tensor:
    """Return orthonormal directions (R, F) in which a few points (P, F) differ from each other, R <= P - 1."""
    _, strength, directions = torch.linalg.svd(points - points.mean(dim=0), full_matrices=False)
    return directions[strength > 1e-6 * points.norm(dim=1).max()]
