"""Logit correction (LC) with Group MixUp; Liu et al., "Avoiding spurious correlations via logit correction"."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from logit_correction.functional import (
    MixupForm,
    draw_weight,
    independent_partner,
    logit_corrected_cross_entropy,
    mix,
    mixup_partner,
    partner_prior,
    ramp_up,
)
from logit_correction.group_prior import GroupPrior
from logit_correction.methods.attribute import BiasedNetwork, Estimate, hidden_share
from logit_correction.methods.base import check_range
from logit_correction.methods.grouped import GroupedAlgorithm
from logit_correction.networks.base import check_mixing_place, mixing_place
from logit_correction.types import Batch, DataInfo, InputError, NetworkFactory, Step

#: The least logarithm of a partner's probability.
_LEAST_LOG = -30.0


class LC(GroupedAlgorithm):
    """Two networks, no attribute labels.

    The biased network is trained with generalized cross-entropy (eq. 3) and learns the shortcut; its output
    estimates the attribute and the group prior P(y, a) (eq. 9-12). The robust network, ``network``, is trained
    with cross-entropy on its logits plus log P(., a_x) (eq. 7), on samples made by Group MixUp (eq. 13). It
    predicts with its plain logits.

    The paper trains both side by side from the first step to the last. By default the biased network here has a
    head start of two epochs and then stays as it is: trained on, it learns to read the
    minority rows too and no longer knows them for such, and a robust network that starts before the shortcut is
    known learns it. ``head_start_epochs=0, biased_epochs=None, biased_input_dropout=0, q_ramp_up_epochs=0,
    prior='cell', momentum=0.5, mixup_limit=0.5`` is the paper's training.

    ``groups=cross-fitted`` estimates the attributes in a stage before this one (see ``CrossFitted``), and
    ``groups=true`` reads the training attributes: the oracle of the paper's appendix. The prior is then counted, and
    there is no biased network alongside. Where a label goes with several attribute values and ``correlation=known``,
    the head start is a stage of its own (rounded up to whole epochs), after which the biased network's features are
    clustered to tell these values apart (LC+; see ``AttributeClusters``).
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
        gce_form: Literal["paper", "weighted"] = "paper",
        q_ramp_up_epochs: float = 2.0,
        biased_epochs: float | None = 2.0,
        head_start_epochs: float = 2.0,
        biased_input_dropout: float | None = None,
        biased_pooling: int = 0,
        biased_temperature: float = 1.0,
        biased_learning_rate_scale: float = 1.0,
        biased_schedule: Literal["same", "none"] = "none",
        prior: Literal["joint", "cell", "algorithm-1", "uniform"] = "joint",
        averaging: Literal["moving", "batch", "dataset"] = "moving",
        momentum: float = 0.99,
        floor: float = 5e-5,
        strength: float = 1.0,
        correlation: Literal["one-to-one", "known"] = "one-to-one",
        cluster_weights: Literal["seo", "size", "none"] = "seo",
        num_splits: int = 2,
        cross_fitting_epochs: int = 3,
        cross_fitting_learning_rate: float | None = None,
        smoothing: float = 1.0,
        mixup: Literal["every-row", "minority-rows", "independent", "none"] = "every-row",
        mixup_prior: Literal["convex", "product"] = "convex",
        mixup_on: Literal["inputs", "features"] = "inputs",
        mixup_limit: float = 0.1,
        ramp_up_epochs: float = 2.0,
        seed: int = 0,
    ) -> None:
        """Build both networks.

        Args:
            network: Builds the robust network.
            info: Sizes and names of the data.
            groups: Where attributes come from: ``estimated`` by the biased network alongside, ``cross-fitted`` or
                ``true``. The options of the biased network, of averaging and the floor concern estimated groups.
            biased_network: Builds the biased network or networks; by default the same kind as ``network``.
            q: Exponent of the generalized cross-entropy, in [0, 1]; the paper's 0.7 (0.8 on Waterbirds).
            gce_form: ``paper`` is (1 - p^q) / q, ``weighted`` cross-entropy times the detached q p^q.
            q_ramp_up_epochs: Epochs over which q rises from 0 to its value. The paper has 0; a network that begins with
                the full q can lose a label for good, since rows of small probability hardly count.
            biased_epochs: Epochs after which the biased network stays as it is; None trains it to the end, as the
                paper does. 2 measured better.
            head_start_epochs: Epochs in which the biased network trains alone. The paper has 0; 2 measured better.
            biased_input_dropout: Probability with which each pixel (each feature) is hidden from the biased network
                while it trains, in [0, 1). To hide much is the belief that the shortcut is spread over the input and
                shows in any part of it, as a colour or a background does. None takes 0.9 where the data source says so
                (Colored MNIST, Digits), else the paper's 0.
            biased_pooling: If positive, the biased network sees pictures averaged down to so many cells a side:
                the belief that the shortcut is coarse. Not in the paper, off by default.
            biased_temperature: Divides the biased logits before the softmax that estimates the attribute.
            biased_learning_rate_scale: Learning rate of the biased network relative to the robust one's.
            biased_schedule: ``none`` keeps the biased network's learning rate constant, ``same`` follows the run's.
            prior: Estimator of the group prior. ``joint``: eq. 9-11 of the paper; ``cell``: mean of p_y(x) in each
                cell (y, a_x), as the published runs have it; ``algorithm-1``: the paper's pseudo-code, which
                corrects next to nothing; ``uniform``: no correction. A counted prior is joint (or uniform).
            averaging: Averaging over time: ``moving`` (the paper's choice), ``batch`` or ``dataset``.
            momentum: Of the moving average, in [0, 1); the paper has 0.5, 0.99 measured better.
            floor: Added to the prior inside the logarithm; ours.
            strength: Factor of log P; the paper's 1.
            correlation: ``one-to-one`` takes label j to go with attribute value j; ``known`` uses the data source's
                category-level table (LC+). True groups need none.
            cluster_weights: Weights of the clusters, where there are any; see ``AttributeClusters``.
            num_splits: Of cross-fitting: S random splits into two halves; 2 S biased networks are trained.
            cross_fitting_epochs: Epochs of the stage in which they are trained.
            cross_fitting_learning_rate: Its learning rate; None takes the run's.
            smoothing: Added to the count of each group where the prior is counted; positive.
            mixup: ``every-row`` is Algorithm 1, ``minority-rows`` the paper's text (eq. 13), ``independent`` draws the
                partner from all rows and keeps the row's prior, ``none`` mixes nothing.
            mixup_prior: Prior of a row mixed with one of its label: ``convex`` is eq. 13, ``product`` that of all that
                the mixed row shows, P(y, a_j) P(a_i | y, a_j); see ``functional.partner_prior``.
            mixup_on: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
            mixup_limit: t of Algorithm 1 after the ramp-up, in [0, 0.5]: a row's own weight is drawn from
                U(1 - 2t, 1 - t), with ``independent`` from U(1 - t, 1). The paper has 0.5; 0.1 measured better but at
                the smallest minority ratios.
            ramp_up_epochs: T of Algorithm 1; the paper has 2, and 50 on Waterbirds and CelebA.
            seed: Seed of the initial weights and of everything random in a step.

        Raises:
            InputError: If an option is out of range or does not fit the data.
        """
        check_range("momentum", momentum, 0, 1, open_end=True)
        check_range("floor", floor, 0)
        check_range("strength", strength, 0)
        check_range("smoothing", smoothing, 1e-6)
        check_range("mixup_limit", mixup_limit, 0, 0.5)
        check_range("ramp_up_epochs", ramp_up_epochs, 0)
        if biased_pooling > 0 and len(info.input_shape) != 3:
            raise InputError(f"biased_pooling needs pictures, but inputs have shape {info.input_shape}: leave it at 0")
        if mixup_prior == "product" and prior != "joint":
            raise InputError(f"mixup_prior=product needs a joint probability, but prior is {prior}: give prior=joint")
        super().__init__(network, info, groups=groups, correlation=correlation, smoothing=smoothing, seed=seed)
        build = biased_network or network
        hidden = hidden_share(biased_input_dropout, info)
        if groups == "cross-fitted":
            rate = cross_fitting_learning_rate
            shared = {"q": q, "form": gce_form, "input_dropout": hidden}
            self.cross_fit(build, num_splits, cross_fitting_epochs, learning_rate=rate, **shared)
        elif groups == "estimated":
            self.run_alongside(
                BiasedNetwork(
                    self.build(build, "biased network"),
                    self.correlation,
                    q=q,
                    form=gce_form,
                    q_ramp_up_epochs=q_ramp_up_epochs,
                    epochs=biased_epochs,
                    head_start_epochs=head_start_epochs,
                    input_dropout=hidden,
                    pooling=biased_pooling,
                    temperature=biased_temperature,
                    learning_rate_scale=biased_learning_rate_scale,
                    schedule=biased_schedule,
                    cluster_weights=cluster_weights,
                    seed=seed,
                )
            )
        self.uniform, self.strength = prior == "uniform", strength
        self.group_prior = self.fixed_prior()
        if groups == "estimated" and prior != "uniform":
            sizes = info.num_labels, self.num_attributes
            self.group_prior = GroupPrior(*sizes, estimator=prior, averaging=averaging, momentum=momentum, floor=floor)
        self.mixup, self.mixup_prior = mixup, mixup_prior
        self.mixup_on, self.mixup_limit, self.ramp_up_epochs = mixup_on, mixup_limit, ramp_up_epochs
        check_mixing_place(self.network, mixup_on, tokens=info.tokens and mixup != "none")

    def count_groups(self, label: Tensor, attribute: Tensor) -> None:
        """Count the group prior, unless it is to stay uniform."""
        if not self.uniform:
            super().count_groups(label, attribute)

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Train what the stage trains on one batch: biased network, robust network, or both."""
        if self.preparing:
            return self.prepare(batch, epoch)
        if self.biased is None:
            loss = self._robust_losses(batch, self.row_attribute(batch), epoch).mean()
            return Step(loss, {"loss_robust": loss.detach()})
        epoch = self.since_the_start(epoch)
        found = self.biased(batch, epoch, self.randomness)
        self._update_prior(batch.label, found)
        minority = self.correlation.is_minority(batch.label, found.attribute)
        logs = {"loss_biased": found.loss.detach(), "estimated_minority": minority.mean(dtype=torch.float32)}
        if epoch < self.biased.head_start_epochs:
            return Step(found.loss, logs)
        losses = self._robust_losses(batch, found.attribute, epoch)
        if self.biased.clusters is not None and found.features is not None:
            self.biased.clusters.update(found.features, batch.label, losses.detach())
        loss = losses.mean()
        return Step(loss + found.loss, {"loss_robust": loss.detach(), **logs})

    def _update_prior(self, label: Tensor, found: Estimate) -> None:
        """Let the group prior take in the batch."""
        if self.group_prior.averaging != "fixed":
            cell = self.group_prior.estimator == "cell"
            own = found.probability.gather(1, label.unsqueeze(1)).squeeze(1) if cell else None
            self.group_prior.update(label, found.posterior, own, found.attribute)

    def _robust_losses(self, batch: Batch, attribute: Tensor, epoch: float) -> Tensor:
        """Return the corrected losses (B,) of the robust network."""
        logits, log_prior = self._robust_step(batch, attribute, epoch)
        # The shift leaves the loss as it is, and makes a uniform prior correct by exactly nothing.
        correction = self.strength * (log_prior - log_prior.amax(1, keepdim=True))
        return logit_corrected_cross_entropy(logits, batch.label, correction)

    def _robust_step(self, batch: Batch, attribute: Tensor, epoch: float) -> tuple[Tensor, Tensor]:
        """Return the robust network's logits (B, L) on mixed samples and the log prior (B, L) that goes with them."""
        prior, log = self.group_prior.for_attribute(attribute), self.group_prior.log
        if self.mixup == "none":
            return self.network(batch.inputs), log(prior)
        values, network = mixing_place(self.network, batch.inputs, self.mixup_on)
        generator, device = self.randomness.next(batch.label.device), batch.label.device
        t = 2 * self.mixup_limit * ramp_up(epoch, self.ramp_up_epochs)
        if self.mixup == "independent":
            partner, own = independent_partner(len(batch.label), t, generator, device)
            return network(mix(values, partner, own)), log(prior)
        low, high = (1 - 2 * t, 1 - t) if self.mixup == "every-row" else (0.5, 1.0)
        weight = draw_weight(low, high, generator, device)
        minority = self.correlation.is_minority(batch.label, attribute)
        partner = mixup_partner(batch.label, minority, self.info.num_labels, generator, self.mixup)
        logits = network(mix(values, partner, weight))
        if self.mixup_prior == "convex":
            return logits, log(mix(prior, partner, weight))
        return logits, log(prior) + self._log_partner_prior(attribute, attribute[partner], len(batch.label))

    def _log_partner_prior(self, attribute: Tensor, other: Tensor, batch_size: int) -> Tensor:
        """Return log P(a_i | y, a_j) of every label y for rows of attribute a_j with partners of a_i, (B, L)."""
        form: MixupForm = "every-row" if self.mixup == "every-row" else "minority-rows"
        minority = self.correlation.minority_groups(attribute.device)
        drawn = partner_prior(self.group_prior.table, minority, batch_size, form)[:, attribute, other].t()
        # What is impossible for a label counts as very improbable: no infinity shall meet strength=0.
        return torch.log(drawn + self.group_prior.floor).clamp_min(_LEAST_LOG)
