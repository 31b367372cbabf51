"""Attribute values of one label, separated by clusters of a biased network's features (LC+; section 4.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import (
    AttributeEstimator,
    BatchEstimate,
    NetworkBuilder,
    ParameterGroup,
    select_attribute,
)
from logit_correction.attributes.online import Online
from logit_correction.distributed import sum_over_processes
from logit_correction.errors import InputError
from logit_correction.functional import count_groups, sum_by_group
from logit_correction.networks.base import get_feature_size
from logit_correction.registry import make_component
from logit_correction.seeds import StepRandomness, derive_seed
from logit_correction.types import Batch, Correlation, DataInfo, Inputs, NetworkFactory, Stage, Step, TrainingRows

ROWS_PER_PART = 4096  # rows that are assigned to clusters at a time, which bounds the memory
LOSS_MOMENTUM = 0.3  # weight of a step's mean loss in the moving average of a cluster's losses
MIN_VARIANCE = 1e-6  # so that clusters of equal features do not divide by 0


class Clusters(AttributeEstimator):
    """Divides a biased network's class probabilities among the several attribute values of a label (LC+).

    Use it if several attribute values occur with one label, and the data source knows which, as for one-to-many and
    many-to-many correlations. The biased network's features are clustered after its head start, one cluster for each
    value. Value j of label y gets the share

        share_j(x, y) proportional to w_yj exp(-|z - c_j|^2 / (2 s^2)),

    of the label's probability. z are the row's features, scaled to length 1, c_j is the cluster's centre and s^2 the
    variance within clusters in the directions in which centres differ. (The weights alone, as in the paper, would
    choose one value for every row.) While the network trains, w_yj is the mean loss of the label's N_yj rows in the
    cluster over N_yj, averaged over the steps: eq. 6 of Seo, Lee and Han (CVPR 2022), as in the paper. Once the network
    is fixed, w_yj is N_yj.

    Labels with the same values are clustered together, without the directions in which these labels differ. The
    largest cluster gets the value with the greatest weight in the correlation. So values of one label may be exchanged,
    which does not change the loss.
    """

    components = ("attributes",)
    num_stages = 1
    correlation_option = "known"
    table: Tensor
    center: Tensor
    variance: Tensor
    size: Tensor
    loss: Tensor

    def __init__(self, attributes: AttributeEstimator | str = "Online") -> None:
        """Choose the biased network.

        Args:
            attributes: ``Online`` with ``head_start_epochs``; ``Clusters()`` has two. If its ``epochs`` equal these,
                the estimates are static.

        Raises:
            InputError: It is another estimator, or has no head start.
        """
        super().__init__()
        if attributes == "Online":
            attributes = Online(head_start_epochs=2)
        inner = make_component("attribute estimator", attributes, ESTIMATORS, AttributeEstimator)
        if not isinstance(inner, Online) or not inner.num_stages:
            raise InputError("Clusters needs Online with a head start: give head_start_epochs")
        inner.keeps_features = True
        self.inner = inner
        self.is_static = inner.is_static

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        find_labels_by_shared_attributes(self.correlation)  # refuses a table whose clusters could not be named
        self.inner.attach(build, network, info, seed)
        self.inner.correlation = Correlation.one_to_one(info.num_labels)  # its posterior is divided here
        group_shape = (info.num_labels, self.num_attributes)
        self.register_buffer("table", self.correlation.weights.float(), persistent=False)
        self.register_buffer("center", torch.zeros(self.num_attributes, get_feature_size(self.inner.network)))
        self.register_buffer("variance", torch.ones(self.num_attributes))
        self.register_buffer("size", torch.zeros(group_shape))
        self.register_buffer("loss", torch.zeros(group_shape))  # 0 where no loss was seen

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

    def predict_logits(self, inputs: Inputs) -> Tensor:
        return self.inner.predict_logits(inputs)

    def parameter_groups(self) -> list[ParameterGroup]:
        return self.inner.parameter_groups()

    def finish(self, outputs: Tensor | None) -> None:
        if outputs is not None:
            self.inner.finish(outputs[:, : self.info.num_labels])
            self.fit_clusters(outputs[:, self.info.num_labels :], self.rows.label)
        super().finish(outputs)

    @torch.no_grad()
    def fit_clusters(self, features: Tensor, label: Tensor) -> None:
        """Cluster the features of all rows, and count each label's rows in each cluster.

        Args:
            features: (N, F) on the CPU.
            label: (N,) long on the CPU.
        """
        table = self.table.cpu()
        for values, labels in find_labels_by_shared_attributes(self.correlation).items():
            rows = torch.isin(label, torch.tensor(labels))
            seed = derive_seed(self.seed, "clusters", *values) % 2**32
            center, variance, size = find_clusters(features[rows].double(), label[rows], labels, len(values), seed)
            # The largest cluster gets the value of the greatest weight in the table.
            by_size = size.argsort(descending=True, stable=True)
            by_weight = table[labels].sum(dim=0)[list(values)].argsort(descending=True, stable=True)
            attribute = torch.tensor(values)[by_weight]
            self.center[attribute] = center[by_size].to(self.center)
            self.variance[attribute] = variance
        device_label = label.to(self.center.device)
        parts = zip(features.split(ROWS_PER_PART), device_label.split(ROWS_PER_PART), strict=True)
        cluster = torch.cat([self._assign_clusters(part.to(self.center), labels) for part, labels in parts])
        self.size.copy_(count_groups(device_label, cluster, *self.size.shape))
        self.loss.zero_()

    def assign_training(self, outputs: Tensor) -> Tensor:
        parts = [self.compute_posterior(part.to(self.center)) for part in outputs.split(ROWS_PER_PART)]
        return select_attribute(torch.cat(parts).cpu(), self.rows.label, self.correlation)

    def forward(self, batch: Batch, epoch: float, randomness: StepRandomness) -> BatchEstimate:
        """Divide the inner estimate of a label among its values (section 4.2.3)."""
        if self.is_static:
            return super().forward(batch, epoch, randomness)
        estimate: BatchEstimate = self.inner(batch, epoch, randomness)
        assert estimate.posterior is not None
        with torch.no_grad():
            posterior = self.compute_posterior(torch.cat([estimate.posterior, self.inner.features], dim=1))
        return replace(estimate, posterior=posterior, attribute=posterior.argmax(dim=1))

    @torch.no_grad()
    def record_robust_losses(self, label: Tensor, losses: Tensor) -> None:
        """Update the clusters' mean losses by those of the last batch, of all processes together.

        Args:
            label: (B,) long.
            losses: (B,), the robust network's.
        """
        if self.is_static:
            return
        cluster = self._assign_clusters(self.inner.features, label)
        sums, counts = sum_by_group(label, cluster, losses.to(self.loss.dtype), *self.loss.shape)
        sums, counts = sum_over_processes(torch.stack((sums, counts))).unbind(0)
        mean = sums / counts.clamp_min(1.0)
        average = torch.where(self.loss > 0, torch.lerp(self.loss, mean, LOSS_MOMENTUM), mean)
        self.loss.copy_(torch.where(counts > 0, average, self.loss))

    def compute_weights(self) -> Tensor:
        """Return w, (L, K); a cluster without losses takes its label's mean loss."""
        size = self.size.clamp_min(1.0)
        if self.is_static:
            return size
        has_loss = self.loss > 0
        label_mean = self.loss.sum(dim=1, keepdim=True) / has_loss.sum(dim=1, keepdim=True).clamp_min(1)
        return torch.where(has_loss, self.loss, torch.where(label_mean > 0, label_mean, 1.0)) / size

    def compute_posterior(self, outputs: Tensor) -> Tensor:
        """Return P(a | x), (B, K), from class probabilities and features, (B, L + F)."""
        probability, features = outputs.tensor_split([self.info.num_labels], dim=1)
        log_weight = self.compute_weights().log().masked_fill(self.table == 0, float("-inf"))
        shares = (self._compute_log_likelihoods(features).unsqueeze(1) + log_weight).softmax(dim=2)  # (B, L, K)
        return (probability.unsqueeze(2) * shares).sum(dim=1)

    def _compute_log_likelihoods(self, features: Tensor) -> Tensor:
        """Return -|z - c|^2 / (2 s^2), (B, K), up to a constant for each row."""
        # -|z - c|^2 = 2 z.c - |c|^2 - |z|^2. The centres have no part in the directions that were taken out.
        # No matrix product: under autocast it would round to half precision.
        product = (normalize(features, dim=1).unsqueeze(1) * self.center).sum(dim=2)
        return (product - self.center.square().sum(dim=1) / 2) / self.variance

    def _assign_clusters(self, features: Tensor, label: Tensor) -> Tensor:
        """Return the nearest of the own label's clusters, (B,)."""
        is_other_label = (self.table == 0).index_select(0, label)
        return self._compute_log_likelihoods(features).masked_fill(is_other_label, float("-inf")).argmax(dim=1)

    def describe(self) -> str:
        return f"{self.inner.describe()}, values of one label separated by clusters"


def find_labels_by_shared_attributes(correlation: Correlation) -> dict[tuple[int, ...], list[int]]:
    """Return each set of several attribute values that a label has, with the labels that have it.

    Raises:
        InputError: Two sets overlap and are not equal, so that their clusters could not be named.
    """
    rows = [tuple(values) for values in correlation.to_table()]
    labels_of_values: dict[tuple[int, ...], list[int]] = {}
    for label, values in enumerate(rows):
        if len(values) > 1:
            labels_of_values.setdefault(values, []).append(label)
        for other in rows:
            if other != values and set(other) & set(values):
                raise InputError(
                    f"label {label} has the attribute values {list(values)}, which overlap {list(other)} but are "
                    "not the same: let labels share all values or none, or take correlation=one-to-one"
                )
    return labels_of_values


def find_clusters(
    features: Tensor, label: Tensor, label_indices: Sequence[int], num_clusters: int, seed: int
) -> tuple[Tensor, float, Tensor]:
    """Cluster features, scaled to length 1, without the directions in which the labels differ.

    Args:
        features: (N, F) float64.
        label: (N,) long, one of ``label_indices`` for each row.
        label_indices: The labels that are clustered together.
        num_clusters: P.
        seed: Of k-means.

    Returns:
        Centres (P, F), the variance around them in one direction in which they differ, and sizes (P,).

    Raises:
        InputError: A label has fewer rows than clusters.
    """
    points = normalize(features, dim=1)
    label_means = []
    for value in label_indices:
        label_points = points[label == value]
        if len(label_points) < num_clusters:
            raise InputError(
                f"label {value} has {num_clusters} attribute values, but {len(label_points)} rows: give more rows"
            )
        # The mean of the centres, not of the rows: labels may have the values in different proportions.
        centers = _run_k_means(label_points, num_clusters, seed)[0] if len(label_indices) > 1 else label_points
        label_means.append(centers.mean(dim=0))
    label_directions = _compute_span_of_differences(torch.stack(label_means))
    points = points - (points @ label_directions.t()) @ label_directions
    center, member = _run_k_means(points, num_clusters, seed)
    directions = _compute_span_of_differences(center)
    squared_distance = ((points - center[member]) @ directions.t()).square().sum(dim=1)
    variance = squared_distance.mean() / max(len(directions), 1)
    return center, float(variance.clamp_min(MIN_VARIANCE)), torch.bincount(member, minlength=num_clusters)


def _run_k_means(points: Tensor, num_clusters: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return centres (num_clusters, F) and each row's cluster (N,)."""
    from sklearn.cluster import KMeans

    k_means = KMeans(num_clusters, n_init=10, random_state=seed).fit(points.numpy())
    return torch.from_numpy(k_means.cluster_centers_), torch.from_numpy(k_means.labels_).long()


def _compute_span_of_differences(points: Tensor) -> Tensor:
    """Return orthonormal directions (R, F) in which a few points (P, F) differ from each other, R <= P - 1."""
    _, strength, directions = torch.linalg.svd(points - points.mean(dim=0), full_matrices=False)
    return directions[strength > 1e-6 * points.norm(dim=1).max()]
