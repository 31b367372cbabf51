"""The paper's estimator: a biased and a robust network, both trained from the first step to the last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, nll_loss

from logit_correction.attributes.base import (
    AttributeEstimator,
    BatchEstimate,
    ParameterGroup,
    make_parameter_group,
)
from logit_correction.attributes.folds import apply_input_dropout, ramp_up_q
from logit_correction.errors import check_range
from logit_correction.functional import GCE_EXPONENT, check_gce_exponent, gce_from_cross_entropy
from logit_correction.networks.base import freeze_batch_norm_statistics
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, Inputs, Step, ViewInputs


class Online(AttributeEstimator):
    """A biased network trained along with the robust one (Liu et al., ICLR 2023): the paper's estimator.

    It learns the shortcut by generalized cross-entropy (eq. 3), which gives easy rows more weight. Its class
    probabilities estimate the attribute (eq. 11, 12): the majority of label j has attribute value j, or the values in
    the data source's table. Use it to reproduce the paper, and where the biased network does not memorize the rows.

    With ``head_start_epochs`` the biased network trains alone first, in a stage of its own. With ``epochs`` it stops
    training after so many epochs in all. If both are equal, the estimator is static: all estimates are made before
    the robust network starts.
    """

    keeps_features = False  # set by Clusters, which needs them
    features: Tensor  # (B, F), of the latest inputs, if ``keeps_features``

    def __init__(
        self,
        q: float = GCE_EXPONENT,
        q_ramp_up_epochs: float = 0.0,
        head_start_epochs: int = 0,
        epochs: float | None = None,
        input_dropout: float = 0.0,
        temperature: float = 1.0,
        learning_rate_scale: float = 1.0,
        schedule: Literal["same", "none"] = "same",
        schedule_epochs: float | None = None,
        weight_decay: float | None = None,
        loss_weight: float = 1.0,
        multiply_by_q: bool = False,
        correlation: Literal["one-to-one", "known"] = "one-to-one",
    ) -> None:
        """Choose how the biased network trains; the defaults are the paper's text, not its code (preset ``paper``).

        Args:
            q: Exponent of the generalized cross-entropy, in [0, 1]; the paper's 0.7 (0.8 on Waterbirds).
            q_ramp_up_epochs: Epochs over which q rises from 0. With the full q at once the network can stop predicting
                a label for good.
            head_start_epochs: Epochs in which the biased network trains alone, before the epochs of the run; 0 or more.
            epochs: Epochs after which the biased network stays as it is, the head start included; None trains it to the
                end, as the paper does.
            input_dropout: Probability with which each pixel or feature is hidden from the biased network while it
                trains, in [0, 1); a high one suits a shortcut that shows everywhere.
            temperature: Divides the biased logits before the softmax that estimates the attribute; above 1, the
                estimates are less certain. The published code has 0.1 on Waterbirds.
            learning_rate_scale: Learning rate of the biased network relative to the robust one's. The paper does not
                give it; the published code has 0.1.
            schedule: ``same`` follows the run's schedule, ``none`` keeps the biased network's learning rate constant.
            schedule_epochs: Epochs that the biased network's schedule takes, after which its learning rate stays at
                the end of the schedule; None takes those of the run. The published code has 1 on CivilComments.
            weight_decay: Weight decay of the biased network; None takes the run's. The published code has 0 on
                Waterbirds and CivilComments.
            loss_weight: Weight of the biased network's loss, 0 or more; with SGD a factor of its learning rate, with
                Adam almost without effect. The published code has 2 on Waterbirds and 0.1 on CivilComments.
            multiply_by_q: Multiply the generalized cross-entropy by q, as the published code does.
            correlation: ``one-to-one`` pairs label j with attribute value j; ``known`` uses the data source's
                category-level table (LC+).
        """
        super().__init__()
        check_gce_exponent(q)
        check_range("q_ramp_up_epochs", q_ramp_up_epochs, 0)
        check_range("head_start_epochs", head_start_epochs, 0)
        check_range("input_dropout", input_dropout, 0, 1, open_end=True)
        check_range("temperature", temperature, 1e-6)
        check_range("learning_rate_scale", learning_rate_scale, 0)
        check_range("loss_weight", loss_weight, 0)
        check_range("weight_decay", weight_decay, 0)
        check_range("schedule_epochs", schedule_epochs, 1e-6)
        check_range("epochs", epochs, max(head_start_epochs, 1e-6))
        self.q = q
        self.q_ramp_up_epochs = q_ramp_up_epochs
        self.input_dropout = input_dropout
        self.temperature = temperature
        self.loss_weight = loss_weight
        self.multiply_by_q = multiply_by_q
        self.correlation_option = correlation
        self.epochs: int = head_start_epochs  # of the estimator's own stage
        self.last_epoch = epochs
        self.num_stages = int(head_start_epochs > 0)
        self.is_static = epochs == head_start_epochs
        self.group_options = {
            "learning_rate_scale": learning_rate_scale,
            "schedule": None if schedule == "same" else schedule,
            "schedule_epochs": schedule_epochs,
            "weight_decay": weight_decay,
        }

    def build_networks(self, build: Callable[[str], Any]) -> None:
        self.network = build("biased network")

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the biased network's generalized cross-entropy (eq. 3).

        Args: as in ``AttributeEstimator.step``.
        """
        loss = self._compute_loss_and_log_probability(batch, epoch, randomness, torch.is_grad_enabled())[0]
        return Step(loss, {"loss_biased": loss.detach()})

    def collect_outputs(self, batch: Batch) -> Tensor:
        return self.compute_probability(self.predict_logits(batch.inputs))

    def assign_training(self, outputs: Tensor) -> Tensor:
        return self.correlation.posterior(outputs).argmax(dim=1)

    def predict_attributes(self, label: Tensor, inputs: ViewInputs) -> Tensor | None:
        """Return the attribute of the biased network's greatest posterior.

        Args: as in ``AttributeEstimator.predict_attributes``.
        """
        return self.correlation.posterior(self.compute_probability(self.compute_logits(inputs))).argmax(dim=1)

    def forward(self, batch: Batch, epoch: float, randomness: StepRandomness) -> BatchEstimate:
        """Train on a batch, unless training has stopped, and estimate the rows' attributes (eq. 3, 11, 12)."""
        if self.is_static:
            return super().forward(batch, epoch, randomness)
        total_epoch = epoch + self.epochs
        is_training = torch.is_grad_enabled() and (self.last_epoch is None or total_epoch < self.last_epoch)
        loss, log_probability = self._compute_loss_and_log_probability(batch, total_epoch, randomness, is_training)
        with torch.no_grad():
            probability = self.compute_probability(log_probability)
            posterior = self.correlation.posterior(probability)
            label_probability = probability.gather(1, batch.label.unsqueeze(1)).squeeze(1)
            return BatchEstimate(posterior.argmax(dim=1), posterior, label_probability, loss)

    def _compute_loss_and_log_probability(
        self, batch: Batch, epoch: float, randomness: StepRandomness, is_training: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the loss (0-d), and the log-softmax (B, L) that the attribute is estimated from."""
        drops_inputs = is_training and self.input_dropout > 0
        # Batch norm statistics are those of inputs without dropout, each counted once; they freeze with the network.
        freezes = drops_inputs or not is_training
        statistics = freeze_batch_norm_statistics(self.network) if freezes else nullcontext()
        with torch.set_grad_enabled(is_training), statistics:
            inputs = batch.inputs
            if drops_inputs:
                inputs = apply_input_dropout(inputs, self.input_dropout, randomness.next(batch.label.device))
            # One log-softmax serves the loss and the estimate.
            log_probability = self.predict_logits(inputs)
            loss = nll_loss(log_probability, batch.label, reduction="none")
            q = ramp_up_q(self.q, epoch, self.q_ramp_up_epochs)
            loss = self.loss_weight * gce_from_cross_entropy(loss, q, multiply_by_q=self.multiply_by_q).mean()
        if drops_inputs:
            # The attribute is estimated from the whole inputs.
            with torch.no_grad():
                log_probability = self.predict_logits(batch.inputs)
        return loss, log_probability.detach()

    def predict_logits(self, inputs: Inputs) -> Tensor:
        if not self.keeps_features:
            return log_softmax(self.network(inputs).float(), dim=1)
        features = self.network.features(inputs)
        # A copy: where a compiled network replays a CUDA graph, the robust network's pass would overwrite them.
        self.features = features.detach().to(torch.float32, copy=True)
        return log_softmax(self.network.head(features).float(), dim=1)

    def compute_probability(self, log_probability: Tensor) -> Tensor:
        """Return p(x), (B, L), at the temperature of the estimate, from the log-softmax (B, L)."""
        if self.temperature == 1:
            return log_probability.exp()
        return (log_probability / self.temperature).softmax(dim=1)

    def parameter_groups(self) -> list[ParameterGroup]:
        return [make_parameter_group(self.network, "biased_network", **self.group_options)]

    def describe(self) -> str:
        return "a biased network trained with the robust one"
