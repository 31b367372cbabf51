"""What every attribute estimator is, and what it says of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from logit_correction.distributed import broadcast_from_first
from logit_correction.errors import InputError
from logit_correction.finding import Finding
from logit_correction.finding_text import finding_to_dict
from logit_correction.functional import sum_by_group
from logit_correction.seeds import StepRandomness
from logit_correction.types import (
    UNKNOWN_ATTRIBUTE,
    Batch,
    Correlation,
    DataInfo,
    Inputs,
    NetworkFactory,
    Stage,
    Step,
    TrainingRows,
    ViewInputs,
)

#: Builds a network whose weights depend on the run's seed and the network's role alone.
NetworkBuilder: TypeAlias = Callable[[NetworkFactory, str], nn.Module]


@dataclass
class BatchEstimate:
    """What an estimator says of a batch; all but the loss without a gradient.

    Attributes:
        attribute: (B,) long, a_x, the attribute value of the greatest posterior; -1 where unknown.
        posterior: (B, K), P(a | x); None where the estimates are settled.
        label_probability: (B,), the biased network's p_y(x) of each row's label; None where settled.
        loss: The estimator's own loss, 0-d; None where nothing trains.
    """

    attribute: Tensor
    posterior: Tensor | None = None
    label_probability: Tensor | None = None
    loss: Tensor | None = None


class AttributeEstimator(nn.Module, ABC):
    """Tells the attribute of every training row to a method that wants one.

    An estimator is made of its options alone. The method then calls, in this order,

    1. ``attach`` once: sizes and names of the data, and a way to build networks;
    2. ``setup`` once, before training begins or resumes: the labels of all rows;
    3. for each of ``num_stages`` stages ``begin_stage``, ``step`` for each batch, and ``collect_outputs`` for all rows;
    4. ``finish`` with what the last stage collected, in any case before the method's own stage;
    5. ``forward`` for each batch of the method's own stage.

    A *settled* estimator knows each row's attribute for good when it is finished, by ``assign_training``. Otherwise
    ``forward`` estimates anew, and may train on.

    Attributes:
        components: Constructor argument that is a component with options of its own -> key of
            ``runs.options.get_component_kinds``.
        needs_attributes: Whether it reads attribute labels.
        num_stages: How many stages of the training loop it wants before the method's own.
        settled: See above.
        correlation: Which attribute values are a label's majority; by default label j has value j.
        attribute_names: K names; None where value j is only known as that of label j.
        row_attribute: (N,) long, a_x of every training row, -1 where unknown; of settled estimates.
        finding: What was found of a shortcut; None where nobody looked.
        row_posterior: (N, K), P(a | x) by what did not see the row; None where there is none.
    """

    components: ClassVar[Mapping[str, str]] = MappingProxyType({})
    needs_attributes: bool = False
    num_stages: int = 0
    is_static: bool = True
    correlation: Correlation
    attribute_names: list[str] | None = None
    row_attribute: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.finding: Finding | None = None
        self.row_posterior: Tensor | None = None

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Learn of the data, and build what there is to build: ``build`` makes a ``network`` for a role."""
        self.info, self.seed, self.correlation = info, seed, Correlation.one_to_one(info.num_labels)
        self.register_buffer("row_attribute", torch.full((info.num_rows,), UNKNOWN_ATTRIBUTE, dtype=torch.long))

    @property
    def has_abstained(self) -> bool:
        """Whether nothing is to be corrected, so that a method trains as ERM does."""
        return self.finding is not None and not self.finding.corrects

    @property
    def num_attributes(self) -> int:
        """K."""
        return self.correlation.num_attributes

    def setup(self, rows: TrainingRows) -> None:
        """Take in the training rows; does no long work."""
        self.rows = rows

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Prepare stage 0..num_stages-1; ``outputs`` (N, C) are those of ``collect_outputs`` after the one before."""
        raise NotImplementedError

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the loss of a batch in a stage of its own, ``epoch`` epochs after the stage began."""
        raise NotImplementedError

    def collect_outputs(self, batch: Batch) -> Tensor:
        """Return what is to be known of every row at the end of a stage, (B, C)."""
        raise NotImplementedError

    def predict(self, inputs: Inputs) -> Tensor:
        """Return logits (B, L) of what is trained in a stage of its own, for the figures of the validation rows."""
        raise NotImplementedError

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return the optimiser groups of the networks; asked for while they train, with the method or before it."""
        return []

    # -- estimates

    def finish(self, outputs: Tensor | None) -> None:
        """Make the estimates that the method's own stage begins with, by outputs (N, C) of the last; the long work.

        Every process keeps those of the first one. There are none as yet where estimates are not settled.
        """
        if not self.is_static:
            return
        found, shape, most = self.assign_training(outputs), tuple(self.row_attribute.shape), self.num_attributes - 1
        whole = isinstance(found, Tensor) and not found.is_floating_point() and found.shape == shape
        if not whole or bool(((found < UNKNOWN_ATTRIBUTE) | (found > most)).any()):
            raise InputError(
                f"{type(self).__name__}.assign_training must return a tensor of whole numbers of shape {shape}, from 0 "
                f"to {most}, {UNKNOWN_ATTRIBUTE} where unknown"
            )
        self.row_attribute.copy_(found)
        broadcast_from_first(self.row_attribute)

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        """Return the attribute (N,) of all rows, -1 where unknown."""
        raise NotImplementedError

    def forward(self, batch: Batch, epoch: float, randomness: StepRandomness) -> BatchEstimate:
        """Estimate the attributes of a batch, ``epoch`` epochs after the method's own stage began.

        Without gradients it trains nothing and draws nothing.
        """
        return BatchEstimate(self.row_attribute.index_select(0, batch.index))

    def predict_attributes(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        """Return the attribute (n,) of rows that were not trained on, -1 where unknown; its networks are in evaluation.

        None, as by default, where the estimator knows its training rows alone.
        """
        return None

    def group_counts(self) -> Tensor:
        """Return how many training rows each group has, (L, K); rows of unknown attribute are in none."""
        known = (self.row_attribute >= 0).double()
        label = self.rows.label.to(known.device)
        return sum_by_group(label, self.row_attribute.clamp_min(0), known, self.info.num_labels, self.num_attributes)[0]

    def update_from_losses(self, label: Tensor, losses: Tensor) -> None:
        """Take in the robust network's losses (B,) of a batch that was estimated last; by default do nothing."""

    def warnings(self) -> list[str]:
        """Return what a user should be told as things stand."""
        return []

    def get_extra_state(self) -> dict[str, Any]:
        found = None if self.finding is None else finding_to_dict(self.finding)
        return {"finding": found}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.finding = None if state["finding"] is None else Finding.from_dict(state["finding"])

    @abstractmethod
    def describe(self) -> str:
        """Say in one plain sentence where the attributes come from."""


def select_attribute(posterior: Tensor, label: Tensor, correlation: Correlation, odds: float = 1.0) -> Tensor:
    """Return each row's attribute (N,) by P(a | x), (N, K): a minority value where it exceeds the own ones by ``odds``.

    >>> posterior = torch.tensor([[0.75, 0.25], [0.95, 0.05]])
    >>> select_attribute(posterior, torch.tensor([1, 1]), Correlation.one_to_one(2), odds=10.0)
    tensor([1, 0])
    """
    conflicting = correlation.minority_groups(posterior.device).index_select(0, label)
    own_value, own = posterior.masked_fill(conflicting, -1.0).max(dim=1)
    other_value, other = posterior.masked_fill(~conflicting, -1.0).max(dim=1)
    return torch.where(other_value > odds * own_value, other, own)


@torch.no_grad()
def compute_outputs(network: Callable[[Inputs], Tensor], rows: ViewInputs, device: torch.device) -> Tensor:
    """Return what a network makes of rows, (n, C), on the CPU."""
    found = []
    for chunk in rows.chunks():
        inputs = rows.inputs(chunk)
        moved = inputs.to(device) if isinstance(inputs, Tensor) else {k: v.to(device) for k, v in inputs.items()}
        found.append(network(moved).float().cpu())
    return torch.cat(found)
