"""Fisher-consistent reweighting by 1 / P(y, a), with which Liu et al. 2023 compare logit correction (Appendix)."""

from __future__ import annotations

from typing import Literal

from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.losses import GroupPrior
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import Counted, PriorRule
from logit_correction.types import Batch, DataInfo, NetworkFactory, Step


class Reweighting(Algorithm):
    """Cross-entropy with the weight 1 / (G P(y, a)) on a row of group (y, a), G being the number of groups.

    Use it to compare with logit correction by the same attributes, or if rows are never fitted perfectly: once a
    network fits every row, weights no longer change what it learns.

    Its mean over training rows is the mean of the group risks, so its minimizer maximizes group-balanced accuracy (eq.
    2 and 4 of Liu et al. 2023), as that of logit correction does. A row of unknown attribute has the weight 1.

    ``balance="conditional"`` has the cell weights P(a) / (L P(y, a)) of FG-CCDB (Zhao and Zhang, ICLR 2026), which has
    the attributes of ``MST``.
    """

    components = ("attributes", "prior")
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
            network: Builds the network.
            info: Sizes and names of the data.
            attributes: The estimator of each row's attribute.
            prior: The rule of the group prior; None counts static estimates without smoothing and averages others. Its
                floor or smoothing bounds the weights.
            balance: ``groups`` weighs all groups as if they were equally frequent; ``conditional`` the labels, and
                within each label the attributes as frequent as among all rows.
            biased_network: Builds the estimator's networks; by default ones like ``network``.
            seed: Seed of the initial weights.
        """
        super().__init__(network, info, seed=seed)
        self.use_attributes(attributes, biased_network or network)
        self.use_prior(prior, static_default=Counted(smoothing=0.0))
        self.balance = balance

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return the mean of the weighted cross-entropies, plus the loss of an estimator that trains along.

        Args: as in ``Algorithm.compute_loss``.
        """
        estimate = self.attributes(batch, epoch, self.randomness)
        self.prior_rule.update_prior(self.group_prior, batch.label, estimate)
        losses = cross_entropy(self.network(batch.inputs), batch.label, reduction="none")
        self.attributes.record_robust_losses(batch.label, losses.detach())
        prior = self.group_prior.table + self.group_prior.floor
        attribute = estimate.attribute.clamp_min(0)
        scale = (prior > 0).sum() if self.balance == "groups" else len(prior) / prior.sum(dim=0)[attribute]
        weight = 1.0 / (scale * prior[batch.label, attribute])
        loss = (weight.where(estimate.attribute >= 0, 1.0) * losses).mean()
        return self.add_estimator_loss(loss, estimate)
