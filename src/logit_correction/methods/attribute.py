"""The biased network that learns the shortcut beside a robust one, and so tells the attribute of rows."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, interpolate, log_softmax, nll_loss, softmax

from logit_correction.correlation import Correlation
from logit_correction.functional import GceForm, generalize
from logit_correction.methods.base import StepRandomness, check_range
from logit_correction.methods.clusters import AttributeClusters, Weights
from logit_correction.networks.base import Network, feature_size, frozen_statistics
from logit_correction.types import Batch, DataInfo, InputError, Inputs, Stage, Step

#: How much of the inputs is hidden from a biased network where the shortcut is known to be spread over them.
SPREAD_DROPOUT = 0.9


@dataclass
class Estimate:
    """What a biased network says of a batch; all but the loss without a gradient.

    Attributes:
        loss: Its mean loss, 0-d.
        probability, posterior: p(x), (B, L), and P(a | x), (B, K).
        attribute: a_x, (B,), the attribute value of the greatest posterior.
        features: (B, F) where attribute values are told apart by clusters, else None.
    """

    loss: Tensor
    probability: Tensor
    posterior: Tensor
    attribute: Tensor
    features: Tensor | None


class BiasedNetwork(nn.Module):
    """A network trained with generalized cross-entropy beside a robust one, to tell the attribute.

    The options are those of ``LC`` with the same names. Where a label goes with several attribute values, the network's
    class probabilities alone cannot tell them apart. It then trains alone in a stage of its own, the head start; its
    features of all training rows are clustered (see ``AttributeClusters``); and from there on the clusters divide a
    label's probability among its attribute values.

    Args:
        network: The network.
        correlation: Which labels go with which attribute values.
        q: Exponent of the generalized cross-entropy.
        form: Its form.
        q_ramp_up_epochs: Epochs over which q rises from 0.
        epochs: Epochs after which the network stays as it is; None trains it to the end.
        head_start_epochs: Epochs in which it trains alone.
        input_dropout: Probability with which a pixel or feature is hidden while the network trains.
        pooling: If positive, the network sees pictures averaged down to so many cells a side.
        temperature: Divides the logits before the softmax that estimates the attribute.
        learning_rate_scale: Learning rate relative to the run's.
        schedule: ``none`` keeps the learning rate constant, ``same`` follows the run's schedule.
        cluster_weights: See ``AttributeClusters``.
        seed: Seed of the clusters.

    Raises:
        InputError: If an option is out of range, or clusters are needed and the network has no features.
    """

    def __init__(
        self,
        network: nn.Module,
        correlation: Correlation,
        *,
        q: float = 0.7,
        form: GceForm = "paper",
        q_ramp_up_epochs: float = 2.0,
        epochs: float | None = 2.0,
        head_start_epochs: float = 0.0,
        input_dropout: float = 0.0,
        pooling: int = 0,
        temperature: float = 1.0,
        learning_rate_scale: float = 1.0,
        schedule: Literal["same", "none"] = "none",
        cluster_weights: Weights = "seo",
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_range("q", q, 0, 1)
        check_range("q_ramp_up_epochs", q_ramp_up_epochs, 0)
        check_range("head_start_epochs", head_start_epochs, 0)
        check_range("biased_input_dropout", input_dropout, 0, 1, open_end=True)
        check_range("biased_pooling", pooling, 0)
        check_range("biased_temperature", temperature, 1e-6)
        check_range("biased_learning_rate_scale", learning_rate_scale, 0)
        if epochs is not None and not epochs >= head_start_epochs:
            raise InputError(
                f"biased_epochs is {epochs}, but the head start takes {head_start_epochs} epochs, in which the "
                "biased network trains alone: give at least as many, or a shorter head_start_epochs"
            )
        self.network, self.q, self.form, self.q_ramp_up_epochs = network, q, form, q_ramp_up_epochs
        self.epochs, self.head_start_epochs = epochs, head_start_epochs
        self.input_dropout, self.pooling, self.temperature = input_dropout, pooling, temperature
        self.correlation, self.learning_rate_scale, self.schedule = correlation, learning_rate_scale, schedule
        self.clusters: AttributeClusters | None = None
        #: Epochs of the stage in which the network trains alone; 0 where there is no such stage.
        self.first_epochs = 0
        if correlation.needs_within:
            if head_start_epochs <= 0:
                raise InputError(
                    "head_start_epochs is 0, but one label goes with several attribute values, which are told apart "
                    "after the biased network's head start: give 1 or more, or take correlation=one-to-one"
                )
            self.first_epochs = math.ceil(head_start_epochs)
            self.clusters = AttributeClusters(correlation, feature_size(network), weights=cluster_weights, seed=seed)

    def forward(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Estimate:
        """Train on a batch, ``epoch`` epochs after the network began, and estimate the rows' attributes."""
        loss, log_probability, features = self._train_on(batch, epoch, randomness)
        with torch.no_grad():
            return Estimate(loss, *self.estimate(log_probability, features), features)

    def estimate(self, log_probability: Tensor, features: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return p(x) (B, L), P(a|x) (B, K) and a_x (B,) from log-softmax (B, L) and, for clusters, features (B, F)."""
        if self.temperature == 1:
            probability = log_probability.exp()
        else:
            probability = softmax(log_probability / self.temperature, dim=1)
        within = self.clusters.within(features) if self.clusters is not None and features is not None else None
        posterior = self.correlation.posterior(probability, within)
        return probability, posterior, posterior.argmax(dim=1)

    def _train_on(
        self, batch: Batch, epoch: float, randomness: StepRandomness, alone: bool = False
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the loss, and the log-softmax (B, L) and features that the attribute is estimated from."""
        inputs = self._seen(batch.inputs)
        trains = torch.is_grad_enabled() and (alone or self.epochs is None or epoch < self.epochs)
        hides = trains and self.input_dropout > 0 and isinstance(inputs, Tensor)
        # Running statistics are of whole inputs, each counted once, and stay as they are with the rest of the network.
        statistics = frozen_statistics(self.network) if hides or not trains else nullcontext()
        with torch.set_grad_enabled(trains), statistics:
            shown = hide(inputs, self.input_dropout, randomness.next(batch.label.device)) if hides else inputs
            # One log-softmax serves the loss and the estimate.
            log_probability, features = self._run(shown)
            loss = nll_loss(log_probability, batch.label, reduction="none")
            loss = generalize(loss, ramped_q(self.q, epoch, self.q_ramp_up_epochs), self.form).mean()
        if hides:
            # The attribute is estimated from all that there is to see.
            with torch.no_grad():
                log_probability, features = self._run(inputs)
        return loss, log_probability.detach(), features

    def _run(self, inputs: Inputs) -> tuple[Tensor, Tensor | None]:
        """Return the log-softmax (B, L) and, for clusters, the detached features (B, F)."""
        if self.clusters is None:
            return log_softmax(self.network(inputs).float(), dim=1), None
        halves = cast(Network, self.network)
        features: Tensor = halves.features(inputs)
        return log_softmax(halves.head(features).float(), dim=1), features.detach().float()

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the log-softmax (B, L)."""
        return self._run(self._seen(inputs))[0]

    def stage(self) -> Stage:
        """Return the stage in which the network trains alone."""
        return Stage(epochs=self.first_epochs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Train alone on a batch."""
        loss = self._train_on(batch, epoch, randomness, alone=True)[0]
        return Step(loss, {"loss_biased": loss.detach()})

    def predict_rows(self, batch: Batch) -> Tensor:
        """Return the features of training rows and, in the last column, their labels, (B, F + 1)."""
        features = self._run(self._seen(batch.inputs))[1]
        assert features is not None
        return torch.cat([features, batch.label.unsqueeze(1).float()], dim=1)

    def finish(self, rows: Tensor) -> None:
        """Cluster the features of all training rows, (N, F + 1) of ``predict_rows``."""
        assert self.clusters is not None
        self.clusters.fit(rows[:, :-1], rows[:, -1].long())

    @property
    def ends_alone(self) -> bool:
        """Whether it stays as it is when the stage in which it trains alone is over."""
        return self.first_epochs > 0 and self.epochs is not None and self.epochs <= self.first_epochs

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return the optimiser group."""
        params = list(self.parameters())
        group = {"params": params, "name": "biased_network", "learning_rate_scale": self.learning_rate_scale}
        return [{**group, "schedule": "none"} if self.schedule == "none" else group]

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return each row's estimated attribute and whether it is taken for minority."""
        probability, _, attribute = self.estimate(*self._run(self._seen(batch.inputs)))
        return {
            "estimated_attribute": attribute,
            "minority": self.correlation.is_minority(batch.label, attribute),
            "label_probability": probability.gather(1, batch.label[:, None]).squeeze(1),
        }

    def check_epochs(self, epochs: int) -> None:
        """Refuse a training in which the robust network would never start.

        Raises:
            InputError: If the head start takes all the epochs.
        """
        if epochs <= max(self.head_start_epochs, self.first_epochs):
            raise InputError(
                f"--epochs {epochs}: the robust network starts after the biased network's head start of "
                f"{max(self.head_start_epochs, self.first_epochs):g} epochs; give more epochs, or lower "
                "--method.head_start_epochs"
            )

    def _seen(self, inputs: Inputs) -> Inputs:
        if not self.pooling:
            return inputs
        if not isinstance(inputs, Tensor):
            raise InputError("tokens cannot be pooled: give biased_pooling=0")
        return interpolate(adaptive_avg_pool2d(inputs, self.pooling), size=inputs.shape[-2:])


def ramped_q(q: float, epoch: float, length: float) -> float:
    """The exponent q after ``epoch`` epochs, risen from 0 over ``length``.

    >>> ramped_q(0.8, 0.5, 2.0), ramped_q(0.8, 5.0, 2.0), ramped_q(0.8, 0.0, 0.0)
    (0.2, 0.8, 0.8)
    """
    return q * min(1.0, epoch / length) if length else q


def hidden_share(chosen: float | None, info: DataInfo) -> float:
    """Return how much of the inputs to hide from a biased network.

    Args:
        chosen: What the user chose; None leaves it to the data source.
        info: Facts about the data.

    >>> hidden_share(None, DataInfo(num_labels=2, num_rows=9, input_shape=(4,), spread_shortcut=True))
    0.9
    """
    return chosen if chosen is not None else SPREAD_DROPOUT if info.spread_shortcut else 0.0


def hide(inputs: Inputs, probability: float, generator: torch.Generator) -> Tensor:
    """Hide places of the inputs, all channels of a pixel together, and scale what is left to the same mean.

    Args:
        inputs: (B, C, H, W) or (B, F).
        probability: Of each place, in [0, 1).
        generator: Source of the randomness.

    Raises:
        InputError: If the inputs are tokens.
    """
    if not isinstance(inputs, Tensor):
        raise InputError("tokens cannot be hidden from the biased network: give biased_input_dropout=0")
    shape = (len(inputs), 1, *inputs.shape[2:]) if inputs.dim() > 2 else inputs.shape
    kept = torch.rand(shape, generator=generator, device=inputs.device) >= probability
    return inputs * (kept / (1 - probability))
