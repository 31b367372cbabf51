"""Fisher-consistent reweighting by 1 / P(y, a), with which Liu et al. 2023 compare logit correction (Appendix)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.group_prior import GroupPrior
from logit_correction.methods.attribute import BiasedNetwork, hidden_share
from logit_correction.methods.base import check_range
from logit_correction.methods.grouped import GroupedAlgorithm
from logit_correction.types import Batch, DataInfo, NetworkFactory, Step


class Reweighting(GroupedAlgorithm):
    """Cross-entropy with the weight 1 / (G P(y, a)) on a row of group (y, a), G being the number of groups.

    Its mean over rows drawn from the training distribution is the mean of the group risks, so its minimizer is the
    maximizer of group-balanced accuracy (eq. 2 and 4 of Liu et al. 2023), as that of logit correction is; only what
    happens on the way there differs.

    With ``groups=estimated`` a biased network at the side tells attribute and prior, exactly as in ``LC`` and with the
    same options and defaults, and no attribute label is read; the weight is then 1 / (G (P + floor)). With
    ``groups=cross-fitted`` a stage before this one estimates the attributes (see ``CrossFitted``), and the prior is
    counted from them. With ``groups=true`` the training attributes are read and the prior is counted. A run lets the
    method count through ``observe_rows``; in a loop of your own call it once before stage 0.
    """

    group_prior: GroupPrior

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        groups: Literal["estimated", "cross-fitted", "true"] = "estimated",
        biased_network: NetworkFactory | None = None,
        q: float = 0.7,
        q_ramp_up_epochs: float = 2.0,
        biased_epochs: float | None = 2.0,
        head_start_epochs: float = 2.0,
        biased_input_dropout: float | None = None,
        momentum: float = 0.99,
        floor: float = 5e-5,
        correlation: Literal["one-to-one", "known"] = "one-to-one",
        num_splits: int = 2,
        cross_fitting_epochs: int = 3,
        cross_fitting_learning_rate: float | None = None,
        smoothing: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Build the network, and with estimated groups the biased one.

        Args:
            network: Builds the network that predicts.
            info: Sizes and names of the data.
            groups: ``estimated``, ``cross-fitted`` or ``true``. The options from ``q`` to ``floor`` concern estimated
                groups, the three from ``num_splits`` on cross-fitted ones.
            biased_network: Builds the biased network or networks; by default the same kind as ``network``.
            q: Exponent of the generalized cross-entropy, in [0, 1].
            q_ramp_up_epochs: Epochs over which q rises from 0.
            biased_epochs: Epochs after which the biased network stays as it is; None trains it to the end.
            head_start_epochs: Epochs in which the biased network trains alone.
            biased_input_dropout: Probability with which a pixel or feature is hidden from the biased network while it
                trains; None as in ``LC``.
            momentum: Of the prior's moving average, in [0, 1).
            floor: Added to the estimated prior; bounds the weights by 1 / (G floor).
            correlation: ``one-to-one``, or ``known`` for the data source's table; true groups need none.
            num_splits: S, the number of random splits into two halves; 2 S biased networks are trained.
            cross_fitting_epochs: Epochs of the stage in which they are trained.
            cross_fitting_learning_rate: Its learning rate; None takes the run's.
            smoothing: Added to the count of each group where the prior is counted, 0 or more; bounds the weights.
            seed: Seed of the initial weights and of everything random in a step.

        Raises:
            InputError: If an option is out of range or does not fit the data.
        """
        check_range("momentum", momentum, 0, 1, open_end=True)
        check_range("floor", floor, 0)
        check_range("smoothing", smoothing, 0)
        super().__init__(network, info, groups=groups, correlation=correlation, smoothing=smoothing, seed=seed)
        self.group_prior = self.fixed_prior()
        hidden, build = hidden_share(biased_input_dropout, info), biased_network or network
        if groups == "cross-fitted":
            rate = cross_fitting_learning_rate
            self.cross_fit(build, num_splits, cross_fitting_epochs, learning_rate=rate, input_dropout=hidden)
        elif groups == "estimated":
            self.run_alongside(
                BiasedNetwork(
                    self.build(build, "biased network"),
                    self.correlation,
                    q=q,
                    q_ramp_up_epochs=q_ramp_up_epochs,
                    epochs=biased_epochs,
                    head_start_epochs=head_start_epochs,
                    input_dropout=hidden,
                    seed=seed,
                )
            )
            self.group_prior = GroupPrior(
                info.num_labels, self.num_attributes, estimator="joint", momentum=momentum, floor=floor
            )

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Return the weighted loss; with estimated groups plus that of the biased network."""
        if self.preparing:
            return self.prepare(batch, epoch)
        if self.biased is None:
            loss = (self._weight(batch.label, self.row_attribute(batch)) * self._losses(batch)).mean()
            return Step(loss, {"loss_robust": loss.detach()})
        epoch = self.since_the_start(epoch)
        found = self.biased(batch, epoch, self.randomness)
        self.group_prior.update(batch.label, found.posterior, attribute=found.attribute)
        minority = self.correlation.is_minority(batch.label, found.attribute)
        logs = {"loss_biased": found.loss.detach(), "estimated_minority": minority.mean(dtype=torch.float32)}
        if epoch < self.biased.head_start_epochs:
            return Step(found.loss, logs)
        losses = self._losses(batch)
        if self.biased.clusters is not None and found.features is not None:
            self.biased.clusters.update(found.features, batch.label, losses.detach())
        loss = (self._weight(batch.label, found.attribute) * losses).mean()
        return Step(loss + found.loss, {"loss_robust": loss.detach(), **logs})

    def _losses(self, batch: Batch) -> Tensor:
        return cross_entropy(self.network(batch.inputs), batch.label, reduction="none")

    def _weight(self, label: Tensor, attribute: Tensor) -> Tensor:
        """Return 1 / (G P(y, a)) of each row, (B,)."""
        prior = self.group_prior.table + self.group_prior.floor
        num_groups = (prior > 0).sum()
        return 1.0 / (num_groups * prior[label, attribute])
