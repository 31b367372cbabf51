"""How a method mixes the samples that its robust network sees: not at all, by Group MixUp, or independently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from logit_correction.correlation import Correlation
from logit_correction.errors import InputError, check_range
from logit_correction.functional import (
    MixupForm,
    draw_weight,
    independent_partner,
    mix,
    mixup_partner,
    partner_prior_of,
    ramp_up,
)
from logit_correction.functional.prior import LEAST_LOG, shifted
from logit_correction.networks.base import check_mixing_place, mixing_place
from logit_correction.prior import GroupPrior
from logit_correction.types import Batch, DataInfo

#: Name -> dotted path and one line.
MIXING: dict[str, tuple[str, str]] = {
    "NoMixing": ("logit_correction.methods.mixing.NoMixing", "samples as they are"),
    "GroupMixUp": ("logit_correction.methods.mixing.GroupMixUp", "the paper's: partners of the same label (eq. 13)"),
    "IndependentMixUp": (
        "logit_correction.methods.mixing.IndependentMixUp",
        "partners drawn whatever they are, which keeps the prior right",
    ),
}


@dataclass(frozen=True)
class Mixable:
    """What a batch can be mixed by.

    Attributes:
        batch: The rows.
        attribute: (B,) long, the estimated attribute of each row, -1 where unknown.
        prior: P(y, a).
        correlation: Which groups are minority.
        epoch: Epochs done.
        generator: Source of the randomness.
        drawn: (L, K), how often rows of each group are drawn, up to a factor; None where all are as often.
    """

    batch: Batch
    attribute: Tensor
    prior: GroupPrior
    correlation: Correlation
    epoch: float
    generator: torch.Generator
    drawn: Tensor | None = None

    def own_log_prior(self) -> Tensor:
        """Return each row's own log prior (B, L), finite, as of a sample that is not mixed."""
        return self.prior.log_for_attribute(self.attribute)


class Mixing(ABC):
    """Makes the robust network's logits on mixed samples, and the log prior that goes with them."""

    def check(  # noqa: B027  (no mixing needs no check)
        self, network: nn.Module, info: DataInfo, prior: GroupPrior
    ) -> None:
        """Return if the inputs or the network's features can be mixed, and the prior goes with it.

        Raises:
            InputError: Otherwise.
        """

    @abstractmethod
    def __call__(self, network: nn.Module, given: Mixable) -> tuple[Tensor, Tensor]:
        """Return the robust network's logits (B, L) and log priors (B, L), finite, but for a constant for each row."""


class NoMixing(Mixing):
    """Mixes nothing."""

    def __call__(self, network: nn.Module, given: Mixable) -> tuple[Tensor, Tensor]:
        """Return the logits of the samples as they are."""
        return network(given.batch.inputs), given.own_log_prior()


class IndependentMixUp(Mixing):
    """x' = (1 - lambda) x_j + lambda x_i with lambda ~ U(0, limit), the label y_j and the prior P(., a_j).

    The partner i is drawn from the batch independently of j, whatever its label: so it says nothing of y_j, P(y | a_j)
    stays what it was, and a counted prior stays right. A partner of the same label would tell the label, and change it.
    """

    def __init__(self, limit: float = 0.3, place: Literal["inputs", "features"] = "inputs") -> None:
        """Choose how much is mixed.

        Args:
            limit: The greatest weight lambda of the partner, in [0, 1].
            place: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
        """
        check_range("limit", limit, 0, 1)
        self.limit, self.place = limit, place

    def check(self, network: nn.Module, info: DataInfo, prior: GroupPrior) -> None:
        """Return if there is something to mix."""
        check_mixing_place(network, self.place, tokens=info.tokens)

    def __call__(self, network: nn.Module, given: Mixable) -> tuple[Tensor, Tensor]:
        """Return the logits of mixed samples and each row's own log prior."""
        label = given.batch.label
        values, rest = mixing_place(network, given.batch.inputs, self.place)
        partner, own = independent_partner(len(label), self.limit, given.generator, label.device)
        return rest(mix(values, partner, own)), given.own_log_prior()


class GroupMixUp(Mixing):
    """Partners of the same label, so that minority samples become more varied (eq. 13, Algorithm 1)."""

    def __init__(
        self,
        rows: MixupForm = "every-row",
        prior: Literal["convex", "product"] = "convex",
        limit: float = 0.5,
        ramp_up_epochs: float = 2.0,
        place: Literal["inputs", "features"] = "inputs",
    ) -> None:
        """Choose which rows are mixed, and how; the defaults are the paper's.

        Args:
            rows: ``every-row`` is Algorithm 1: each row gets a minority partner of its label; ``minority-rows`` the
                paper's text (eq. 13): each minority row gets a majority partner.
            prior: Prior of a mixed row: ``convex`` is eq. 13, ``product`` that of all that the mixed row shows,
                P(y, a_j) P(a_i | y, a_j); see ``functional.partner_prior``.
            limit: t of Algorithm 1 after the ramp-up, in [0, 0.5]: a row's own weight is drawn from U(1 - 2t, 1 - t);
                with ``minority-rows`` it is drawn from U(0.5, 1) whatever the limit.
            ramp_up_epochs: T of Algorithm 1; the paper has 2, and 50 on Waterbirds and CelebA.
            place: Mix ``inputs``, or ``features`` where inputs cannot be mixed.
        """
        check_range("limit", limit, 0, 0.5)
        check_range("ramp_up_epochs", ramp_up_epochs, 0)
        if rows == "minority-rows" and (limit, ramp_up_epochs) != (0.5, 2.0):
            raise InputError("limit and ramp_up_epochs concern rows=every-row: leave them out beside minority-rows")
        self.rows: MixupForm = rows
        self.prior, self.limit, self.ramp_up_epochs, self.place = prior, limit, ramp_up_epochs, place

    def check(self, network: nn.Module, info: DataInfo, prior: GroupPrior) -> None:
        """Return if there is something to mix, and a prior that can be multiplied."""
        check_mixing_place(network, self.place, tokens=info.tokens)
        if self.prior == "product" and prior.estimator != "joint":
            raise InputError(
                f"mixing with prior=product needs a joint probability, but the group prior's estimator is "
                f"{prior.estimator}: give estimator=joint"
            )

    def __call__(self, network: nn.Module, given: Mixable) -> tuple[Tensor, Tensor]:
        """Return the logits of mixed samples and the log prior of what they show."""
        label, attribute, prior = given.batch.label, given.attribute, given.prior
        values, rest = mixing_place(network, given.batch.inputs, self.place)
        t = 2 * self.limit * ramp_up(given.epoch, self.ramp_up_epochs)
        low, high = (1 - 2 * t, 1 - t) if self.rows == "every-row" else (0.5, 1.0)
        weight = draw_weight(low, high, given.generator, label.device)
        minority = given.correlation.is_minority(label, attribute)
        partner = mixup_partner(label, minority, prior.num_labels, given.generator, self.rows)
        logits, own = rest(mix(values, partner, weight)), prior.for_attribute(attribute)
        if self.prior == "convex":
            return logits, shifted(prior.log(mix(own, partner, weight)))
        minority_groups = given.correlation.minority_groups(attribute.device)
        other = attribute[partner]
        pair = attribute.clamp_min(0), other.clamp_min(0)
        # Partners are among the rows of the batch, of which small groups may have been drawn oftener.
        table = prior.table if given.drawn is None else prior.table * given.drawn.to(prior.table)
        drawn = partner_prior_of(table, minority_groups, len(label), *pair, self.rows).t()
        drawn = drawn.where(((attribute >= 0) & (other >= 0)).unsqueeze(1), 1.0)  # what is unknown corrects nothing
        return logits, shifted(prior.log(own) + torch.log(drawn + prior.floor).clamp_min(LEAST_LOG))
