"""Logit correction; Liu, Zhang, Sekhar, Wu, Singhal and Fernandez-Granda, ICLR 2023."""

from __future__ import annotations

from types import MappingProxyType

from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.errors import check_range
from logit_correction.group_prior import GroupPrior
from logit_correction.losses import corrected_losses
from logit_correction.methods.base import Algorithm
from logit_correction.methods.mixing import MIXING, Mixing
from logit_correction.methods.prior import PRIORS, PriorRule, fitting_rule, lost_labels
from logit_correction.registry import component
from logit_correction.types import Batch, DataInfo, NetworkFactory, Stage, Step


class LC(Algorithm):
    """Trains a network with cross-entropy on its logits plus log P(., a_x), on mixed samples; predicts without it.

    The attribute a_x of each row comes from an attribute estimator, and the group prior P(y, a) from its estimates. By
    default ``Auto`` looks for a shortcut by named views. Where it finds none, nothing is corrected and nothing is
    mixed: the training is that of ERM.

    ``--preset paper`` is the training of the paper: a biased network beside the robust one (``Online``), a moving prior
    and Group MixUp.
    """

    components = MappingProxyType({"attributes": "attributes", "prior": "prior", "mixing": "mixing"})
    group_prior: GroupPrior
    attributes: AttributeEstimator

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        attributes: AttributeEstimator | str = "Auto",
        prior: PriorRule | str | None = None,
        mixing: Mixing | str = "IndependentMixUp",
        strength: float = 1.0,
        biased_network: NetworkFactory | None = None,
        seed: int = 0,
    ) -> None:
        """Build the network, and what the estimator needs.

        Args:
            network: Builds the robust network.
            info: Sizes and names of the data.
            attributes: Where the attribute of each row comes from.
            prior: How the group prior comes about; None counts it where the estimates are settled, else averages it.
            mixing: How samples are mixed.
            strength: Factor of log P; the paper's 1, and 0 corrects nothing.
            biased_network: Builds the networks that the estimator trains; by default the same kind as ``network``.
            seed: Seed of the initial weights and of everything random in a step.

        Raises:
            InputError: If an option is out of range or does not fit the data.
        """
        check_range("strength", strength, 0)
        super().__init__(network, info, seed=seed)
        self.use_attributes(attributes, biased_network or network)
        self.prior_rule = (
            fitting_rule(self.attributes) if prior is None else component("prior", prior, PRIORS, PriorRule)
        )
        self.group_prior = self.prior_rule.make(self.attributes)
        self.mixing = component("mixing", mixing, MIXING, Mixing)
        self.mixing.check(self.network, info, self.group_prior)
        self.strength = strength

    def begin_own_stage(self) -> Stage:
        """Count the prior, where the estimates are settled."""
        self.prior_rule.begin(self.group_prior, self.attributes)
        return Stage()

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Return the corrected loss of a batch, and that of a biased network beside."""
        if self.preparing:
            return self.prepare(batch, epoch)
        if self.attributes.abstained:
            loss = cross_entropy(self.network(batch.inputs), batch.label)
            return Step(loss, {"loss_robust": loss.detach()})
        estimate = self.estimate(batch, epoch)  # eq. 3, 11, 12: P(a | x) and a_x
        self.prior_rule.update(self.group_prior, batch.label, estimate)  # eq. 9, 10: P(y, a)
        logits, log_prior = self.mixed(batch, estimate.attribute, epoch)  # eq. 13: x', P'
        losses = corrected_losses(logits, batch.label, log_prior, self.strength)  # eq. 7
        self.attributes.learn_from_losses(estimate, batch.label, losses.detach())
        loss = losses.mean()
        logs = {"loss_robust": loss.detach()}
        if estimate.loss is None:
            return Step(loss, logs)
        return Step(loss + estimate.loss, {**logs, "loss_biased": estimate.loss.detach()})

    def mixed(self, batch: Batch, attribute: Tensor, epoch: float) -> tuple[Tensor, Tensor]:
        """Return the robust network's logits (B, L) on mixed samples and the log prior (B, L) that goes with them."""
        generator = self.randomness.next(batch.label.device)
        correlation = self.attributes.correlation
        return self.mixing(self.network, batch, attribute, self.group_prior, correlation, epoch, generator)

    def end_epoch(self) -> list[str]:
        """Close the prior's epoch; warn of labels that a biased network has lost."""
        warnings = super().end_epoch()
        if self.preparing:
            return warnings
        return warnings + lost_labels(self.group_prior, self.attributes.correlation, self.info.label_names)
