"""Logit correction; Liu, Zhang, Sekhar, Wu, Singhal and Fernandez-Granda, ICLR 2023."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.errors import check_range
from logit_correction.functional import logit_corrected_cross_entropy
from logit_correction.losses import GroupPrior
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import MIXING, Mixing, MixingContext, PriorRule, check_is_static
from logit_correction.registry import make_component
from logit_correction.types import Batch, DataInfo, NetworkFactory, Stage, Step

DEFAULT_OVERSAMPLING = 0.25  # of augmented images with static estimates


class LC(Algorithm):
    """Trains a network with cross-entropy on its logits plus log P(., a_x) (eq. 7), and predicts by the logits alone.

    Use it where a spurious correlation is known or suspected. The network need not learn what the attribute predicts of
    the label, since log P(., a_x) supplies it. An attribute estimator gives the attribute a_x of each row; the group
    prior P(y, a) is computed from its estimates; samples are mixed (``mixing``). The default estimator, ``Auto``, looks
    for a shortcut by named views. If it finds none, LC trains exactly as ERM does.

    ``--preset paper`` is the training of the paper's published code: a biased network along with the robust one
    (``Online``), a moving prior and Group MixUp.

    >>> import torch
    >>> from logit_correction import LC, Batch, DataInfo, TrainingRows
    >>> info = DataInfo(num_labels=2, num_rows=4, input_shape=(3,), num_attributes=2)
    >>> method = LC(lambda: torch.nn.Linear(3, 2), info, attributes="TrueAttributes", mixing="NoMixing")
    >>> label, attribute = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 1, 0])
    >>> method.setup(TrainingRows(label, attribute))
    >>> _ = method.begin_stage(0, None)  # counts the prior
    >>> method(Batch(torch.ones(4, 3), label, torch.arange(4)), epoch=0.0).loss.shape
    torch.Size([])
    """

    components = ("attributes", "prior", "mixing")

    group_prior: GroupPrior
    prior_rule: PriorRule
    attributes: AttributeEstimator
    row_weight: Tensor

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        attributes: AttributeEstimator | str = "Auto",
        prior: PriorRule | str | None = None,
        mixing: Mixing | str = "IndependentMixUp",
        strength: float = 1.0,
        oversampling: float | None = None,
        biased_network: NetworkFactory | None = None,
        seed: int = 0,
    ) -> None:
        """Build the network, and what the estimator needs.

        Args:
            network: Builds the network.
            info: Sizes and names of the data.
            attributes: The estimator of each row's attribute.
            prior: The rule of the group prior; None counts static estimates (``Counted``) and averages others
                (``Moving``).
            mixing: How samples are mixed; ``GroupMixUp`` is the paper's.
            strength: Factor of log P, 0 or more: 1 as in the paper; 0 corrects nothing, and above 1 bias-conflicting
                predictions become more frequent than the prior asks for.
            oversampling: Power p in [0, 1]: rows of group (y, a) are drawn in proportion to count(y, a)^-p, and their
                losses are weighted back, so that the expected loss stays the same. It harms a network that memorizes
                rows. None takes 0.25 where training images are augmented, else 0. Needs a static estimator.
            biased_network: Builds the estimator's networks; by default ones like ``network``.
            seed: Seed of the initial weights and of the mixing.
        """
        check_range("strength", strength, 0)
        check_range("oversampling", oversampling or 0, 0, 1)
        super().__init__(network, info, seed=seed)
        self.use_attributes(attributes, biased_network or network)
        self.use_prior(prior)
        self.mixing = make_component("mixing", mixing, MIXING, Mixing)
        self.mixing.check(self.network, info)
        self.strength = strength
        if oversampling:
            check_is_static(self.attributes, "oversampling", "leave it out")
        if oversampling is None:
            oversampling = DEFAULT_OVERSAMPLING if info.augmented and self.attributes.is_static else 0.0
        self.oversampling = oversampling
        self.register_buffer("row_weight", torch.ones(info.num_rows if oversampling else 0))

    def begin_method_stage(self) -> Stage:
        if self.attributes.has_abstained or not self.oversampling:
            return Stage()
        rates = self.attributes.count_groups().double().clamp_min(1.0).pow(-self.oversampling).cpu()
        attribute = self.attributes.row_attribute.cpu()
        row_rates = rates[self.attributes.rows.label, attribute.clamp_min(0)]
        row_rates = row_rates.where(attribute >= 0, row_rates.mean())
        self.row_weight.copy_(row_rates.mean() / row_rates)
        return Stage(sample_weight=row_rates)

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return the corrected cross-entropy (eq. 7), plus the loss of an estimator that trains along.

        Args: as in ``Algorithm.compute_loss``.
        """
        if self.attributes.has_abstained:
            loss = cross_entropy(self.network(batch.inputs), batch.label)
            return Step(loss, {"loss_robust": loss.detach()})
        estimate = self.attributes(batch, epoch, self.randomness)  # eq. 3, 11, 12: P(a | x) and a_x
        self.prior_rule.update_prior(self.group_prior, batch.label, estimate)  # eq. 9, 10: P(y, a)
        generator = self.randomness.next(batch.label.device)
        correlation = self.attributes.correlation
        context = MixingContext(batch, estimate.attribute, self.group_prior, correlation, epoch, generator)
        logits, log_prior = self.mixing(self.network, context)  # eq. 13: x', P'
        if self.strength != 1.0:
            log_prior = self.strength * log_prior
        needs_row_losses = not self.attributes.is_static or self.oversampling
        loss = logit_corrected_cross_entropy(
            logits, batch.label, log_prior, "none" if needs_row_losses else "mean"
        )  # eq. 7
        if not self.attributes.is_static:
            self.attributes.record_robust_losses(batch.label, loss.detach())
        if self.oversampling:
            loss = loss * self.row_weight.index_select(0, batch.index)
        return self.add_estimator_loss(loss.mean(), estimate)


def StagedLC(network: NetworkFactory, info: DataInfo, **options: Any) -> LC:  # noqa: N802  (users know it as a method)
    """Return ``LC`` as in the preset ``staged``: cross-fitted biased networks estimate the attributes first.

    It does not search for a shortcut, and corrects by the biased networks' estimates in any case.

    Args:
        network: Builds the network.
        info: Sizes and names of the data.
        options: Those of ``LC``.

    >>> import torch
    >>> from logit_correction import StagedLC, DataInfo
    >>> method = StagedLC(lambda: torch.nn.Linear(3, 2), DataInfo(num_labels=2, num_rows=4, input_shape=(3,)))
    >>> type(method.attributes).__name__, method.num_stages
    ('CrossFitted', 2)
    """
    return LC(network, info, **{"attributes": "CrossFitted", **options})
