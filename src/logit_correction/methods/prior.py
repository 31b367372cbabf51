"""How a method comes to the group prior P(y, a): counted once, or estimated batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from logit_correction.attributes.base import AttributeEstimator, Estimate
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError, check_range
from logit_correction.prior import Averaging, Estimator, GroupPrior

#: Name -> dotted path and one line.
PRIORS: dict[str, tuple[str, str]] = {
    "Counted": ("logit_correction.methods.prior.Counted", "counted once, from estimates that are settled"),
    "Moving": ("logit_correction.methods.prior.Moving", "estimated batch by batch, as in the paper"),
}


class PriorRule(ABC):
    """Makes a group prior and feeds it."""

    @abstractmethod
    def make(self, attributes: AttributeEstimator) -> GroupPrior:
        """Return an empty prior of the estimator's size.

        Raises:
            InputError: If the estimator cannot serve this rule.
        """

    @abstractmethod
    def begin(self, prior: GroupPrior, attributes: AttributeEstimator) -> None:
        """Take in what is known of all rows before the method's own stage."""

    @abstractmethod
    def update(self, prior: GroupPrior, label: Tensor, estimate: Estimate) -> None:
        """Take in a batch (eq. 9, 10)."""


class Counted(PriorRule):
    """P(y, a) proportional to the number of rows of the group plus ``smoothing``; exact where the estimates are."""

    def __init__(self, smoothing: float = 0.3) -> None:
        """Choose the smoothing.

        Args:
            smoothing: Added to the count of each group, 0 or more; bounds the correction of empty groups.
        """
        check_range("smoothing", smoothing, 0)
        self.smoothing = smoothing

    def make(self, attributes: AttributeEstimator) -> GroupPrior:
        """Return an empty prior."""
        if not attributes.settled:
            name = type(attributes).__name__
            raise InputError(f"prior=Counted needs estimates that are settled, and {name}'s are not: give prior=Moving")
        return GroupPrior(attributes.info.num_labels, attributes.num_attributes, averaging="fixed", floor=0.0)

    def begin(self, prior: GroupPrior, attributes: AttributeEstimator) -> None:
        """Count the groups; where no row's attribute is known the prior stays uniform."""
        prior.resize(attributes.num_attributes)
        counts = attributes.group_counts()
        if bool(counts.sum() > 0):
            counts = counts.double().cpu() + self.smoothing
            prior.set_table((counts / counts.sum()).to(torch.get_default_dtype()))

    def update(self, prior: GroupPrior, label: Tensor, estimate: Estimate) -> None:
        """Leave the prior as it was counted."""


class Moving(PriorRule):
    """Estimated from each batch and averaged over time (eq. 9 - 11); see ``GroupPrior``."""

    def __init__(
        self,
        estimator: Estimator = "joint",
        averaging: Averaging = "moving",
        momentum: float | None = None,
        floor: float = 5e-5,
    ) -> None:
        """Choose how batches are averaged.

        Args:
            estimator: ``joint``: eq. 9-11 of the paper; ``cell``: mean of p_y(x) in each cell (y, a_x), as the
                published runs have it; ``algorithm-1``: the paper's pseudo-code, which corrects next to nothing.
            averaging: ``moving`` (the paper's choice), ``batch`` or ``dataset``.
            momentum: Of the moving average, in [0, 1); the paper has 0.5, None takes 0.99, which measured better.
            floor: Added to the prior inside the logarithm; ours.
        """
        if momentum is not None and averaging != "moving":
            raise InputError(f"momentum concerns averaging=moving, not {averaging}: leave it out")
        momentum = 0.99 if momentum is None else momentum
        check_range("momentum", momentum, 0, 1, open_end=True)
        check_range("floor", floor, 0)
        if averaging == "fixed":
            raise InputError("averaging is fixed, but must be moving, batch or dataset: prior=Counted is fixed")
        self.estimator: Estimator = estimator
        self.averaging: Averaging = averaging
        self.momentum, self.floor = momentum, floor

    def make(self, attributes: AttributeEstimator) -> GroupPrior:
        """Return an empty prior."""
        if attributes.settled:
            name = type(attributes).__name__
            raise InputError(f"prior=Moving follows estimates that change, and {name}'s do not: give prior=Counted")
        return GroupPrior(
            attributes.info.num_labels,
            attributes.num_attributes,
            estimator=self.estimator,
            averaging=self.averaging,
            momentum=self.momentum,
            floor=self.floor,
        )

    def begin(self, prior: GroupPrior, attributes: AttributeEstimator) -> None:
        """Begin with an empty prior."""

    def update(self, prior: GroupPrior, label: Tensor, estimate: Estimate) -> None:
        """Take in a batch."""
        assert estimate.posterior is not None
        own = estimate.label_probability if self.estimator == "cell" else None
        prior.update(label, estimate.posterior, own, estimate.attribute)


def fitting_rule(attributes: AttributeEstimator) -> PriorRule:
    """Return the rule for an estimator where nobody chose: counted if its estimates are settled."""
    return Counted() if attributes.settled else Moving()


def lost_labels(prior: GroupPrior, correlation: Correlation, names: tuple[str, ...]) -> list[str]:
    """Warn of labels that a biased network has lost, as a moving joint prior tells.

    A label is lost if more than half of its rows are taken for bias-conflicting: the network then predicts it hardly
    ever, which generalized cross-entropy can bring about for good.
    """
    if prior.estimator != "joint" or prior.averaging == "fixed" or not bool(prior.visited.any()):
        return []
    table = prior.table.cpu().double()
    aligned = (table * (correlation.weights > 0)).sum(1) / table.sum(1)
    lost = [names[i] for i in (aligned < 0.5).nonzero().flatten().tolist()]
    if not lost:
        return []
    return [
        f"the biased network takes most rows of label {', '.join(lost)} for bias-conflicting and may have lost the "
        "label: compare another --seed, or raise q_ramp_up_epochs and head_start_epochs of its estimator"
    ]
