"""Fisher-consistent reweighting by 1 / P(y, a), with which Liu et al. 2023 compare logit correction (Appendix)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.functional import count_prior
from logit_correction.group_prior import GroupPrior
from logit_correction.methods.attribute import BiasedNetwork, choose_correlation
from logit_correction.methods.base import Algorithm, check_range
from logit_correction.types import Batch, DataInfo, InputError, NetworkFactory, Stage, Step


class Reweighting(Algorithm):
    """Cross-entropy with the weight 1 / (G P(y, a)) on a row of group (y, a), G being the number of groups.

    Its mean over rows drawn from the training distribution is the mean of the group risks, so its minimizer is the
    maximizer of group-balanced accuracy (eq. 2 and 4 of Liu et al. 2023), as that of logit correction is; only what
    happens on the way there differs.

    With ``groups=estimated`` a biased network at the side tells attribute and prior, exactly as in ``LC`` and with the
    same options and defaults, and no attribute label is read; the weight is then 1 / (G (P + floor)). With
    ``groups=true`` the training attributes are read and the prior is counted. A run lets the method count through
    ``observe_rows``; in a loop of your own call it once before stage 0.
    """

    group_prior: GroupPrior

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        groups: Literal["estimated", "true"] = "estimated",
        biased_network: NetworkFactory | None = None,
        q: float = 0.7,
        q_ramp_up_epochs: float = 2.0,
        biased_epochs: float | None = 2.0,
        head_start_epochs: float = 2.0,
        biased_input_dropout: float = 0.9,
        momentum: float = 0.99,
        floor: float = 5e-5,
        correlation: Literal["one-to-one", "known"] = "one-to-one",
        seed: int = 0,
    ) -> None:
        """Build the network, and with estimated groups the biased one.

        Args:
            network: Builds the network that predicts.
            info: Sizes and names of the data.
            groups: ``estimated`` or ``true``; the options below concern estimated groups.
            biased_network: Builds the biased network; by default the same kind as ``network``.
            q: Exponent of the generalized cross-entropy, in [0, 1].
            q_ramp_up_epochs: Epochs over which q rises from 0.
            biased_epochs: Epochs after which the biased network stays as it is; None trains it to the end.
            head_start_epochs: Epochs in which the biased network trains alone.
            biased_input_dropout: Probability with which a pixel or feature is hidden from the biased network while it
                trains.
            momentum: Of the prior's moving average, in [0, 1).
            floor: Added to the estimated prior; bounds the weights by 1 / (G floor).
            correlation: ``one-to-one``, or ``known`` for the data source's table.
            seed: Seed of the initial weights and of everything random in a step.

        Raises:
            InputError: If an option is out of range or does not fit the data.
        """
        check_range("momentum", momentum, 0, 1, open_end=True)
        check_range("floor", floor, 0)
        super().__init__(network, info, seed=seed)
        self.needs_attributes = groups == "true"
        self.biased: BiasedNetwork | None = None
        self.correlation = choose_correlation("one-to-one" if self.needs_attributes else correlation, info)
        if self.needs_attributes:
            self.group_prior = GroupPrior(
                info.num_labels, info.num_attributes, estimator="joint", averaging="fixed", floor=0.0
            )
            self._observed = False
            return
        self.biased = BiasedNetwork(
            self.build(biased_network or network, "biased network"),
            q=q,
            q_ramp_up_epochs=q_ramp_up_epochs,
            epochs=biased_epochs,
            head_start_epochs=head_start_epochs,
            input_dropout=biased_input_dropout,
        )
        self.group_prior = GroupPrior(
            info.num_labels, self.correlation.num_attributes, estimator="joint", momentum=momentum, floor=floor
        )

    def check_epochs(self, epochs: int) -> None:
        """Refuse a training in which the network that predicts would never start."""
        if self.biased is not None:
            self.biased.check_epochs(epochs)

    def observe_rows(self, label: Tensor, attribute: Tensor | None) -> None:
        """With true groups, count the prior."""
        if attribute is not None:
            table = count_prior(label, attribute, self.info.num_labels, self.info.num_attributes)
            self.group_prior.set_table(table)
            self._observed = True

    def begin_stage(self, stage: int, train_logits: Tensor | None) -> Stage:
        """Ask for nothing.

        Raises:
            InputError: If the true groups were not counted.
        """
        if self.needs_attributes and not self._observed:
            raise InputError("Reweighting must count the groups: call observe_rows(label, attribute) before training")
        return Stage()

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Return the weighted loss; with estimated groups plus that of the biased network."""
        if self.biased is None:
            assert batch.attribute is not None
            loss = self._weighted_loss(batch, batch.attribute)
            return Step(loss, {"loss_robust": loss.detach()})
        biased_loss, log_probability = self.biased(batch, epoch, self.randomness)
        attribute = self._estimate(batch, log_probability)
        minority = self.correlation.is_minority(batch.label, attribute)
        logs = {"loss_biased": biased_loss.detach(), "estimated_minority": minority.mean(dtype=torch.float32)}
        if epoch < self.biased.head_start_epochs:
            return Step(biased_loss, logs)
        loss = self._weighted_loss(batch, attribute)
        return Step(loss + biased_loss, {"loss_robust": loss.detach(), **logs})

    def _estimate(self, batch: Batch, log_probability: Tensor) -> Tensor:
        """Let the prior take in the batch and return a_x (B,)."""
        posterior = self.correlation.posterior(log_probability.exp())
        attribute = posterior.argmax(dim=1)
        self.group_prior.update(batch.label, posterior, attribute=attribute)
        return attribute

    def _weighted_loss(self, batch: Batch, attribute: Tensor) -> Tensor:
        prior = self.group_prior.table + self.group_prior.floor
        num_groups = (prior > 0).sum()
        weight = 1.0 / (num_groups * prior[batch.label, attribute])
        return (weight * cross_entropy(self.network(batch.inputs), batch.label, reduction="none")).mean()

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return the network's group and, where there is one, the biased network's with a constant learning rate."""
        groups = super().parameter_groups()
        if self.biased is not None:
            params = list(self.biased.parameters())
            groups.append({"params": params, "name": "biased_network", "schedule": "none"})
        return groups

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return each row's estimated attribute and whether it is taken for minority."""
        if self.biased is None:
            return {}
        probability = self.biased.log_probability(batch.inputs).exp()
        attribute = self.correlation.posterior(probability).argmax(dim=1)
        return {
            "estimated_attribute": attribute,
            "minority": self.correlation.is_minority(batch.label, attribute),
            "label_probability": probability.gather(1, batch.label[:, None]).squeeze(1),
        }
