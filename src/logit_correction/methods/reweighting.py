"""Fisher-consistent reweighting by 1 / P(y, a), with which Liu et al. 2023 compare logit correction (Appendix)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.losses import GroupPrior
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import PRIORS, Counted, Moving, PriorRule
from logit_correction.registry import make_component
from logit_correction.types import Batch, DataInfo, NetworkFactory, Step


class Reweighting(Algorithm):
    """Cross-entropy with the weight 1 / (G P(y, a)) on a row of group (y, a), G being the number of groups.

    Its mean over training rows is the mean of the group risks, so its minimizer maximizes group-balanced accuracy (eq.
    2 and 4 of Liu et al. 2023), as that of logit correction does. A row of unknown attribute has the weight 1.

    ``balance="conditional"`` has the cell weights P(a) / (L P(y, a)) of FG-CCDB (Zhao and Zhang, ICLR 2026), which has
    the attributes of ``MST``.
    """

    components = MappingProxyType({"attributes": "attributes", "prior": "prior"})
    group_prior: GroupPrior
    prior_rule: PriorRule
    attributes: AttributeEstimator

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        attributes: AttributeEstimator | str = "Auto",
        prior: PriorRule | str | None = None,
        balance: Literal["groups", "conditional"] = "groups",
        biased_network: NetworkFactory | None = None,
        seed: int = 0,
    ) -> None:
        """Build the network, and what the estimator needs.

        Args:
            attributes: Where the attribute of each row comes from.
            prior: How the group prior comes about; None counts it without smoothing where the estimates are settled,
                else averages it. Its floor or smoothing bounds the weights.
            balance: ``groups`` makes all groups as frequent; ``conditional`` the labels, and within each label the
                attributes as frequent as among all rows.
        """
        super().__init__(network, info, seed=seed)
        self.use_attributes(attributes, biased_network or network)
        if prior is None:
            prior = Counted(smoothing=0.0) if self.attributes.is_static else Moving()
        self.balance = balance
        self.prior_rule = make_component("prior", prior, PRIORS, PriorRule)
        self.group_prior = self.prior_rule.make(self.attributes)

    def forward(self, batch: Batch, epoch: float) -> Step:
        if self.in_pretraining:
            return self.attributes.step(batch, epoch, self.randomness)
        estimate = self.attributes(batch, epoch, self.randomness)
        self.prior_rule.update(self.group_prior, batch.label, estimate)
        losses = cross_entropy(self.network(batch.inputs), batch.label, reduction="none")
        self.attributes.update_from_losses(batch.label, losses.detach())
        prior = self.group_prior.table + self.group_prior.floor
        value = estimate.attribute.clamp_min(0)
        rate = (prior > 0).sum() if self.balance == "groups" else len(prior) / prior.sum(dim=0)[value]
        weight = 1.0 / (rate * prior[batch.label, value])
        loss = (weight.where(estimate.attribute >= 0, 1.0) * losses).mean()
        return self.add_estimator_loss(loss, estimate)
