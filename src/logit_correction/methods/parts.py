"""Parts of methods: group priors, ways of mixing, and the relative difficulty of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from logit_correction.attributes.base import AttributeEstimator, BatchEstimate
from logit_correction.distributed import concatenate_over_processes
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import format_option
from logit_correction.functional import MixupForm, count_prior, group_mixup, mix, ramp_up, shift_log_prior
from logit_correction.losses import GroupPrior, PriorEstimator
from logit_correction.networks.base import split_at_mixing_point
from logit_correction.types import Batch, Correlation, DataInfo

_HERE = "logit_correction.methods.parts."

#: Name -> dotted path and one line.
PRIORS: dict[str, tuple[str, str]] = {
    "Counted": (_HERE + "Counted", "counted once, from estimates that are settled"),
    "Moving": (_HERE + "Moving", "estimated batch by batch, as in the paper"),
}
MIXING: dict[str, tuple[str, str]] = {
    "NoMixing": (_HERE + "NoMixing", "samples as they are"),
    "GroupMixUp": (_HERE + "GroupMixUp", "the paper's: partners of the same label (eq. 13)"),
    "IndependentMixUp": (_HERE + "IndependentMixUp", "partners drawn whatever they are, which keeps the prior right"),
}


def check_is_static(attributes: AttributeEstimator, what: str, fix: str) -> None:
    """Raise ``InputError`` unless the estimates are settled before the method's own stage; ``fix`` is the advice."""
    if not attributes.is_static:
        name = type(attributes).__name__
        raise InputError(f"{what} needs estimates that are settled, and {name}'s are not: {fix}")


class PriorRule(ABC):
    """Makes a group prior and feeds it."""

    @abstractmethod
    def make(self, attributes: AttributeEstimator) -> GroupPrior:
        """Return an empty prior of the estimator's size; raise ``InputError`` if the estimator cannot serve."""

    def begin(self, prior: GroupPrior, attributes: AttributeEstimator) -> None:  # noqa: B027  (by default nothing)
        """Set the prior by the estimates of all rows, before the method's own stage."""

    def update(self, prior: GroupPrior, label: Tensor, estimate: BatchEstimate) -> None:  # noqa: B027
        """Update the prior by a batch (eq. 9, 10)."""


class Counted(PriorRule):
    """P(y, a) counted once: proportional to the group's number of rows plus ``smoothing``."""

    def __init__(self, smoothing: float = 0.3) -> None:
        """Choose the smoothing.

        Args:
            smoothing: Added to the count of each group, 0 or more; bounds the correction of empty groups.
        """
        check_range("smoothing", smoothing, 0)
        self.smoothing = smoothing

    def make(self, attributes: AttributeEstimator) -> GroupPrior:
        check_is_static(attributes, "prior=Counted", "give prior=Moving")
        return GroupPrior(attributes.info.num_labels, attributes.num_attributes, averaging="fixed", floor=0.0)

    def begin(self, prior: GroupPrior, attributes: AttributeEstimator) -> None:
        prior.resize(attributes.num_attributes)
        attribute, sizes = attributes.row_attribute.cpu(), (prior.num_labels, prior.num_attributes)
        if bool((attribute >= 0).any()):  # else it stays uniform
            prior.set_table(count_prior(attributes.rows.label.cpu(), attribute, *sizes, self.smoothing))


class Moving(PriorRule):
    """Estimated from each batch and averaged over time (eq. 9 - 11); see ``GroupPrior``."""

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
                without rows keeps its value; ``algorithm-1``: the paper's pseudo-code, which corrects next to nothing.
            averaging: ``moving`` (the paper's choice) or ``moving-rows`` (row by row, with ``published`` only),
                ``batch`` or ``dataset``.
            momentum: Of the moving average, in [0, 1); the paper has 0.5, None takes 0.99, which measured better.
            floor: Added to the prior inside the logarithm, 0 or more; the published code has 1e-4.
            normalize_columns: Divide each attribute value's column by its sum, as the published code does on all
                data sets but Colored MNIST.
        """
        self.momentum = 0.99 if momentum is None else momentum
        check_range("momentum", self.momentum, 0, 1, open_end=True)
        check_range("floor", floor, 0)
        self.estimator: PriorEstimator = estimator
        self.averaging: Literal["moving", "moving-rows", "batch", "dataset"] = averaging
        self.floor = floor
        self.normalize_columns = normalize_columns
        if averaging == "moving-rows" and estimator != "published":
            raise InputError(f"averaging=moving-rows needs estimator=published, not {estimator}")

    def make(self, attributes: AttributeEstimator) -> GroupPrior:
        if attributes.is_static:
            name = type(attributes).__name__
            raise InputError(f"prior=Moving follows estimates that change, and {name}'s do not: give prior=Counted")
        return GroupPrior(attributes.info.num_labels, attributes.num_attributes, **vars(self))

    def update(self, prior: GroupPrior, label: Tensor, estimate: BatchEstimate) -> None:
        assert estimate.posterior is not None
        prior.update(label, estimate.posterior, estimate.label_probability, estimate.attribute)


def describe_lost_labels(prior: GroupPrior, correlation: Correlation, names: tuple[str, ...]) -> list[str]:
    """Return a warning of labels most rows of which are taken for bias-conflicting, by a moving joint prior."""
    if prior.estimator != "joint" or prior.averaging == "fixed" or not bool(prior.visited.any()):
        return []
    table = prior.table.cpu().double()
    aligned = (table * (correlation.weights > 0)).sum(1) / table.sum(1)
    lost = ", ".join(names[i] for i in (aligned < 0.5).nonzero().flatten().tolist())
    warning = (
        f"the biased network takes most rows of label {lost} for bias-conflicting and may have lost the label: "
        f"compare another {format_option('seed')}, or raise q_ramp_up_epochs and head_start_epochs of its estimator"
    )
    return [warning] if lost else []


@dataclass(frozen=True)
class MixingContext:
    """A batch and all that a way of mixing may use.

    Attributes:
        batch: The rows.
        attribute: (B,) long, the estimated attribute of each row, -1 where unknown.
        prior: P(y, a).
        correlation: Tells which groups are minority.
        epoch: Epochs done, with the fraction of the current one.
        generator: Source of the randomness.
    """

    batch: Batch
    attribute: Tensor
    prior: GroupPrior
    correlation: Correlation
    epoch: float
    generator: torch.Generator


class Mixing(ABC):
    """Returns the robust network's logits on mixed rows, and the log priors of these mixed rows.

    Attributes:
        place: What is mixed: the inputs, the features, or nothing.
    """

    place: Literal["inputs", "features", "nowhere"] = "nowhere"

    def check(self, network: nn.Module, info: DataInfo) -> None:
        """Raise ``InputError`` unless the network and the data can be mixed at ``place``."""
        if self.place == "inputs" and info.tokens:
            raise InputError(
                f"the inputs are texts, whose tokens cannot be mixed: mix features "
                f"({format_option('method.mixing.place', 'features')}), or "
                f"nothing ({format_option('method.mixing', 'NoMixing')})"
            )
        if self.place == "features" and not (hasattr(network, "features") and hasattr(network, "head")):
            raise InputError("mixing features needs a network with `features` and `head`: give one, or mix inputs")

    @abstractmethod
    def __call__(self, network: nn.Module, given: MixingContext) -> tuple[Tensor, Tensor]:
        """Return the robust network's logits (B, L) and log priors (B, L), finite, up to a constant for each row."""


class NoMixing(Mixing):
    """Mixes nothing."""

    def __call__(self, network: nn.Module, given: MixingContext) -> tuple[Tensor, Tensor]:
        return network(given.batch.inputs), given.prior.log_for_attribute(given.attribute)


class IndependentMixUp(Mixing):
    """x' = (1 - lambda) x_j + lambda x_i with lambda ~ U(0, limit), the label y_j and the prior P(., a_j).

    The partner i is drawn from the batch independently of y_j, so that the counted prior P(y | a_j) stays exact.
    """

    def __init__(self, limit: float = 0.3, place: Literal["inputs", "features"] = "inputs") -> None:
        """Choose how much is mixed.

        Args:
            limit: The greatest weight lambda of the partner, in [0, 1].
            place: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
        """
        check_range("limit", limit, 0, 1)
        self.limit, self.place = limit, place

    def __call__(self, network: nn.Module, given: MixingContext) -> tuple[Tensor, Tensor]:
        size, device, drawn_by = len(given.batch.label), given.batch.label.device, given.generator
        values, rest = split_at_mixing_point(network, given.batch.inputs, self.place)
        partner = torch.randint(size, (size,), generator=drawn_by, device=drawn_by.device)
        own = torch.rsub(torch.rand(size, generator=drawn_by, device=drawn_by.device), 1, alpha=self.limit)
        mixed = mix(values, partner.to(device, non_blocking=True), own.to(device, non_blocking=True))
        return rest(mixed), given.prior.log_for_attribute(given.attribute)


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
                with ``minority-rows`` it is drawn from U(0.5, 1) whatever the limit.
            ramp_up_epochs: T of Algorithm 1; the paper has 2, and 50 on Waterbirds and CelebA.
            place: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
        """
        check_range("limit", limit, 0, 0.5)
        check_range("ramp_up_epochs", ramp_up_epochs, 0)
        self.rows: MixupForm = rows
        self.limit, self.ramp_up_epochs, self.place = limit, ramp_up_epochs, place

    def __call__(self, network: nn.Module, given: MixingContext) -> tuple[Tensor, Tensor]:
        label, prior, drawn_by = given.batch.label, given.prior, given.generator
        values, rest = split_at_mixing_point(network, given.batch.inputs, self.place)
        t = 2 * self.limit * ramp_up(given.epoch, self.ramp_up_epochs)
        low, high = (1 - 2 * t, 1 - t) if self.rows == "every-row" else (0.5, 1.0)
        weight = torch.empty((), device=drawn_by.device).uniform_(low, high, generator=drawn_by)
        mixed, prior_of_mixed = group_mixup(
            values,
            prior.for_attribute(given.attribute),
            label,
            given.correlation.is_minority(label, given.attribute),
            weight=weight.to(label.device, non_blocking=True),
            form=self.rows,
            generator=drawn_by,
        )
        return rest(mixed), shift_log_prior(prior.log(prior_of_mixed))


class RelativeDifficulty(nn.Module):
    """W = l_B / (l_B + l_D): how hard a row is for a biased network relative to a debiased one.

    l_B and l_D are moving averages of the row's cross-entropy under either network; the first visit sets them. Each is
    divided by the greatest average of the row's label, so that a label that is hard throughout gets no more weight.
    LfF (Nam et al. 2020) and DFA (Lee et al. 2021) use it. ``momentum`` is the weight of the past, 0.7 in both papers.
    """

    average: Tensor
    visited: Tensor
    row_label: Tensor

    def __init__(self, num_rows: int, num_labels: int, momentum: float = 0.7) -> None:
        super().__init__()
        self.num_labels, self.momentum = num_labels, momentum
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
        rows, current = concatenate_over_processes(index), concatenate_over_processes(losses).t()
        past = self.average.index_select(1, rows)
        moved = torch.where(self.visited.index_select(0, rows), torch.lerp(current, past, self.momentum), current)
        self.average.index_copy_(1, rows, moved)
        self.visited.index_fill_(0, rows, True)
        self.row_label.index_copy_(0, rows, concatenate_over_processes(label))
        # A row not yet visited has the average 0 and so is never the greatest, whatever its label.
        greatest = self.average.new_zeros(2, self.num_labels)
        greatest.scatter_reduce_(1, self.row_label.expand(2, -1), self.average, "amax")
        relative = self.average.index_select(1, index) / greatest.index_select(1, label).clamp_min(1e-12)
        return relative[0] / relative.sum(dim=0).clamp_min(1e-12)
