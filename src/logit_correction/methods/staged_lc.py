"""Staged logit correction: cross-fitted biased networks first, then logit correction with a counted prior."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from logit_correction.functional import count_prior, logit_corrected_cross_entropy, mix
from logit_correction.group_prior import GroupPrior
from logit_correction.methods.attribute import CrossFitted, choose_correlation
from logit_correction.methods.base import StagedAlgorithm, check_range
from logit_correction.networks.base import check_mixing_place, mixing_place
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step


class StagedLC(StagedAlgorithm):
    """Logit correction in two stages; our own, beyond the paper. Reads no attribute.

    Stage 1 trains biased networks by cross-fitting, see ``CrossFitted``. The estimated attribute a_x of a row is the
    argmax of its posterior from the held-out softmaxes (eq. 11, 12 of Liu et al. 2023), and the group prior is counted
    once: P(y, a) proportional to the number of rows with label y and a_x = a, plus ``smoothing``.

    Stage 2 trains the network that predicts with the corrected loss (eq. 7) on samples

        x' = (1 - lambda) x_j + lambda x_i,    lambda ~ U(0, mixup_limit),

    with the label y_j and the correction log P(., a_j) of the greater part. The partner i is drawn from the batch
    independently of j, whatever its label: so it says nothing of y_j, P(y | a_j) stays what it was, and the counted
    prior stays right. A partner of the same label would tell the label, and change it.
    """

    group_prior: GroupPrior
    attribute: Tensor
    label_probability: Tensor

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        biased_network: NetworkFactory | None = None,
        num_splits: int = 4,
        biased_epochs: int = 3,
        biased_learning_rate: float | None = 3e-3,
        biased_schedule: Literal["same", "none"] = "none",
        q: float = 0.7,
        gce_form: Literal["paper", "weighted"] = "paper",
        q_ramp_up_epochs: float = 0.0,
        biased_input_dropout: float = 0.0,
        smoothing: float = 3.0,
        strength: float = 1.0,
        correlation: Literal["one-to-one", "known"] = "one-to-one",
        mixup_limit: float = 0.3,
        mixup_on: Literal["inputs", "features"] = "inputs",
        seed: int = 0,
    ) -> None:
        """Build all networks.

        Args:
            network: Builds the network that predicts.
            info: Sizes and names of the data.
            biased_network: Builds the biased networks; by default the same kind as ``network``.
            num_splits: S, the number of random splits into two halves; 2 S biased networks are trained.
            biased_epochs: Epochs of stage 1.
            biased_learning_rate: Learning rate of stage 1; None takes the run's.
            biased_schedule: ``none`` keeps it constant, ``same`` follows the run's schedule.
            q: Exponent of the generalized cross-entropy, in [0, 1].
            gce_form: ``paper`` or ``weighted``.
            q_ramp_up_epochs: Epochs over which q rises from 0.
            biased_input_dropout: Probability with which each pixel (each feature) is hidden from the biased networks
                while they train, in [0, 1): the belief that the shortcut is spread over the input.
            smoothing: Added to the count of each group; positive.
            strength: Factor of log P.
            correlation: ``one-to-one`` takes label j to go with attribute value j; ``known`` uses the data source's
                category-level table.
            mixup_limit: The greatest weight lambda of the partner, in [0, 1]; 0 mixes nothing.
            mixup_on: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
            seed: Seed of the initial weights, the splits and everything random in a step.

        Raises:
            InputError: If an option is out of range or does not fit the data.
        """
        check_range("num_splits", num_splits, 1)
        check_range("biased_epochs", biased_epochs, 1)
        check_range("smoothing", smoothing, 1e-6)
        check_range("strength", strength, 0)
        check_range("mixup_limit", mixup_limit, 0, 1)
        super().__init__(network, info, seed=seed)
        build = biased_network or network
        self.biased = CrossFitted(
            [self.build(build, f"biased network {number}") for number in range(2 * num_splits)],
            info.num_rows,
            q=q,
            form=gce_form,
            q_ramp_up_epochs=q_ramp_up_epochs,
            input_dropout=biased_input_dropout,
            seed=seed,
        )
        self.correlation = choose_correlation(correlation, info)
        num_attributes = self.correlation.num_attributes
        self.group_prior = GroupPrior(info.num_labels, num_attributes, estimator="joint", averaging="fixed", floor=0.0)
        self.register_buffer("attribute", torch.zeros(info.num_rows, dtype=torch.long))
        self.register_buffer("label_probability", torch.zeros(info.num_rows))
        self.biased_epochs, self.biased_learning_rate = biased_epochs, biased_learning_rate
        self.biased_schedule, self.smoothing, self.strength = biased_schedule, smoothing, strength
        self.mixup_limit, self.mixup_on = mixup_limit, mixup_on
        check_mixing_place(self.network, mixup_on)

    def begin_stage(self, stage: int, train_logits: Tensor | None) -> Stage:
        """Ask for the epochs of stage 1; at stage 2 estimate the attributes and count the prior.

        Args:
            stage: 0 or 1.
            train_logits: At stage 1 what ``predict_rows`` returned of all rows, (N, L + 1).
        """
        super().begin_stage(stage, train_logits)
        if stage == 0:
            return Stage(epochs=self.biased_epochs, learning_rate=self.biased_learning_rate)
        assert train_logits is not None
        probability, label = train_logits[:, :-1], train_logits[:, -1].long()
        attribute = self.correlation.posterior(probability).argmax(dim=1)
        self.attribute.copy_(attribute)
        self.label_probability.copy_(probability.gather(1, label.unsqueeze(1)).squeeze(1))
        sizes = self.group_prior.num_labels, self.group_prior.num_attributes
        self.group_prior.set_table(count_prior(label, attribute, *sizes, smoothing=self.smoothing))
        return Stage()

    def predict_rows(self, batch: Batch) -> Tensor:
        """Return the held-out class probabilities of training rows and, in the last column, their labels."""
        return torch.cat([self.biased.held_out(batch), batch.label.unsqueeze(1).float()], dim=1)

    def predict(self, inputs: Inputs) -> Tensor:
        """Return logits (B, L), in the first stage those of all biased networks together."""
        return self.network(inputs) if self.stage else self.biased.predict(inputs)

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Return the biased networks' loss, then the corrected loss on mixed samples."""
        generator = self.randomness.next(batch.label.device)
        if self.stage == 0:
            loss = self.biased(batch, epoch, generator)
            return Step(loss, {"loss_biased": loss.detach() / len(self.biased.networks)})
        attribute = self.attribute.index_select(0, batch.index)
        correction = self.strength * self.group_prior.log(self.group_prior.for_attribute(attribute))
        loss = logit_corrected_cross_entropy(self._mixed_logits(batch, generator), batch.label, correction, "mean")
        return Step(loss, {"loss_robust": loss.detach()})

    def _mixed_logits(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """Return logits (B, L) of rows mixed with partners that are drawn whatever they are."""
        if self.mixup_limit == 0:
            return self.network(batch.inputs)
        values, network = mixing_place(self.network, batch.inputs, self.mixup_on)
        size, device = len(batch.label), batch.label.device
        partner = torch.randint(size, (size,), generator=generator, device=generator.device)
        share = self.mixup_limit * torch.rand(size, generator=generator, device=generator.device)
        own = (1 - share).to(device, non_blocking=True)
        return network(mix(values, partner.to(device, non_blocking=True), own))

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return one group for each biased network in stage 1, the robust network's in stage 2."""
        if self.stage:
            return super().parameter_groups()
        groups: list[dict[str, object]] = [
            {"params": list(network.parameters()), "name": f"biased_network_{number}"}
            for number, network in enumerate(self.biased.networks)
        ]
        if self.biased_schedule == "none":
            groups = [{**group, "schedule": "none"} for group in groups]
        return groups

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return each row's estimated attribute and whether it is taken for minority; nothing in stage 1."""
        if self.stage == 0:
            return {}
        attribute = self.attribute.index_select(0, batch.index)
        return {
            "estimated_attribute": attribute,
            "minority": self.correlation.is_minority(batch.label, attribute),
            "label_probability": self.label_probability.index_select(0, batch.index),
        }
