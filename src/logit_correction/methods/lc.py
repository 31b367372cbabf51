"""Logit correction (LC) with Group MixUp; Liu et al., "Avoiding spurious correlations via logit correction"."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, one_hot, softmax

from logit_correction.correlation import Correlation
from logit_correction.functional.losses import generalized_cross_entropy, logit_corrected_cross_entropy
from logit_correction.functional.mixup import draw_weight, mix, mixup_partner, ramp_up
from logit_correction.group_prior import GroupPrior
from logit_correction.methods.base import Algorithm
from logit_correction.types import Batch, DataInfo, InputError, Inputs, NetworkFactory, Step


class LC(Algorithm):
    """Two networks side by side, without attribute labels.

    The biased network is trained with generalized cross-entropy (eq. 3) and learns the shortcut; its output
    estimates the attribute and the group prior P(y, a) (eq. 9-13). The robust network, ``network``, is trained
    with cross-entropy on its logits plus log P(., a_x) (eq. 7), on samples made by Group MixUp (eq. 14). It
    predicts with its plain logits.
    """

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        biased_network: NetworkFactory | None = None,
        q: float = 0.7,
        gce_form: Literal["paper", "weighted"] = "paper",
        prior: Literal["cell", "joint", "algorithm-1", "uniform"] = "cell",
        averaging: Literal["moving", "batch", "dataset"] = "moving",
        momentum: float = 0.9,
        floor: float = 1e-3,
        strength: float = 1.0,
        correlation: Literal["one-to-one", "known"] = "one-to-one",
        mixup: Literal["every-row", "minority-rows", "none"] = "every-row",
        mixup_on: Literal["inputs", "features"] = "inputs",
        mixup_prior: Literal["convex", "product"] = "convex",
        ramp_up_epochs: float = 2.0,
        mixup_limit: float = 0.5,
        biased_learning_rate_scale: float = 1.0,
        biased_schedule: Literal["same", "none"] = "none",
        biased_epochs: float | None = None,
        biased_temperature: float = 1.0,
        biased_pooling: int = 0,
        seed: int = 0,
    ) -> None:
        """Build both networks.

        Args:
            network: Builds the robust network.
            info: Sizes and names of the data.
            biased_network: Builds the biased network; by default the same kind as ``network``.
            q: Exponent of the generalized cross-entropy, in [0, 1]; the paper's 0.7 (0.8 on Waterbirds).
            gce_form: ``paper`` is (1 - p^q) / q, ``weighted`` cross-entropy times the detached q p^q.
            prior: Estimator of the group prior. ``cell``: mean of p_y(x) in each cell (y, a_x), as the published
                runs have it and measured best; ``joint``: the paper's eq. 9-11; ``algorithm-1``: the paper's
                pseudo-code, which corrects next to nothing; ``uniform``: no correction.
            averaging: Averaging over time: ``moving`` (the paper's choice), ``batch`` or ``dataset``.
            momentum: Of the moving average; the paper has 0.5, 0.9 measured better.
            floor: Added to the prior inside the logarithm; ours.
            strength: Factor of log P; the paper's 1.
            correlation: ``one-to-one`` takes label j to go with attribute value j; ``known`` uses the data source's
                category-level table (LC+).
            mixup: ``every-row`` is Algorithm 1 and measured best, ``minority-rows`` the paper's text (eq. 14).
            mixup_on: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
            ramp_up_epochs: T of Algorithm 1; the paper has 2, and 50 on Waterbirds and CelebA.
            mixup_limit: t of Algorithm 1 after the ramp-up, in [0, 0.5]: a row's own weight is drawn from
                U(1 - 2t, 1 - t). The paper's 0.5.
            biased_learning_rate_scale: Learning rate of the biased network relative to the robust one's.
            biased_schedule: ``none`` keeps the biased network's learning rate constant, ``same`` follows the run's.
            biased_epochs: Epochs after which the biased network stays as it is; None trains it to the end, as the paper
                does. Trained on, it learns the minority rows too and no longer knows them for such.
            biased_temperature: Divides the biased logits before the softmax that estimates the attribute.
            biased_pooling: If positive, the biased network sees pictures averaged down to so many cells a side:
                the belief that the shortcut is coarse. Not in the paper.
            seed: Seed of the initial weights and of everything random in a step.

        Raises:
            InputError: If an option is out of range or does not fit the data.
        """
        _check_options(q, momentum, floor, biased_temperature, info, biased_pooling)
        super().__init__(network, info, seed=seed)
        self.biased_network = self.build(biased_network or network, "biased network")
        self.correlation = _choose_correlation(correlation, info)
        self.group_prior = GroupPrior(
            self.correlation.num_labels,
            self.correlation.num_attributes,
            estimator="joint" if prior == "uniform" else prior,
            averaging="fixed" if prior == "uniform" else averaging,
            momentum=momentum,
            floor=floor,
        )
        self.q, self.gce_form, self.strength = q, gce_form, strength
        self.mixup, self.mixup_on, self.ramp_up_epochs = mixup, mixup_on, ramp_up_epochs
        self.mixup_limit = mixup_limit
        self.partner_prior: GroupPrior | None = None
        if mixup_prior == "product":
            self.partner_prior = GroupPrior(
                self.correlation.num_labels, self.correlation.num_attributes, estimator="joint", momentum=momentum
            )
        self.biased_learning_rate_scale, self.biased_schedule = biased_learning_rate_scale, biased_schedule
        self.biased_temperature, self.biased_pooling = biased_temperature, biased_pooling
        self.biased_epochs = biased_epochs
        if mixup_on == "features" and not (hasattr(self.network, "features") and hasattr(self.network, "head")):
            raise InputError("mixup_on=features needs a network with `features` and `head`: give one, or mix inputs")

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Train both networks on one batch."""
        frozen = self.biased_epochs is not None and epoch >= self.biased_epochs
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            biased_logits = self.biased_network(self._biased_inputs(batch.inputs))
            biased_loss = generalized_cross_entropy(biased_logits, batch.label, self.q, self.gce_form).mean()
        with torch.no_grad():
            attribute = self._estimate_and_update(biased_logits, batch.label)
            minority = self.correlation.is_minority(batch.label, attribute)
        robust_logits, correction = self._robust(batch, attribute, minority, epoch)
        robust_loss = logit_corrected_cross_entropy(robust_logits, batch.label, correction).mean()
        logs = {
            "loss_robust": robust_loss.detach(),
            "loss_biased": biased_loss.detach(),
            "estimated_minority": minority.float().mean(),
        }
        return Step(robust_loss + biased_loss, logs)

    def estimate(self, biased_logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return P(a|x) (B, K), a_x (B,) and the biased network's softmax (B, L)."""
        probability = softmax(biased_logits / self.biased_temperature, dim=1)
        posterior = self.correlation.posterior(probability)
        return posterior, posterior.argmax(1), probability

    def _estimate_and_update(self, biased_logits: Tensor, label: Tensor) -> Tensor:
        """Return a_x (B,) and let the group prior take in the batch."""
        assert self.group_prior is not None
        posterior, attribute, probability = self.estimate(biased_logits.detach())
        if self.group_prior.averaging != "fixed":
            own = probability.gather(1, label[:, None]).squeeze(1)
            self.group_prior.update(label, posterior, own)
        return attribute

    def _robust(self, batch: Batch, attribute: Tensor, minority: Tensor, epoch: float) -> tuple[Tensor, Tensor]:
        """Return the robust network's logits (B, L) on mixed samples and their correction (B, L)."""
        assert self.group_prior is not None
        prior = self.group_prior.for_attribute(attribute)
        if self.mixup == "none":
            return self.network(batch.inputs), self._correction(prior)
        on_features = self.mixup_on == "features"
        values = self.network.features(batch.inputs) if on_features else batch.inputs
        generator = self.randomness.next(batch.label.device)
        low, high = 0.5, 1.0
        if self.mixup == "every-row":
            ramp = 2 * self.mixup_limit * ramp_up(epoch, self.ramp_up_epochs)
            low, high = 1 - 2 * ramp, 1 - ramp
        weight = draw_weight(low, high, generator, batch.label.device)
        partner = mixup_partner(batch.label, minority, self.info.num_labels, generator, self.mixup)
        logits = (self.network.head if on_features else self.network)(mix(values, partner, weight))
        if self.partner_prior is None:
            return logits, self._correction(mix(prior, partner, weight))
        return logits, self._correction(prior) + self._partner_correction(batch.label, attribute[partner])

    def _partner_correction(self, label: Tensor, attribute: Tensor) -> Tensor:
        """Return log P(a_i | y) (B, L) of the partners' attributes, counted as the partners are drawn."""
        assert self.partner_prior is not None
        self.partner_prior.update(label, one_hot(attribute, self.correlation.num_attributes).float())
        table = self.partner_prior.table
        given_label = (table / table.sum(1, keepdim=True).clamp_min(1e-12)).t()[attribute]
        return self._correction(given_label)

    def _correction(self, prior: Tensor) -> Tensor:
        """Return strength * log P (B, L), shifted to be at most 0.

        The shift leaves the loss as it is, and makes a uniform prior correct by exactly nothing.
        """
        assert self.group_prior is not None
        log_prior = self.group_prior.log(prior)
        return self.strength * (log_prior - log_prior.amax(1, keepdim=True))

    def _biased_inputs(self, inputs: Inputs) -> Inputs:
        if not self.biased_pooling:
            return inputs
        size = inputs.shape[-2:]
        pooled = adaptive_avg_pool2d(inputs, self.biased_pooling)
        return torch.nn.functional.interpolate(pooled, size=size)

    def end_epoch(self) -> list[str]:
        """Close the prior's epoch and look for labels that the biased network has lost."""
        assert self.group_prior is not None
        self.group_prior.end_epoch()
        return []

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return the robust and the biased network's groups."""
        biased = {
            "params": list(self.biased_network.parameters()),
            "name": "biased_network",
            "learning_rate_scale": self.biased_learning_rate_scale,
        }
        if self.biased_schedule == "none":
            biased["schedule"] = "none"
        return [*super().parameter_groups(), biased]

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return each row's estimated attribute and whether it is taken for minority."""
        _, attribute, probability = self.estimate(self.biased_network(self._biased_inputs(batch.inputs)))
        return {
            "estimated_attribute": attribute,
            "minority": self.correlation.is_minority(batch.label, attribute),
            "label_probability": probability.gather(1, batch.label[:, None]).squeeze(1),
        }


def _choose_correlation(choice: str, info: DataInfo) -> Correlation:
    if choice == "one-to-one":
        return Correlation.one_to_one(info.num_labels)
    if info.correlation is None:
        raise InputError("correlation=known needs a data source that knows which labels go with which attribute values")
    if info.correlation.needs_within:
        raise InputError(
            f"the data's correlation is {info.correlation.kind}: one label goes with several attribute values, which "
            "takes per-sample weights that LC does not estimate; take correlation=one-to-one"
        )
    return info.correlation


def _check_options(
    q: float, momentum: float, floor: float, temperature: float, info: DataInfo, pooling: int
) -> None:
    if not 0 <= q <= 1:
        raise InputError(f"q is {q}, but must lie in [0, 1]; 0 is cross-entropy")
    if not 0 <= momentum < 1:
        raise InputError(f"momentum is {momentum}, but must lie in [0, 1)")
    if floor < 0:
        raise InputError(f"floor is {floor}, but must not be negative")
    if temperature <= 0:
        raise InputError(f"biased_temperature is {temperature}, but must be positive")
    if pooling and len(info.input_shape) != 3:
        raise InputError(f"biased_pooling needs pictures, but the inputs have shape {info.input_shape}: leave it at 0")
