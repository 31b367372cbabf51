"""The paper's estimator: a biased and a robust network, both trained from the first step to the last."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, nll_loss, softmax

from logit_correction.attributes.base import AttributeEstimator, BatchEstimate, NetworkBuilder, compute_outputs
from logit_correction.attributes.folds import apply_input_dropout, ramp_up_q
from logit_correction.errors import check_range
from logit_correction.functional import GCE_EXPONENT, check_gce_exponent, gce_from_cross_entropy
from logit_correction.networks.base import Network, freeze_batch_norm_statistics
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, ViewInputs


class Online(AttributeEstimator):
    """A biased network trained with the robust one.

    It learns the shortcut by generalized cross-entropy (eq. 3), which trusts easy rows. Its class probabilities
    estimate the attribute (eq. 11, 12): the majority of label j has attribute value j, or the values in the data
    source's table.

    With ``head_start_epochs`` the biased network trains alone first, in a stage of its own. With ``epochs`` it stops
    training after so many epochs in all. If both are equal, the estimates are settled before the robust network starts.
    """

    keeps_features = False
    features: Tensor  # (B, F) of the inputs that were seen last, where they are kept

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
            q_ramp_up_epochs: Epochs over which q rises from 0. With the full q at once a label can be lost for good.
            head_start_epochs: Epochs in which the biased network trains alone, before the epochs of the run.
            epochs: Epochs after which the biased network stays as it is, the head start included; None trains it to the
                end, as the paper does.
            input_dropout: Probability with which each pixel or feature is hidden from the biased network while it
                trains, in [0, 1); a high one suits a shortcut that shows everywhere.
            temperature: Divides the biased logits before the softmax that estimates the attribute.
            learning_rate_scale: Learning rate of the biased network relative to the robust one's. The paper does not
                give it; the published code has 0.1.
            schedule: ``same`` follows the run's schedule, ``none`` keeps the biased network's learning rate constant.
            schedule_epochs: Epochs that the biased network's schedule takes, after which its learning rate stays at
                the end of the schedule; None takes those of the run. The published code has 1 on CivilComments.
            weight_decay: Weight decay of the biased network; None takes the run's. The published code has 0 on
                Waterbirds and CivilComments.
            loss_weight: Weight of the biased network's loss; with SGD a factor of its learning rate, with Adam of next
                to no effect. The published code has 2 on Waterbirds and 0.1 on CivilComments.
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
        if weight_decay is not None:
            check_range("weight_decay", weight_decay, 0)
        if schedule_epochs is not None:
            check_range("schedule_epochs", schedule_epochs, 1e-6)
        if epochs is not None:
            check_range("epochs", epochs, max(head_start_epochs, 1e-6))
        self.q, self.q_ramp_up_epochs = q, q_ramp_up_epochs
        self.head_start_epochs, self.epochs = head_start_epochs, epochs
        self.input_dropout, self.temperature = input_dropout, temperature
        self.learning_rate_scale = learning_rate_scale
        self.schedule = schedule
        self.schedule_epochs = schedule_epochs
        self.weight_decay = weight_decay
        self.loss_weight = loss_weight
        self.multiply_by_q = multiply_by_q
        self.choice = correlation
        self.num_stages = int(head_start_epochs > 0)
        self.is_static = epochs is not None and epochs == head_start_epochs

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self.correlation = info.get_correlation(self.choice)
        self.network = build(network, "biased network")

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        return Stage(epochs=self.head_start_epochs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        loss = self._train_on(batch, epoch, randomness, torch.is_grad_enabled())[0]
        return Step(loss, {"loss_biased": loss.detach()})

    def collect_outputs(self, batch: Batch) -> Tensor:
        return self.probability(self.predict(batch.inputs))

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        assert outputs is not None
        return self.correlation.posterior(outputs).argmax(dim=1)

    def predict_attributes(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        found = compute_outputs(self.predict, rows, self.row_attribute.device)
        return self.correlation.posterior(self.probability(found)).argmax(dim=1)

    def forward(self, batch: Batch, epoch: float, randomness: StepRandomness) -> BatchEstimate:
        """Train on a batch, unless training has stopped, and estimate the rows' attributes (eq. 3, 11, 12)."""
        if self.is_static:
            return super().forward(batch, epoch, randomness)
        age = epoch + self.head_start_epochs
        trains = torch.is_grad_enabled() and (self.epochs is None or age < self.epochs)
        loss, log_probability = self._train_on(batch, age, randomness, trains)
        with torch.no_grad():
            probability = self.probability(log_probability)
            posterior = self.correlation.posterior(probability)
            own = probability.gather(1, batch.label.unsqueeze(1)).squeeze(1)
            return BatchEstimate(posterior.argmax(dim=1), posterior, own, loss)

    def _train_on(self, batch: Batch, epoch: float, randomness: StepRandomness, trains: bool) -> tuple[Tensor, Tensor]:
        """Return the loss, and the log-softmax (B, L) that the attribute is estimated from."""
        hides = trains and self.input_dropout > 0
        # Running statistics are of whole inputs, each counted once, and stay as they are with the rest of the network.
        statistics = freeze_batch_norm_statistics(self.network) if hides or not trains else nullcontext()
        with torch.set_grad_enabled(trains), statistics:
            inputs = batch.inputs
            shown = (
                apply_input_dropout(inputs, self.input_dropout, randomness.next(batch.label.device))
                if hides
                else inputs
            )
            # One log-softmax serves the loss and the estimate.
            log_probability = self.predict(shown)
            loss = nll_loss(log_probability, batch.label, reduction="none")
            q = ramp_up_q(self.q, epoch, self.q_ramp_up_epochs)
            loss = gce_from_cross_entropy(loss, q, multiply_by_q=self.multiply_by_q).mean()
            if self.loss_weight != 1:
                loss = self.loss_weight * loss
        if hides:
            # The attribute is estimated from all that there is to see.
            with torch.no_grad():
                log_probability = self.predict(inputs)
        return loss, log_probability.detach()

    def predict(self, inputs: Inputs) -> Tensor:
        if not self.keeps_features:
            return log_softmax(self.network(inputs).float(), dim=1)
        halves = cast(Network, self.network)
        features: Tensor = halves.features(inputs)
        # A copy: where a compiled network replays a CUDA graph, the robust network's pass would overwrite them.
        self.features = features.detach().to(torch.float32, copy=True)
        return log_softmax(halves.head(features).float(), dim=1)

    def probability(self, log_probability: Tensor) -> Tensor:
        """Return p(x), (B, L), at the temperature of the estimate."""
        if self.temperature == 1:
            return log_probability.exp()
        return softmax(log_probability / self.temperature, dim=1)

    def parameter_groups(self) -> list[dict[str, object]]:
        group: dict[str, object] = {"params": list(self.network.parameters()), "name": "biased_network"}
        group["learning_rate_scale"] = self.learning_rate_scale
        if self.schedule == "none":
            group["schedule"] = "none"
        if self.schedule_epochs is not None:
            group["schedule_epochs"] = self.schedule_epochs
        if self.weight_decay is not None:
            group["weight_decay"] = self.weight_decay
        return [group]

    def describe(self) -> str:
        return "a biased network trained with the robust one"
