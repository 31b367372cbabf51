"""Clusters of a biased network's features tell apart the attribute values of one label (LC+; section 4.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn.functional import normalize

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator, BatchEstimate, NetworkBuilder, select_attribute
from logit_correction.attributes.online import Online
from logit_correction.distributed import sum_over_processes
from logit_correction.errors import InputError
from logit_correction.functional import sum_by_group
from logit_correction.networks.base import get_feature_size
from logit_correction.registry import make_component
from logit_correction.seeds import StepRandomness, derive_seed
from logit_correction.types import Batch, Correlation, DataInfo, Inputs, NetworkFactory, Stage, Step, TrainingRows


class Clusters(AttributeEstimator):
    """Divides a biased network's class probabilities among the several attribute values of a label (LC+).

    The biased network's features are clustered after its head start, one cluster for each value. Value j of label y
    gets the share

        share_j(x, y) proportional to w_yj exp(-|z - c_j|^2 / (2 s^2)),

    of the label's probability. z are the row's features, scaled to length 1, c_j is the cluster's centre and s^2 the
    variance within clusters in the directions in which centres differ. (The weights alone, as in the paper, would
    choose one value for every row.) While the network trains, w_yj is the mean loss of the label's N_yj rows in the
    cluster over N_yj, averaged over the steps: eq. 6 of Seo, Lee and Han (CVPR 2022), as in the paper. Once the network
    is fixed, w_yj is N_yj.

    Labels with the same values are clustered together, without the directions in which these labels differ. The
    largest cluster gets the value with the greatest weight in the correlation. So values of one label may be exchanged,
    which does not change the loss. The data source must know the values of each label.
    """

    components = MappingProxyType({"attributes": "attributes"})
    num_stages = 1
    table: Tensor
    center: Tensor
    variance: Tensor
    size: Tensor
    loss: Tensor

    def __init__(self, attributes: AttributeEstimator | str = "Online") -> None:
        """Choose the biased network.

        Args:
            attributes: ``Online`` with a head start; by its name alone, of two epochs.
        """
        super().__init__()
        if attributes == "Online":
            attributes = Online(head_start_epochs=2)
        inner = make_component("attribute estimator", attributes, ESTIMATORS, AttributeEstimator)
        if not isinstance(inner, Online) or not inner.num_stages:
            raise InputError("Clusters needs Online with a head start: give head_start_epochs")
        inner.keeps_features = True
        self.inner, self.is_static = inner, inner.is_static

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self.correlation = info.get_correlation("known")
        shared_sets(self.correlation)  # refuses a table whose clusters could not be named
        self.inner.attach(build, network, info, seed)
        self.inner.correlation = Correlation.one_to_one(info.num_labels)  # its posterior is divided here
        size = info.num_labels, self.num_attributes
        self.register_buffer("table", self.correlation.weights.float(), persistent=False)
        self.register_buffer("center", torch.zeros(self.num_attributes, get_feature_size(self.inner.network)))
        self.register_buffer("variance", torch.ones(self.num_attributes))
        self.register_buffer("size", torch.zeros(size))
        self.register_buffer("loss", torch.zeros(size))  # 0 where none was seen

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        self.inner.setup(rows)

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        return self.inner.begin_stage(stage, outputs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        return self.inner.step(batch, epoch, randomness)

    def collect_outputs(self, batch: Batch) -> Tensor:
        """Return class probabilities of rows, and their features, (B, L + F)."""
        return torch.cat([self.inner.collect_outputs(batch), self.inner.features], dim=1)

    def predict(self, inputs: Inputs) -> Tensor:
        return self.inner.predict(inputs)

    def parameter_groups(self) -> list[dict[str, object]]:
        return self.inner.parameter_groups()

    def finish(self, outputs: Tensor | None) -> None:
        if outputs is not None:
            self.inner.finish(outputs[:, : self.info.num_labels])
            self.find(outputs[:, self.info.num_labels :], self.rows.label)
        super().finish(outputs)

    @torch.no_grad()
    def find(self, features: Tensor, label: Tensor) -> None:
        """Cluster the features (N, F) of all rows of labels (N,), on the CPU."""
        table = self.table.cpu()
        for values, labels in shared_sets(self.correlation).items():
            rows, seed = torch.isin(label, torch.tensor(labels)), derive_seed(self.seed, "clusters", *values) % 2**32
            center, variance, size = find_clusters(features[rows].double(), label[rows], labels, len(values), seed)
            # The largest cluster first, and the value that the table weighs most.
            by_size = size.argsort(descending=True, stable=True)
            by_weight = table[labels].sum(dim=0)[list(values)].argsort(descending=True, stable=True)
            places = torch.tensor(values)[by_weight]
            self.center[places], self.variance[places] = center[by_size].to(self.center), variance
        own, parts = label.to(self.center.device), features.split(4096)
        cluster = [self._cluster(f.to(self.center), y) for f, y in zip(parts, own.split(4096), strict=True)]
        self.size.copy_(sum_by_group(own, torch.cat(cluster), self.size.new_ones(len(own)), *self.size.shape)[1])
        self.loss.zero_()

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        assert outputs is not None
        posterior = torch.cat([self.posterior(part.to(self.center)) for part in outputs.split(4096)]).cpu()
        return select_attribute(posterior, self.rows.label, self.correlation)

    def forward(self, batch: Batch, epoch: float, randomness: StepRandomness) -> BatchEstimate:
        """Divide the inner estimate of a label among its values (section 4.2.3)."""
        if self.is_static:
            return super().forward(batch, epoch, randomness)
        estimate: BatchEstimate = self.inner(batch, epoch, randomness)
        assert estimate.posterior is not None
        with torch.no_grad():
            posterior = self.posterior(torch.cat([estimate.posterior, self.inner.features], dim=1))
        return replace(estimate, posterior=posterior, attribute=posterior.argmax(dim=1))

    @torch.no_grad()
    def update_from_losses(self, label: Tensor, losses: Tensor) -> None:
        """Update the clusters' weights by the losses (B,) of the last batch, of all processes together."""
        if self.is_static:
            return
        cluster = self._cluster(self.inner.features, label)
        sums, counts = sum_by_group(label, cluster, losses.to(self.loss.dtype), *self.loss.shape)
        sums, counts = sum_over_processes(torch.stack((sums, counts))).unbind(0)
        mean = sums / counts.clamp_min(1.0)
        moved = torch.where(self.loss > 0, torch.lerp(self.loss, mean, 0.3), mean)
        self.loss.copy_(torch.where(counts > 0, moved, self.loss))

    def weights(self) -> Tensor:
        """Return w, (L, K); a cluster without losses takes its label's mean loss."""
        size, seen = self.size.clamp_min(1.0), self.loss > 0
        if self.is_static:
            return size
        mean = self.loss.sum(dim=1, keepdim=True) / seen.sum(dim=1, keepdim=True).clamp_min(1)
        return torch.where(seen, self.loss, torch.where(mean > 0, mean, 1.0)) / size

    def posterior(self, found: Tensor) -> Tensor:
        """Return P(a | x), (B, K), from class probabilities and features (B, L + F)."""
        probability, features = found[:, : self.info.num_labels], found[:, self.info.num_labels :]
        weight = self.weights().log().masked_fill(self.table == 0, float("-inf"))
        shares = (self._fit(features).unsqueeze(1) + weight).softmax(dim=2)  # (B, L, K)
        return (probability.unsqueeze(2) * shares).sum(dim=1)

    def _fit(self, features: Tensor) -> Tensor:
        """Return -|z - c|^2 / (2 s^2), (B, K), up to a constant for each row."""
        # -|z - c|^2 = 2 z.c - |c|^2 - |z|^2. The centres have nothing of the directions that were taken out.
        # No matrix product: under autocast it would round to half precision.
        product = (normalize(features, dim=1).unsqueeze(1) * self.center).sum(dim=2)
        return (product - self.center.square().sum(dim=1) / 2) / self.variance

    def _cluster(self, features: Tensor, label: Tensor) -> Tensor:
        """Return the nearest of the own label's clusters, (B,)."""
        outside = (self.table == 0).index_select(0, label)
        return self._fit(features).masked_fill(outside, float("-inf")).argmax(dim=1)

    def describe(self) -> str:
        return f"{self.inner.describe()}, values of one label told apart by clusters"


def shared_sets(correlation: Correlation) -> dict[tuple[int, ...], list[int]]:
    """Return the labels of each set of several attribute values; raise ``InputError`` if two sets overlap."""
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
    """Cluster features (N, F), scaled to length 1, without the directions in which the labels differ.

    Returns:
        Centres (P, F), the variance around them in one direction in which they differ, and sizes (P,).
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
