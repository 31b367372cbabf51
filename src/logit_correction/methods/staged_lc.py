"""Staged logit correction: cross-fitted biased networks first, then logit correction with a counted prior."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from logit_correction.functional import independent_partner, joint_prior, logit_corrected_cross_entropy, mix
from logit_correction.group_prior import GroupPrior
from logit_correction.methods.attribute import hidden_share
from logit_correction.methods.base import check_range
from logit_correction.methods.grouped import GroupedAlgorithm
from logit_correction.networks.base import check_mixing_place, mixing_place
from logit_correction.types import Batch, DataInfo, NetworkFactory, Step


class StagedLC(GroupedAlgorithm):
    """Logit correction in two stages; our own, beyond the paper. Reads no attribute but with ``groups=true``.

    Stage 1 trains biased networks by cross-fitting, see ``CrossFitted``. The estimated attribute a_x of a row is the
    argmax of its posterior from the held-out softmaxes (eq. 11, 12 of Liu et al. 2023), and the group prior is counted
    once: P(y, a) proportional to the number of rows with label y and a_x = a, plus ``smoothing``.

    Stage 2 trains the network that predicts with the corrected loss (eq. 7) on samples

        x' = (1 - lambda) x_j + lambda x_i,    lambda ~ U(0, mixup_limit),

    with the label y_j and the correction log P(., a_j) of the greater part. The partner i is drawn from the batch
    independently of j, whatever its label: so it says nothing of y_j, P(y | a_j) stays what it was, and the counted
    prior stays right. A partner of the same label would tell the label, and change it.

    With ``groups=true`` there is no stage 1, and the training attributes take the place of the estimated ones.
    """

    group_prior: GroupPrior

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        groups: Literal["cross-fitted", "true"] = "cross-fitted",
        biased_network: NetworkFactory | None = None,
        num_splits: int = 2,
        biased_epochs: int = 3,
        biased_learning_rate: float | None = None,
        biased_schedule: Literal["same", "none"] = "none",
        q: float = 0.7,
        gce_form: Literal["paper", "weighted"] = "paper",
        q_ramp_up_epochs: float = 2.0,
        biased_input_dropout: float | None = None,
        posterior: Literal["hard", "soft"] = "hard",
        smoothing: float = 0.3,
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
            groups: ``cross-fitted``, or ``true`` for the training attributes, which are then read; the options of the
                biased networks concern cross-fitted groups.
            biased_network: Builds the biased networks; by default the same kind as ``network``.
            num_splits: S, the number of random splits into two halves; 2 S biased networks are trained.
            biased_epochs: Epochs of stage 1.
            biased_learning_rate: Learning rate of stage 1; None takes the run's.
            biased_schedule: ``none`` keeps it constant, ``same`` follows the run's schedule.
            q: Exponent of the generalized cross-entropy, in [0, 1].
            gce_form: ``paper`` or ``weighted``.
            q_ramp_up_epochs: Epochs over which q rises from 0.
            biased_input_dropout: Probability with which each pixel (each feature) is hidden from the biased networks
                while they train, in [0, 1): the belief that the shortcut is spread over the input. None takes 0.9 where
                the data source says so, else 0.
            posterior: ``hard`` takes a row's attribute to be the most probable one. ``soft`` corrects by the logarithm
                of the sum over a of P(a | x) P(y | a), and counts P(y, a) as the mean of the posteriors.
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
        check_range("biased_epochs", biased_epochs, 1)
        check_range("smoothing", smoothing, 1e-6)
        check_range("strength", strength, 0)
        check_range("mixup_limit", mixup_limit, 0, 1)
        super().__init__(network, info, groups=groups, correlation=correlation, smoothing=smoothing, seed=seed)
        if groups != "true":
            self.cross_fit(
                biased_network or network,
                num_splits,
                biased_epochs,
                learning_rate=biased_learning_rate,
                schedule=biased_schedule,
                q=q,
                form=gce_form,
                q_ramp_up_epochs=q_ramp_up_epochs,
                input_dropout=hidden_share(biased_input_dropout, info),
                keep_posterior=posterior == "soft",
            )
        self.group_prior = self.fixed_prior()
        self.strength, self.mixup_limit, self.mixup_on = strength, mixup_limit, mixup_on
        check_mixing_place(self.network, mixup_on, tokens=info.tokens and mixup_limit > 0)

    @property
    def _posterior(self) -> Tensor | None:
        """P(a | x) of all training rows, (N, K), with soft posteriors."""
        return None if self.cross_fitted is None else self.cross_fitted.posterior

    def count_groups(self, label: Tensor, attribute: Tensor) -> None:
        """Count the group prior, with soft posteriors as the mean of them."""
        if self._posterior is None:
            return super().count_groups(label, attribute)
        posterior = self._posterior.cpu()
        table = len(label) * joint_prior(label, posterior, self.info.num_labels) + self.smoothing
        self.group_prior.set_table(table / table.sum())

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Return the biased networks' loss, then the corrected loss on mixed samples."""
        if self.preparing:
            return self.prepare(batch, epoch)
        correction = self.strength * self._log_prior(batch)
        generator = self.randomness.next(batch.label.device)
        loss = logit_corrected_cross_entropy(self._mixed_logits(batch, generator), batch.label, correction, "mean")
        return Step(loss, {"loss_robust": loss.detach()})

    def _log_prior(self, batch: Batch) -> Tensor:
        """Return log P(y, a_x), or log P(y | x) under the soft posterior, (B, L)."""
        if self._posterior is None:
            return self.group_prior.log(self.group_prior.for_attribute(self.row_attribute(batch)))
        posterior = self._posterior.index_select(0, batch.index)
        conditional = self.group_prior.table / self.group_prior.table.sum(dim=0)
        return (posterior.unsqueeze(1) * conditional).sum(dim=2).log()

    def _mixed_logits(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """Return logits (B, L) of rows mixed with partners that are drawn whatever they are."""
        if self.mixup_limit == 0:
            return self.network(batch.inputs)
        values, network = mixing_place(self.network, batch.inputs, self.mixup_on)
        partner, own = independent_partner(len(batch.label), self.mixup_limit, generator, batch.label.device)
        return network(mix(values, partner, own))
