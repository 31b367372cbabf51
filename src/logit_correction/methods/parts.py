"""Parts of methods: rules for the group prior, ways of mixing samples, and the relative difficulty of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from logit_correction.attributes.base import AttributeEstimator, BatchEstimate
from logit_correction.distributed import concatenate_over_processes
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import format_option
from logit_correction.functional import (
    MixupForm,
    count_prior,
    group_mixup,
    mix_rows,
    ramp_up_mixing_strength,
    shift_log_prior,
)
from logit_correction.losses import GroupPrior, PriorEstimator
from logit_correction.networks.base import split_at_mixing_point
from logit_correction.types import Batch, Correlation, DataInfo

_HERE = "logit_correction.methods.parts."

#: Name -> dotted path and one line for ``list``.
PRIORS: dict[str, tuple[str, str]] = {
    "Counted": (_HERE + "Counted", "counted once, from estimates that are static"),
    "Moving": (_HERE + "Moving", "estimated batch by batch, as in the paper"),
}
MIXING: dict[str, tuple[str, str]] = {
    "NoMixing": (_HERE + "NoMixing", "samples as they are"),
    "GroupMixUp": (_HERE + "GroupMixUp", "the paper's: partners of the same label (eq. 13)"),
    "IndependentMixUp": (_HERE + "IndependentMixUp", "partners of any label, which keeps the prior right"),
}


def check_is_static(attributes: AttributeEstimator, part: str, remedy: str) -> None:
    """Raise ``InputError`` unless the estimator is static.

    Args:
        attributes: The estimator.
        part: What needs static estimates, for the message.
        remedy: What to do instead, for the message.
    """
    if not attributes.is_static:
        raise InputError(f"{part} needs static estimates, and {type(attributes).__name__}'s change: {remedy}")


class PriorRule(ABC):
    """Computes the group prior P(y, a) from the estimated attributes."""

    @abstractmethod
    def build_prior(self, attributes: AttributeEstimator) -> GroupPrior:
        """Return an empty prior of the estimator's size; raise ``InputError`` if the estimator does not suit."""

    def fit_prior(self, prior: GroupPrior, attributes: AttributeEstimator) -> None:  # noqa: B027  (by default nothing)
        """Set the prior from the estimates of all rows, before the method's own stage.

        Args:
            prior: What ``build_prior`` returned.
            attributes: The estimator, which has finished.
        """

    def update_prior(self, prior: GroupPrior, label: Tensor, estimate: BatchEstimate) -> None:  # noqa: B027
        """Update the prior by a batch (eq. 9, 10).

        Args:
            prior: What ``build_prior`` returned.
            label: (B,) long.
            estimate: Of the same rows.
        """


class Counted(PriorRule):
    """P(y, a) counted once: proportional to the group's number of rows plus ``smoothing``. For static estimators."""

    def __init__(self, smoothing: float = 0.3) -> None:
        """Choose the smoothing.

        Args:
            smoothing: Added to the count of each group, 0 or more. The higher, the weaker the correction of rare
                groups; 0 leaves that of empty groups unbounded.
        """
        check_range("smoothing", smoothing, 0)
        self.smoothing = smoothing

    def build_prior(self, attributes: AttributeEstimator) -> GroupPrior:
        check_is_static(attributes, "prior=Counted", "give prior=Moving")
        return GroupPrior(attributes.info.num_labels, attributes.num_attributes, averaging="fixed", floor=0.0)

    def fit_prior(self, prior: GroupPrior, attributes: AttributeEstimator) -> None:
        prior.resize(attributes.num_attributes)
        attribute = attributes.row_attribute.cpu()
        if (attribute >= 0).any():  # else it stays uniform
            label = attributes.rows.label.cpu()
            prior.set_table(count_prior(label, attribute, prior.num_labels, prior.num_attributes, self.smoothing))


class Moving(PriorRule):
    """Estimated from each batch and averaged over time (eq. 9 - 11); see ``GroupPrior``. For estimators like Online."""

    def __init__(
        self,
        estimator: PriorEstimator = "joint",
        averaging: Literal["moving", "moving-rows", "batch", "dataset"] = "moving",
        momentum: float | None = None,
        floor: float = 5e-5,
        normalize_columns: bool = False,
    ) -> None:
        """Choose how batches are averaged.

        Args:
            estimator: ``joint``: eq. 9-11 of the paper; ``published``: mean of p_y(x) in each cell (y, a_x), as the
                published code takes it, where a cell without rows counts as 0; ``cell``: the same mean, but a cell
                without rows keeps its value; ``algorithm-1``: the paper's pseudo-code, which hardly corrects at all.
            averaging: ``moving`` (the paper's choice) or ``moving-rows`` (row by row, with ``published`` only),
                ``batch`` or ``dataset``.
            momentum: Of the moving average, in [0, 1); the paper has 0.5, None takes 0.99, which measured better. A
                high one averages out the chance of a batch and follows the biased network more slowly.
            floor: Added to the prior inside the logarithm, 0 or more; bounds the correction of rare groups. The
                published code has 1e-4.
            normalize_columns: Divide each attribute value's column by its sum, as the published code does on all
                data sets except Colored MNIST.
        """
        self.options: dict[str, Any] = {
            "estimator": estimator,
            "averaging": averaging,
            "momentum": 0.99 if momentum is None else momentum,
            "floor": floor,
            "normalize_columns": normalize_columns,
        }
        GroupPrior(1, 1, **self.options)  # which checks them

    def build_prior(self, attributes: AttributeEstimator) -> GroupPrior:
        if attributes.is_static:
            name = type(attributes).__name__
            raise InputError(f"prior=Moving follows estimates that change, and {name}'s do not: give prior=Counted")
        return GroupPrior(attributes.info.num_labels, attributes.num_attributes, **self.options)

    def update_prior(self, prior: GroupPrior, label: Tensor, estimate: BatchEstimate) -> None:
        assert estimate.posterior is not None
        prior.update(label, estimate.posterior, estimate.label_probability, estimate.attribute)


def describe_collapsed_labels(prior: GroupPrior, correlation: Correlation, label_names: tuple[str, ...]) -> list[str]:
    """Return a warning if a moving joint prior takes most rows of a label for bias-conflicting.

    The biased network has then probably stopped predicting the label.

    Args:
        prior: P(y, a).
        correlation: The attribute values of each label's majority.
        label_names: L names.

    Returns:
        One warning, or none.
    """
    if prior.estimator != "joint" or prior.averaging == "fixed" or not prior.visited.any():
        return []
    table = prior.table.cpu().double()
    aligned_share = (table * (correlation.weights > 0)).sum(1) / table.sum(1)
    lost = [name for name, share in zip(label_names, aligned_share.tolist(), strict=True) if share < 0.5]
    if not lost:
        return []
    return [
        f"the biased network takes most rows of label {', '.join(lost)} for bias-conflicting and may have lost the "
        f"label: compare another {format_option('seed')}, or raise q_ramp_up_epochs and head_start_epochs of its "
        "estimator"
    ]


@dataclass(frozen=True)
class MixingContext:
    """A batch, and everything that a way of mixing may use.

    Attributes:
        batch: The rows.
        attribute: (B,) long, the estimated attribute of each row, -1 where unknown.
        prior: P(y, a).
        correlation: The attribute values of each label's majority; all other groups are bias-conflicting.
        epoch: Epochs done, with the fraction of the current one.
        generator: Source of the random numbers.
    """

    batch: Batch
    attribute: Tensor
    prior: GroupPrior
    correlation: Correlation
    epoch: float
    generator: torch.Generator


class Mixing(ABC):
    """Computes the robust network's logits on mixed rows, and the log priors of these mixed rows.

    Attributes:
        place: What is mixed: the inputs, the features, or nothing.
    """

    place: Literal["inputs", "features", "nowhere"] = "nowhere"

    def check(self, network: nn.Module, info: DataInfo) -> None:
        """Raise ``InputError`` unless the network and the data can be mixed at ``place``.

        Args:
            network: The robust network.
            info: Sizes and names of the data.
        """
        if self.place == "inputs" and info.tokens:
            raise InputError(
                f"the inputs are texts, whose tokens cannot be mixed: mix features "
                f"({format_option('method.mixing.place', 'features')}), or "
                f"nothing ({format_option('method.mixing', 'NoMixing')})"
            )
        if self.place == "features" and not (hasattr(network, "features") and hasattr(network, "head")):
            raise InputError("mixing features needs a network with `features` and `head`: give one, or mix inputs")

    @abstractmethod
    def __call__(self, network: nn.Module, context: MixingContext) -> tuple[Tensor, Tensor]:
        """Return the robust network's logits (B, L) and log priors (B, L), finite, up to a constant for each row.

        Args:
            network: The robust network.
            context: The batch, its attributes and the prior.
        """


class NoMixing(Mixing):
    """Mixes nothing."""

    def __call__(self, network: nn.Module, context: MixingContext) -> tuple[Tensor, Tensor]:
        return network(context.batch.inputs), context.prior.log_for_attribute(context.attribute)


class IndependentMixUp(Mixing):
    """x' = (1 - lambda) x_j + lambda x_i with lambda ~ U(0, limit), the label y_j and the prior P(., a_j).

    The partner i is drawn from the batch independently of y_j, so that the counted prior P(y | a_j) stays exact.
    """

    def __init__(self, limit: float = 0.3, place: Literal["inputs", "features"] = "inputs") -> None:
        """Choose how much is mixed.

        Args:
            limit: The greatest weight lambda of the partner, in [0, 1]; 0 mixes nothing.
            place: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
        """
        check_range("limit", limit, 0, 1)
        self.limit = limit
        self.place = place

    def __call__(self, network: nn.Module, context: MixingContext) -> tuple[Tensor, Tensor]:
        generator = context.generator
        label = context.batch.label
        values, rest_of_network = split_at_mixing_point(network, context.batch.inputs, self.place)
        partner = torch.randint(len(label), label.shape, generator=generator, device=label.device)
        uniform = torch.rand(label.shape, generator=generator, device=label.device)
        mixed = mix_rows(values, partner, torch.rsub(uniform, 1, alpha=self.limit))
        return rest_of_network(mixed), context.prior.log_for_attribute(context.attribute)


class GroupMixUp(Mixing):
    """Mixes rows with rows of the same label, so that minority rows become more varied (eq. 13, Algorithm 1)."""

    def __init__(
        self,
        rows: MixupForm = "every-row",
        limit: float = 0.5,
        ramp_up_epochs: float = 2.0,
        place: Literal["inputs", "features"] = "inputs",
    ) -> None:
        """Choose which rows are mixed, and how; the defaults are the paper's.

        Args:
            rows: ``every-row`` is Algorithm 1: each row gets a minority partner of its label; ``minority-rows`` the
                paper's text (eq. 13): each minority row gets a majority partner.
            limit: t of Algorithm 1 after the ramp-up, in [0, 0.5]: a row's own weight is drawn from U(1 - 2t, 1 - t);
                with ``minority-rows`` it is drawn from U(0.5, 1), and the limit is not used.
            ramp_up_epochs: T of Algorithm 1, 0 or more; the paper has 2, and 50 on Waterbirds and CelebA. Mixing is
                weak until the attributes are estimated well.
            place: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
        """
        check_range("limit", limit, 0, 0.5)
        check_range("ramp_up_epochs", ramp_up_epochs, 0)
        self.rows: MixupForm = rows
        self.limit = limit
        self.ramp_up_epochs = ramp_up_epochs
        self.place = place

    def __call__(self, network: nn.Module, context: MixingContext) -> tuple[Tensor, Tensor]:
        label = context.batch.label
        generator = context.generator
        values, rest_of_network = split_at_mixing_point(network, context.batch.inputs, self.place)
        bounds = (0.5, 1.0)
        if self.rows == "every-row":
            t = 2 * self.limit * ramp_up_mixing_strength(context.epoch, self.ramp_up_epochs)
            bounds = (1 - 2 * t, 1 - t)
        weight = torch.empty((), device=label.device).uniform_(*bounds, generator=generator)
        mixed, prior_of_mixed = group_mixup(
            values,
            context.prior.for_attribute(context.attribute),
            label,
            context.correlation.is_minority(label, context.attribute),
            weight=weight,
            form=self.rows,
            generator=generator,
        )
        return rest_of_network(mixed), shift_log_prior(context.prior.log(prior_of_mixed))


class RelativeDifficulty(nn.Module):
    """W = l_B / (l_B + l_D): how hard a row is for a biased network relative to a debiased one.

    l_B and l_D are moving averages of the row's cross-entropy under either network; the first visit sets them. Each is
    divided by the greatest average of the row's label, so that a label that is hard throughout gets no more weight.
    LfF (Nam et al. 2020) and DFA (Lee et al. 2021) use it.
    """

    MOMENTUM = 0.7  # weight of the past in the moving average, as in both papers

    average: Tensor
    visited: Tensor
    row_label: Tensor

    def __init__(self, num_rows: int, num_labels: int) -> None:
        """Start without averages.

        Args:
            num_rows: N.
            num_labels: L.
        """
        super().__init__()
        self.num_labels = num_labels
        self.register_buffer("average", torch.zeros(2, num_rows))
        self.register_buffer("visited", torch.zeros(num_rows, dtype=torch.bool))
        self.register_buffer("row_label", torch.zeros(num_rows, dtype=torch.long))

    @torch.no_grad()
    def forward(self, index: Tensor, label: Tensor, biased: Tensor, debiased: Tensor) -> Tensor:
        """Update the averages by a batch of all processes, and return the weights (B,) of its rows, in [0, 1].

        Args:
            index: (B,) long, the training rows, each once.
            label: (B,) long.
            biased: (B,) cross-entropy under the biased network.
            debiased: (B,) cross-entropy under the debiased network.
        """
        losses = torch.stack((biased, debiased), dim=1).to(self.average.dtype)
        rows = concatenate_over_processes(index)
        current = concatenate_over_processes(losses).t()
        past = self.average.index_select(1, rows)
        was_visited = self.visited.index_select(0, rows)
        average = torch.where(was_visited, torch.lerp(current, past, self.MOMENTUM), current)
        self.average.index_copy_(1, rows, average)
        self.visited.index_fill_(0, rows, True)
        self.row_label.index_copy_(0, rows, concatenate_over_processes(label))
        # A row not yet visited has the average 0 and so is never the greatest.
        greatest = self.average.new_zeros(2, self.num_labels)
        greatest.scatter_reduce_(1, self.row_label.expand(2, -1), self.average, "amax")
        relative = self.average.index_select(1, index) / greatest.index_select(1, label).clamp_min(1e-12)
        return relative[0] / relative.sum(dim=0).clamp_min(1e-12)
