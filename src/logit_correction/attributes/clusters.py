"""Another estimator's attributes, the several values of one label told apart by clusters (LC+)."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import torch
from torch import Tensor

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.attribute_clusters import AttributeClusters, Weights
from logit_correction.attributes.base import AttributeEstimator, Builder, Estimate
from logit_correction.attributes.view_heads import likely_attribute
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError
from logit_correction.registry import component
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, TrainingRows


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
        if weights == "seo" and settled:
            name = type(self.inner).__name__
            raise InputError(f"weights=seo needs losses, and estimates of {name} are settled before: give size or none")
        self.weights: Weights = weights or ("size" if settled else "seo")
        if momentum is not None and self.weights != "seo":
            raise InputError(f"momentum concerns weights=seo, not {self.weights}: leave it out")
        self.momentum = 0.3 if momentum is None else momentum
        self.trains_network, self.num_stages = self.inner.trains_network, self.inner.num_stages
        self.settled = self.inner.settled

    def choose_correlation(self, info: DataInfo) -> Correlation:
        """Return the data source's table."""
        return info.chosen_correlation("known")

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Build the inner estimator and empty clusters."""
        super().attach(build, network, info, seed)
        self.inner.attach(build, network, info, seed)
        size = self.inner.feature_size()
        self.clusters = AttributeClusters(
            self.correlation, size, momentum=self.momentum, weights=self.weights, seed=seed
        )

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
        if len(self.clusters.center[0]) != features.shape[1]:
            self.clusters.resize(features.shape[1])
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
