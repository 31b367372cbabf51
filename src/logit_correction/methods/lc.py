"""Logit correction (LC) with Group MixUp; Liu et al., "Avoiding spurious correlations via logit correction"."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softmax

from logit_correction.functional.losses import logit_corrected_cross_entropy
from logit_correction.functional.mixup import draw_weight, mix, mixup_partner, ramp_up
from logit_correction.group_prior import GroupPrior
from logit_correction.methods.attribute import BiasedNetwork, choose_correlation
from logit_correction.methods.base import Algorithm, check_range
from logit_correction.networks.base import check_mixing_place, mixing_place
from logit_correction.types import Batch, DataInfo, InputError, NetworkFactory, Step


class LC(Algorithm):
    """Two networks, no attribute labels.

    The biased network is trained with generalized cross-entropy (eq. 3) and learns the shortcut; its output
    estimates the attribute and the group prior P(y, a) (eq. 9-12). The robust network, ``network``, is trained
    with cross-entropy on its logits plus log P(., a_x) (eq. 7), on samples made by Group MixUp (eq. 13). It
    predicts with its plain logits.

    The paper trains both side by side from the first step to the last. By default the biased network here has a
    head start of two epochs, sees a tenth of the pixels and then stays as it is: trained on, it learns to read the
    minority rows too and no longer knows them for such, and a robust network that starts before the shortcut is
    known learns it. ``head_start_epochs=0, biased_epochs=None, biased_input_dropout=0, q_ramp_up_epochs=0,
    prior='cell', momentum=0.5, mixup_limit=0.5`` is the paper's training.
    """

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        biased_network: NetworkFactory | None = None,
        q: float = 0.7,
        gce_form: Literal["paper", "weighted"] = "paper",
        q_ramp_up_epochs: float = 2.0,
        biased_epochs: float | None = 2.0,
        head_start_epochs: float = 2.0,
        biased_input_dropout: float = 0.9,
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
        mixup: Literal["every-row", "minority-rows", "none"] = "every-row",
        mixup_on: Literal["inputs", "features"] = "inputs",
        mixup_limit: float = 0.1,
        ramp_up_epochs: float = 2.0,
        seed: int = 0,
    ) -> None:
        """Build both networks.

        Args:
            network: Builds the robust network.
            info: Sizes and names of the data.
            biased_network: Builds the biased network; by default the same kind as ``network``.
            q: Exponent of the generalized cross-entropy, in [0, 1]; the paper's 0.7 (0.8 on Waterbirds).
            gce_form: ``paper`` is (1 - p^q) / q, ``weighted`` cross-entropy times the detached q p^q.
            q_ramp_up_epochs: Epochs over which q rises from 0 to its value. The paper has 0; a network that begins with
                the full q can lose a label for good, since rows of small probability hardly count.
            biased_epochs: Epochs after which the biased network stays as it is; None trains it to the end, as the
                paper does. 2 measured better.
            head_start_epochs: Epochs in which the biased network trains alone. The paper has 0; 2 measured better.
            biased_input_dropout: Probability with which each pixel (each feature) is hidden from the biased network
                while it trains, in [0, 1): the belief that the shortcut is spread over the input, as a colour or
                a background is, and shows in a part of it. The paper has 0; 0.9 measured better.
            biased_pooling: If positive, the biased network sees pictures averaged down to so many cells a side:
                the belief that the shortcut is coarse. Not in the paper, off by default.
            biased_temperature: Divides the biased logits before the softmax that estimates the attribute.
            biased_learning_rate_scale: Learning rate of the biased network relative to the robust one's.
            biased_schedule: ``none`` keeps the biased network's learning rate constant, ``same`` follows the run's.
            prior: Estimator of the group prior. ``joint``: eq. 9-11 of the paper; ``cell``: mean of p_y(x) in each
                cell (y, a_x), as the published runs have it; ``algorithm-1``: the paper's pseudo-code, which
                corrects next to nothing; ``uniform``: no correction.
            averaging: Averaging over time: ``moving`` (the paper's choice), ``batch`` or ``dataset``.
            momentum: Of the moving average, in [0, 1); the paper has 0.5, 0.99 measured better.
            floor: Added to the prior inside the logarithm; ours.
            strength: Factor of log P; the paper's 1.
            correlation: ``one-to-one`` takes label j to go with attribute value j; ``known`` uses the data source's
                category-level table (LC+).
            mixup: ``every-row`` is Algorithm 1, ``minority-rows`` the paper's text (eq. 13), ``none`` mixes nothing.
            mixup_on: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
            mixup_limit: t of Algorithm 1 after the ramp-up, in [0, 0.5]: a row's own weight is drawn from
                U(1 - 2t, 1 - t). The paper has 0.5; 0.1 measured better but at the smallest minority ratios.
            ramp_up_epochs: T of Algorithm 1; the paper has 2, and 50 on Waterbirds and CelebA.
            seed: Seed of the initial weights and of everything random in a step.

        Raises:
            InputError: If an option is out of range or does not fit the data.
        """
        check_range("momentum", momentum, 0, 1, open_end=True)
        check_range("floor", floor, 0)
        check_range("strength", strength, 0)
        check_range("mixup_limit", mixup_limit, 0, 0.5)
        check_range("ramp_up_epochs", ramp_up_epochs, 0)
        check_range("biased_temperature", biased_temperature, 1e-6)
        check_range("biased_learning_rate_scale", biased_learning_rate_scale, 0)
        if biased_pooling > 0 and len(info.input_shape) != 3:
            raise InputError(
                f"biased_pooling needs pictures, but the inputs have shape {info.input_shape}: leave it at 0"
            )
        super().__init__(network, info, seed=seed)
        self.biased = BiasedNetwork(
            self.build(biased_network or network, "biased network"),
            q=q,
            form=gce_form,
            q_ramp_up_epochs=q_ramp_up_epochs,
            epochs=biased_epochs,
            head_start_epochs=head_start_epochs,
            input_dropout=biased_input_dropout,
            pooling=biased_pooling,
        )
        self.correlation = choose_correlation(correlation, info)
        self.group_prior: GroupPrior = GroupPrior(
            self.correlation.num_labels,
            self.correlation.num_attributes,
            estimator="joint" if prior == "uniform" else prior,
            averaging="fixed" if prior == "uniform" else averaging,
            momentum=momentum,
            floor=floor,
        )
        self.biased_temperature = biased_temperature
        self.biased_learning_rate_scale, self.biased_schedule = biased_learning_rate_scale, biased_schedule
        self.strength = strength
        self.mixup, self.mixup_on, self.mixup_limit = mixup, mixup_on, mixup_limit
        self.ramp_up_epochs = ramp_up_epochs
        check_mixing_place(self.network, mixup_on)

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Train the biased network, the robust network, or both on one batch."""
        biased_loss, log_probability = self.biased(batch, epoch, self.randomness)
        with torch.no_grad():
            attribute = self._estimate_and_update(log_probability, batch.label)
            minority = self.correlation.is_minority(batch.label, attribute)
        logs = {"loss_biased": biased_loss.detach(), "estimated_minority": minority.mean(dtype=torch.float32)}
        if epoch < self.biased.head_start_epochs:
            return Step(biased_loss, logs)
        robust_logits, prior = self._robust_step(batch, attribute, minority, epoch)
        robust_loss = logit_corrected_cross_entropy(robust_logits, batch.label, self._correction(prior), "mean")
        return Step(robust_loss + biased_loss, {"loss_robust": robust_loss.detach(), **logs})

    def estimate(self, log_probability: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return P(a|x) (B, K), a_x (B,) and p(x) (B, L) from the biased network's log-softmax (B, L)."""
        if self.biased_temperature == 1:
            probability = log_probability.exp()
        else:
            probability = softmax(log_probability / self.biased_temperature, dim=1)
        posterior = self.correlation.posterior(probability)
        return posterior, posterior.argmax(1), probability

    def _estimate_and_update(self, log_probability: Tensor, label: Tensor) -> Tensor:
        """Return a_x (B,) and let the group prior take in the batch."""
        posterior, attribute, probability = self.estimate(log_probability)
        if self.group_prior.averaging != "fixed":
            cell = self.group_prior.estimator == "cell"
            own = probability.gather(1, label.unsqueeze(1)).squeeze(1) if cell else None
            self.group_prior.update(label, posterior, own, attribute)
        return attribute

    def _robust_step(self, batch: Batch, attribute: Tensor, minority: Tensor, epoch: float) -> tuple[Tensor, Tensor]:
        """Return the robust network's logits (B, L) on mixed samples and the group prior (B, L) that goes with them."""
        prior = self.group_prior.for_attribute(attribute)
        if self.mixup == "none":
            return self.network(batch.inputs), prior
        values, network = mixing_place(self.network, batch.inputs, self.mixup_on)
        generator = self.randomness.next(batch.label.device)
        low, high = 0.5, 1.0
        if self.mixup == "every-row":
            t = 2 * self.mixup_limit * ramp_up(epoch, self.ramp_up_epochs)
            low, high = 1 - 2 * t, 1 - t
        weight = draw_weight(low, high, generator, batch.label.device)
        partner = mixup_partner(batch.label, minority, self.info.num_labels, generator, self.mixup)
        return network(mix(values, partner, weight)), mix(prior, partner, weight)

    def _correction(self, prior: Tensor) -> Tensor:
        """Return strength * log P (B, L), shifted to be at most 0.

        The shift leaves the loss as it is, and makes a uniform prior correct by exactly nothing.
        """
        log_prior = self.group_prior.log(prior)
        return self.strength * (log_prior - log_prior.amax(1, keepdim=True))

    def end_epoch(self) -> list[str]:
        """Close the prior's epoch; warn of labels that the biased network has lost.

        A label is lost if more than half of its rows are taken for bias-conflicting: the network then predicts it
        hardly ever, which generalized cross-entropy can bring about for good. The joint prior's rows tell.
        """
        self.group_prior.end_epoch()
        if self.group_prior.estimator != "joint" or self.group_prior.averaging == "fixed":
            return []
        table = self.group_prior.table.cpu().double()
        aligned = (table * (self.correlation.weights > 0)).sum(1) / table.sum(1)
        lost = [self.info.label_names[i] for i in (aligned < 0.5).nonzero().flatten().tolist()]
        if not lost:
            return []
        return [
            f"the biased network takes most rows of label {', '.join(lost)} for bias-conflicting and may have lost the "
            "label: compare another --seed, or raise --method.q_ramp_up_epochs and --method.head_start_epochs"
        ]

    def check_epochs(self, epochs: int) -> None:
        """Refuse a training in which the robust network would never start."""
        self.biased.check_epochs(epochs)

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return the robust and the biased network's groups."""
        biased: dict[str, object] = {
            "params": list(self.biased.parameters()),
            "name": "biased_network",
            "learning_rate_scale": self.biased_learning_rate_scale,
        }
        if self.biased_schedule == "none":
            biased["schedule"] = "none"
        return [*super().parameter_groups(), biased]

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return each row's estimated attribute and whether it is taken for minority."""
        _, attribute, probability = self.estimate(self.biased.log_probability(batch.inputs))
        return {
            "estimated_attribute": attribute,
            "minority": self.correlation.is_minority(batch.label, attribute),
            "label_probability": probability.gather(1, batch.label[:, None]).squeeze(1),
        }
