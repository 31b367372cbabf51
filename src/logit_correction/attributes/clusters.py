"""Another estimator's attributes, the several values of one label told apart by clusters (LC+; section 3.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator, Builder, Estimate
from logit_correction.attributes.heads import likely_attribute
from logit_correction.correlation import Correlation
from logit_correction.distributed import sum_over_processes
from logit_correction.errors import InputError, check_range
from logit_correction.functional import cell_sums
from logit_correction.registry import component
from logit_correction.seeds import StepRandomness, derive_seed
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, TrainingRows

Weights: TypeAlias = Literal["seo", "size", "none"]


class Clusters(AttributeEstimator):
    """Another estimator's class probabilities, divided among the several attribute values of a label (LC+).

    Where a label goes with several attribute values, class probabilities alone cannot tell them apart. The features
    that the inner estimator sees are clustered, see ``AttributeClusters``. The data source must know which labels go
    with which values.

    >>> from logit_correction import Clusters, CrossFitted
    >>> Clusters(CrossFitted(view="colour")).num_stages
    0
    """

    components = MappingProxyType({"attributes": "attributes"})

    def __init__(
        self,
        attributes: AttributeEstimator | str = "Online",
        weights: Weights | None = None,
        momentum: float | None = None,
    ) -> None:
        """Choose the inner estimator.

        Args:
            attributes: The inner estimator: ``Online`` with a head start, or ``CrossFitted`` on a view.
            weights: Weights of the clusters; see ``AttributeClusters``. None takes ``seo`` where the inner estimator
                trains on, else ``size``: where it is settled, no losses are seen before rows are assigned.
            momentum: Weight of the present batch in the moving average of the clusters' losses, in (0, 1]; None takes
                0.3. Concerns weights=seo.

        Raises:
            InputError: If the inner estimator has no features to cluster, or an option does not apply.
        """
        super().__init__()
        if attributes == "Online":  # alone it has no head start, which clusters need
            from logit_correction.attributes.online import Online

            attributes = Online(head_start_epochs=2, correlation="known")
        self.inner = component("attribute estimator", attributes, ESTIMATORS, AttributeEstimator)
        self.inner.keep_features()
        settled = self.inner.settled
        if weights is not None and weights not in get_args(Weights):
            raise InputError(f"weights {weights!r} is unknown: give seo, size or none")
        if weights == "seo" and settled:
            name = type(self.inner).__name__
            raise InputError(f"weights=seo needs losses, and estimates of {name} are settled before: give size or none")
        self.weights: Weights = weights or ("size" if settled else "seo")
        if momentum is not None and self.weights != "seo":
            raise InputError(f"momentum concerns weights=seo, not {self.weights}: leave it out")
        self.momentum = 0.3 if momentum is None else momentum
        check_range("momentum", self.momentum, 1e-6, 1)
        self.trains_network, self.num_stages, self.settled = self.inner.trains_network, self.inner.num_stages, settled

    def choose_correlation(self, info: DataInfo) -> Correlation:
        """Return the data source's table."""
        return info.chosen_correlation("known")

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Build the inner estimator and empty clusters."""
        super().attach(build, network, info, seed)
        self.inner.attach(build, network, info, seed)
        self.clusters = AttributeClusters(self.correlation, momentum=self.momentum, weights=self.weights, seed=seed)

    def setup(self, rows: TrainingRows) -> None:
        """Take in the training rows."""
        super().setup(rows)
        self.inner.setup(rows)

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Ask for the inner estimator's stage."""
        return self.inner.begin_stage(stage, outputs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Train the inner estimator alone."""
        return self.inner.step(batch, epoch, randomness)

    def collect(self, batch: Batch) -> Tensor:
        """Return what the inner estimator collects, features included."""
        return self.inner.collect(batch)

    def finish(self, outputs: Tensor | None) -> None:
        """Cluster the features of all rows."""
        self.inner.finish(outputs)
        probability, features, odds = self.inner.rows_to_cluster(outputs)
        self.clusters.fit(features, self.rows.label)
        if self.settled:
            label, posterior = self.rows.label, self._posterior(probability, features)
            own = probability.gather(1, label.unsqueeze(1)).squeeze(1)
            self.settle(likely_attribute(posterior, label, self.correlation, odds), own)

    def _posterior(self, probability: Tensor, features: Tensor) -> Tensor:
        """Return P(a | x), (N, K), a part at a time."""
        parts = zip(probability.split(4096), features.split(4096), strict=True)
        device = self.clusters.center.device
        found = [self.correlation.posterior(p.to(device), self.clusters.within(f.to(device))) for p, f in parts]
        return torch.cat(found).to(probability.device)

    def forward(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Estimate:
        """Divide the inner estimate of a label among its values (section 3.2.3)."""
        if self.settled:
            return super().forward(batch, epoch, randomness)
        estimate = self.inner(batch, epoch, randomness)
        with torch.no_grad():
            posterior = self.correlation.posterior(estimate.probability, self.clusters.within(estimate.features))
        return replace(estimate, posterior=posterior, attribute=posterior.argmax(dim=1))

    def learn_from_losses(self, estimate: Estimate, label: Tensor, losses: Tensor) -> None:
        """Take the losses into the clusters' weights."""
        if estimate.features is not None:
            self.clusters.update(estimate.features, label, losses)

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the inner estimator's logits."""
        return self.inner.predict(inputs)

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return the inner estimator's groups."""
        return self.inner.parameter_groups()

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return each row's estimated attribute and whether it is taken for minority."""
        if self.settled:
            return super().diagnose(batch)
        found = self.inner.collect(batch)
        probability, features = found[:, : self.info.num_labels], found[:, self.info.num_labels :]
        attribute = self._posterior(probability, features).argmax(dim=1)
        return self.diagnosis(batch.label, attribute, probability.gather(1, batch.label[:, None]).squeeze(1))

    def describe(self) -> str:
        """Say where the attributes come from."""
        return f"{self.inner.describe()}, values of one label told apart by clusters"


class AttributeClusters(nn.Module):
    """Splits labels that go with several attribute values into clusters, one for each value (section 3.2.3).

    The paper divides a label's probability p_y among its attribute values, P(a_j | x) = w_j / (w_1 + w_2) p_y(x), with
    the weights of the clusters of Seo, Lee and Han (CVPR 2022). These alone would choose the same value for every row,
    so here the share of value j is also weighed by how well the row's features z, scaled to length 1, fit its cluster,

        share_j(x, y) proportional to w_yj exp(-|z - c_j|^2 / (2 s^2)),

    c_j being its centre and s^2 the variance within clusters in the directions in which centres differ. Weights w_yj:

    - "seo": the mean loss of the label's rows in the cluster over their number N_yj, averaged over the steps (eq. 6
      of Seo et al.). Small and hard clusters weigh more: importance weights, not probabilities;
    - "size": N_yj itself, which makes the share the posterior given that the clusters are right;
    - "none": 1, so that a row belongs to the nearest centre.

    Labels that go with the very same values are clustered together, less the directions in which these labels differ,
    so that a cluster means the same value for all of them. No clustering knows which value a cluster stands for: the
    largest gets the value with the greatest weight in the correlation, so values of a set may be exchanged. A loss is
    none the worse for it; a comparison with true attributes must allow for it.

    >>> red_or_green_zeros = Correlation.from_table([[0, 1], [2]])
    >>> clusters = AttributeClusters(red_or_green_zeros)
    >>> features = torch.tensor([[5.0, 0.1], [3.0, 0.2], [4.0, 0.0], [0.1, 2.0], [1.0, 1.0]])
    >>> clusters.fit(features, torch.tensor([0, 0, 0, 0, 1]))
    >>> clusters.within(torch.tensor([[1.0, 0.0], [0.0, 7.0]])).round().tolist()
    [[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    """

    table: Tensor
    center: Tensor
    variance: Tensor
    size: Tensor
    loss: Tensor
    visited: Tensor

    def __init__(
        self, correlation: Correlation, *, momentum: float = 0.3, weights: Weights = "seo", seed: int = 0
    ) -> None:
        super().__init__()
        self.momentum, self.weights, self.seed = momentum, weights, seed
        self.sets = _shared_sets(correlation)
        num_labels, num_attributes = correlation.num_labels, correlation.num_attributes
        self.register_buffer("table", correlation.weights.float())
        self.register_buffer("center", torch.zeros(num_attributes, 0))  # (K, F), once features are known
        self.register_buffer("variance", torch.ones(num_attributes))
        self.register_buffer("size", torch.zeros(num_labels, num_attributes))
        self.register_buffer("loss", torch.ones(num_labels, num_attributes))
        self.register_buffer("visited", torch.zeros(num_labels, num_attributes, dtype=torch.bool))

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Take features of the size that was saved."""
        if f"{prefix}center" in state_dict:
            self.center = self.center.new_zeros(state_dict[f"{prefix}center"].shape)
        super()._load_from_state_dict(state_dict, prefix, *args)

    @torch.no_grad()
    def fit(self, features: Tensor, label: Tensor) -> None:
        """Find the clusters of features (N, F); every process must be given the same rows. Takes seconds."""
        features, label = features.detach().cpu().double(), label.cpu()
        if not bool(features.isfinite().all()):
            raise InputError("the features to be clustered are not finite: lower the biased network's learning rate")
        self.center = self.center.new_zeros(len(self.center), features.shape[1])
        self.loss.fill_(1.0)
        self.visited.zero_()
        for values, labels in self.sets.items():
            rows = torch.isin(label, torch.tensor(labels))
            seed = derive_seed(self.seed, "clusters", *values) % 2**32
            center, variance, size = find_clusters(features[rows], label[rows], labels, len(values), seed)
            # The largest cluster first, and the value that the table weighs most.
            by_size = size.argsort(descending=True, stable=True)
            by_weight = self.table[labels].sum(dim=0)[list(values)].argsort(descending=True, stable=True)
            places = torch.tensor(values)[by_weight.cpu()]
            self.center[places], self.variance[places] = center[by_size].to(self.center), variance
        own = label.to(self.table.device)
        parts = zip(features.split(4096), own.split(4096), strict=True)
        cluster = torch.cat([self._cluster(part.to(self.center), its_label) for part, its_label in parts])
        self.size.copy_(cell_sums(own, cluster, self.size.new_ones(len(own)), *self.size.shape)[1])

    @torch.no_grad()
    def within(self, features: Tensor) -> Tensor:
        """Return the share (B, L, K) of each attribute value among those of each label, for ``Correlation.posterior``.

        It is 0 outside the correlation's table, and sums to 1 over K.
        """
        weight = self.cluster_weights().log()
        shares = self._fit_of(features).unsqueeze(1) + weight.masked_fill(self.table == 0, float("-inf"))
        return shares.softmax(dim=2)

    @torch.no_grad()
    def update(self, features: Tensor, label: Tensor, loss: Tensor) -> None:
        """Take the losses (B,) of one batch, of all processes together, into the clusters' weights."""
        if self.weights != "seo":
            return
        sums, counts = cell_sums(label, self._cluster(features, label), loss.to(self.loss.dtype), *self.loss.shape)
        sums, counts = sum_over_processes(torch.stack((sums, counts))).unbind(0)
        seen, batch = counts > 0, sums / counts.clamp_min(1.0)
        moved = torch.where(self.visited, torch.lerp(self.loss, batch, self.momentum), batch)
        self.loss.copy_(torch.where(seen, moved, self.loss))
        self.visited |= seen

    @torch.no_grad()
    def cluster_weights(self) -> Tensor:
        """Return w, (L, K); 0 outside the table. With "seo" a cluster without losses takes its label's mean loss."""
        inside, size = self.table > 0, self.size.clamp_min(1.0)
        if self.weights == "none":
            return inside.to(self.size.dtype)
        if self.weights == "size":
            return size * inside
        count = self.visited.sum(dim=1, keepdim=True)
        mean = (self.loss * self.visited).sum(dim=1, keepdim=True) / count.clamp_min(1)
        loss = torch.where(self.visited, self.loss, torch.where(count > 0, mean, torch.ones_like(mean)))
        return loss.clamp_min(1e-12) / size * inside

    def _fit_of(self, features: Tensor) -> Tensor:
        """Logarithm of how well rows fit the clusters, (B, K), but for what all clusters of a set have in common."""
        points = normalize(features.to(self.center.dtype), dim=1)
        # -|z - c|^2 = 2 z.c - |c|^2 - |z|^2. The centres have nothing of the directions that were taken out.
        # No matrix product: under autocast it would round to half precision.
        product = (points.unsqueeze(1) * self.center).sum(dim=2)
        return (product - self.center.square().sum(dim=1) / 2) / self.variance

    def _cluster(self, features: Tensor, label: Tensor) -> Tensor:
        """The nearest of the own label's clusters, (B,)."""
        outside = (self.table == 0).index_select(0, label)
        return self._fit_of(features).masked_fill(outside, float("-inf")).argmax(dim=1)


def _shared_sets(correlation: Correlation) -> dict[tuple[int, ...], list[int]]:
    """Return the sets of several attribute values, each with the labels that go with it."""
    rows = [tuple(values) for values in correlation.to_table()]
    sets: dict[tuple[int, ...], list[int]] = {}
    for label, values in enumerate(rows):
        if len(values) > 1:
            sets.setdefault(values, []).append(label)
    for values, labels in sets.items():
        for other, its_values in enumerate(rows):
            if its_values != values and set(values) & set(its_values):
                raise InputError(
                    f"labels {labels[0]} and {other} go with the attribute values {list(values)} and "
                    f"{list(its_values)}, which overlap but are not the same, so clusters cannot be named: let them "
                    "share all values or none, or take correlation=one-to-one"
                )
    return sets


def find_clusters(
    features: Tensor, label: Tensor, labels: Sequence[int], number: int, seed: int
) -> tuple[Tensor, float, Tensor]:
    """Cluster features (N, F), scaled to length 1, less the directions in which the labels themselves differ.

    Returns:
        Centres (P, F), the variance of the points around them in one direction in which they differ, sizes (P,).
    """
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
