"""Which of its several attribute values a row of a label has, found by clustering (section 3.2.3)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from logit_correction.attributes.clustering import find_clusters
from logit_correction.correlation import Correlation
from logit_correction.distributed import sum_over_processes
from logit_correction.errors import InputError, check_range
from logit_correction.functional import cell_sums
from logit_correction.seeds import derive_seed

Weights: TypeAlias = Literal["seo", "size", "none"]


class AttributeClusters(nn.Module):
    """Splits labels that go with several attribute values into clusters, one for each value (section 3.2.3).

    The paper divides a label's probability p_y among its attribute values, P(a_j | x) = w_j / (w_1 + w_2) p_y(x), with
    the weights of the clusters of Seo, Lee and Han (CVPR 2022). Weights of a cluster alone would choose the same value
    for every row, so here the share of value j is weighed by how well the row's features z fit its cluster,

        share_j(x, y) proportional to w_yj exp(-|z - c_j|^2 / (2 s^2)),

    z being the features scaled to length 1, c_j the centre of the cluster and s^2 the variance within the clusters, in
    the directions in which their centres differ. The weights w_yj are one of

    - "seo": the mean loss of the label's rows in the cluster over their number N_yj, averaged over the steps (eq. 6
      of Seo et al.). Small and hard clusters weigh more: importance weights, not probabilities;
    - "size": N_yj itself, which makes the share the posterior given that the clusters are right;
    - "none": 1, so that a row belongs to the nearest centre.

    It matters where clusters overlap. Where they are well apart, as colours are, all three choose the same value.

    Labels that go with the very same values are clustered together, so that a cluster means the same value for all of
    them. The directions in which these labels differ are taken out first: the clusters would tell the labels apart
    rather than the attribute otherwise. Which cluster stands for which value of a label no clustering can know. The
    largest one gets the value with the greatest weight in the correlation (the lowest one among equals), so values may
    be exchanged with one another within such a set. A loss is none the worse for it; a comparison with true attributes
    must allow for it.

    All state lies in buffers. Until ``fit`` the shares are the correlation's own weights.

    Args:
        correlation: Which labels go with which attribute values.
        feature_size: F.
        momentum: m, the weight of the present batch in the moving average, in (0, 1]; not that of the past.
        weights: See above.
        seed: Seed of the clustering.

    Raises:
        InputError: If an option is out of range, or labels share some of their several values but not all.

    >>> red_or_green_zeros = Correlation.from_table([[0, 1], [2]])
    >>> clusters = AttributeClusters(red_or_green_zeros, feature_size=2)
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
    fitted: Tensor

    def __init__(
        self,
        correlation: Correlation,
        feature_size: int,
        *,
        momentum: float = 0.3,
        weights: Weights = "seo",
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_range("momentum", momentum, 1e-6, 1)
        if weights not in get_args(Weights):
            raise InputError(f"weights {weights!r} is unknown: give seo, size or none")
        self.momentum, self.weights, self.seed = momentum, weights, seed
        self.sets = _shared_sets(correlation)
        num_labels, num_attributes = correlation.num_labels, correlation.num_attributes
        self.register_buffer("table", correlation.weights.float())
        self.register_buffer("center", torch.zeros(num_attributes, feature_size))
        self.register_buffer("variance", torch.ones(num_attributes))
        self.register_buffer("size", torch.zeros(num_labels, num_attributes))
        self.register_buffer("loss", torch.ones(num_labels, num_attributes))
        self.register_buffer("visited", torch.zeros(num_labels, num_attributes, dtype=torch.bool))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Take features of the size that was saved, which is not known before the features of a view are."""
        center = state_dict.get(f"{prefix}center")
        if center is not None:
            self.resize(center.shape[1])
        super()._load_from_state_dict(state_dict, prefix, *args)

    def resize(self, feature_size: int) -> None:
        """Take features of another size, before ``fit``."""
        self.center = self.center.new_zeros(len(self.center), feature_size)

    @torch.no_grad()
    def fit(self, features: Tensor, label: Tensor) -> None:
        """Find the clusters; every process must be given the same rows. Takes seconds, so not for a training step.

        Args:
            features: (N, F).
            label: (N,) long.

        Raises:
            InputError: If features are not finite, or a label has fewer rows than attribute values.
            ValueError: If a shape does not fit.
        """
        if features.dim() != 2 or features.shape[1] != self.center.shape[1] or len(label) != len(features):
            shapes = f"{tuple(features.shape)} and {tuple(label.shape)}"
            raise ValueError(f"features need the shape (N, {self.center.shape[1]}) and label (N,), not {shapes}.")
        features, label = features.detach().cpu().double(), label.cpu()
        self.loss.fill_(1.0)
        self.visited.zero_()
        for values, labels in self.sets.items():
            rows = torch.isin(label, torch.tensor(labels))
            self._fit_set(list(values), labels, features[rows], label[rows])
        self.fitted.fill_(True)
        own = label.to(self.table.device)
        parts = zip(features.split(4096), own.split(4096), strict=True)
        cluster = torch.cat([self._cluster(part.to(self.center), its_label) for part, its_label in parts])
        self.size.copy_(cell_sums(own, cluster, self.size.new_ones(len(own)), *self.size.shape)[1])

    def _fit_set(self, values: list[int], labels: list[int], features: Tensor, label: Tensor) -> None:
        """Fit the centres and the variance of one set of attribute values from the rows of its labels."""
        seed = derive_seed(self.seed, "clusters", *values) % 2**32
        found = find_clusters(features, label, labels, len(values), seed)
        # The largest cluster first, and the value that the table weighs most.
        by_size = found.size.argsort(descending=True, stable=True)
        by_weight = self.table[labels].sum(dim=0)[values].argsort(descending=True, stable=True)
        places = torch.tensor(values)[by_weight.cpu()]
        self.center[places] = found.center[by_size].to(self.center)
        self.variance[places] = found.variance

    @torch.no_grad()
    def within(self, features: Tensor) -> Tensor:
        """Return the share of each attribute value among those of each label, for ``Correlation.posterior``.

        Args:
            features: (B, F).

        Returns:
            (B, L, K), 0 outside the correlation's table, summing to 1 over K.
        """
        weight = torch.where(self.fitted, self.cluster_weights(), self.table).log()
        shares = self._fit_of(features).unsqueeze(1) + weight.masked_fill(self.table == 0, float("-inf"))
        return shares.softmax(dim=2)

    @torch.no_grad()
    def update(self, features: Tensor, label: Tensor, loss: Tensor) -> None:
        """Take the losses of one batch, of all processes together, into the clusters' weights.

        Args:
            features: (B, F).
            label: (B,) long.
            loss: (B,) loss of each row.
        """
        if self.weights != "seo":
            return
        sums, counts = cell_sums(label, self._cluster(features, label), loss.to(self.loss.dtype), *self.loss.shape)
        sums, counts = sum_over_processes(torch.stack((sums, counts))).unbind(0)
        seen, batch = (counts > 0) & self.fitted, sums / counts.clamp_min(1.0)
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
    """The sets of several attribute values, each with the labels that go with it.

    Raises:
        InputError: If a set shares a value with another label's but is not the same.
    """
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
