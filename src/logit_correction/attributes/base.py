"""The interface of all attribute estimators, and what one returns for a batch.

Methods such as LC, GroupDRO and Reweighting need the attribute of every training row, which data sets rarely have. An
attribute estimator supplies it: from a file, from labels, or from a network that learns the shortcut. ``docs/parts.md``
compares the estimators; ``examples/extensions/early.py`` is a complete one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from logit_correction.distributed import broadcast_in_place
from logit_correction.errors import InputError
from logit_correction.finding import Finding
from logit_correction.finding_text import finding_to_dict
from logit_correction.functional import count_groups
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
    convert_inputs,
)

#: Builds a network. Its weights depend only on the run's seed and on the second argument, the network's role.
NetworkBuilder: TypeAlias = Callable[[NetworkFactory, str], nn.Module]

#: One optimizer group: ``params``, ``name``, and options of the optimizer; see ``Algorithm.parameter_groups``.
ParameterGroup: TypeAlias = dict[str, object]


@dataclass
class BatchEstimate:
    """The estimated attributes of a batch. Only ``loss`` has a gradient.

    Attributes:
        attribute: (B,) long, a_x, the attribute value of the greatest posterior; -1 where unknown.
        posterior: (B, K), P(a | x); None if the estimator is static.
        label_probability: (B,), the biased network's p_y(x) of each row's label; None if the estimator is static.
        loss: The estimator's own loss, 0-d, which the method adds to its loss; None if nothing trains.
    """

    attribute: Tensor
    posterior: Tensor | None = None
    label_probability: Tensor | None = None
    loss: Tensor | None = None


def make_parameter_group(network: nn.Module, name: str, **options: object) -> ParameterGroup:
    """Return the optimizer group of all parameters of a network.

    Args:
        network: The network.
        name: Names the network; gradients are clipped by name.
        options: Further entries, such as ``schedule``; see ``Algorithm.parameter_groups``. Those of None are left out.
    """
    given = {option: value for option, value in options.items() if value is not None}
    return {"params": list(network.parameters()), "name": name, **given}


class AttributeEstimator(nn.Module, ABC):
    """The base of all attribute estimators.

    The constructor takes options only. A method then calls, in this order,

    1. ``attach`` once, with the sizes and names of the data and a function that builds networks;
    2. ``setup`` once, with the labels of all rows, before training begins or resumes;
    3. for each of ``num_stages`` stages ``begin_stage``, ``step`` for each batch, and ``collect_outputs`` for all rows;
    4. ``finish`` with the outputs of the last stage (None without stages), before the method's own stage;
    5. ``forward`` for each batch of the method's own stage.

    A *static* estimator assigns each training row its attribute once, in ``assign_training``. Other estimators
    estimate each batch anew in ``forward``, and may go on training there.

    To write a static estimator without a network, override ``assign_training`` and ``describe``. One with a network
    also sets ``num_stages`` and ``epochs``, and overrides ``build_networks``, ``step`` and ``predict_logits``.

    Attributes:
        components: Constructor arguments that have options of their own, each named by the kind of component.
        needs_attributes: Whether it reads the attribute labels of the training rows.
        num_stages: Number of stages of the training loop before the method's own.
        epochs: Length of each of these stages; None for the epochs that the user asked for.
        schedule: Schedule of the networks' learning rate; None follows the run's.
        is_static: Whether each row's attribute is fixed before the method's own stage.
        correlation: The attribute values of each label's majority.
        correlation_option: ``one-to-one`` pairs label j with value j; ``known`` takes the data source's table.
        attribute_names: K names; None where value j is only known as that of label j.
        row_attribute: (N,) long, a_x of every training row, -1 where unknown; only for static estimators.
        finding: The result of a search for a shortcut; None if there was no search.
        row_posterior: (N, K), P(a | x) by networks that were not trained on the row; None without them.
    """

    components: Sequence[str] = ()
    needs_attributes: bool = False
    num_stages: int = 0
    epochs: int | None = None
    schedule: str | None = None
    is_static: bool = True
    correlation: Correlation
    correlation_option: str = "one-to-one"
    attribute_names: list[str] | None = None
    row_attribute: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.finding: Finding | None = None
        self.row_posterior: Tensor | None = None

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Store the facts of the data and build the estimator's networks; override ``build_networks`` instead.

        Args:
            build: Builds a network, given a factory and the role of the network.
            network: Factory of the kind of network that the user chose, such as ``--biased_network``.
            info: Sizes and names of the data.
            seed: The run's seed.
        """
        self.info = info
        self.seed = seed
        self.correlation = info.get_correlation(self.correlation_option)
        self.register_buffer("row_attribute", torch.full((info.num_rows,), UNKNOWN_ATTRIBUTE, dtype=torch.long))
        self.build_networks(partial(build, network))

    def build_networks(self, build: Callable[[str], nn.Module]) -> None:
        """Build the estimator's networks; ``build`` builds one, given its role. By default there are none."""

    @property
    def has_abstained(self) -> bool:
        """Whether nothing is to be corrected, so that a method trains as ERM does."""
        return self.finding is not None and not self.finding.corrects

    @property
    def num_attributes(self) -> int:
        """K, the number of attribute values."""
        return self.correlation.num_attributes

    def adopt_finding(self, finding: Finding) -> None:
        """Take what an earlier search on these data found instead of searching; called after ``setup``."""

    def setup(self, rows: TrainingRows) -> None:
        """Store the training rows; must not take long."""
        self.rows = rows

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Prepare a stage and return what it asks of the training loop.

        Args:
            stage: 0..num_stages-1.
            outputs: (N, C), what ``collect_outputs`` returned at the end of the stage before; None at stage 0.
        """
        return Stage(epochs=self.epochs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the loss of a batch in one of the estimator's stages.

        Args:
            batch: The rows.
            epoch: Epochs since the stage began, with the fraction of the current one.
            randomness: Source of the random numbers of a step.
        """
        raise NotImplementedError

    def predict_logits(self, inputs: Inputs) -> Tensor:
        """Return the logits (B, L) of the networks that train in the estimator's stages."""
        raise NotImplementedError

    def compute_logits(self, inputs: ViewInputs) -> Tensor:
        """Return the logits (n, L) of rows that were not trained on, by ``predict_logits`` in chunks, on the CPU."""
        return compute_network_outputs(self.predict_logits, inputs, next(self.parameters()))

    def collect_outputs(self, batch: Batch) -> Tensor:
        """Return what ``begin_stage`` and ``assign_training`` get of each row, (B, C); by default its logits."""
        return self.predict_logits(batch.inputs)

    def parameter_groups(self) -> list[ParameterGroup]:
        """Return an optimizer group for each network; called while they train, before the method or with it."""
        networks: list[nn.Module] = []
        for child in self.children():
            networks += child if isinstance(child, nn.ModuleList) else [child]
        name = type(self).__name__
        return [make_parameter_group(part, f"{name} {i}", schedule=self.schedule) for i, part in enumerate(networks)]

    # -- estimates

    def finish(self, outputs: Tensor | None) -> None:
        """Assign the attributes of all training rows if the estimator is static; may take long.

        Every process uses the result of the first one.

        Args:
            outputs: (N, C), what ``collect_outputs`` returned at the end of the last stage; None without stages.

        Raises:
            InputError: ``assign_training`` does not return whole numbers of shape (N,) in -1..K-1.
        """
        if not self.is_static:
            return
        shape = tuple(self.row_attribute.shape)
        attribute = self.assign_training(torch.empty(len(self.row_attribute), 0) if outputs is None else outputs)
        is_long = isinstance(attribute, Tensor) and not attribute.is_floating_point() and attribute.shape == shape
        if not is_long or ((attribute < UNKNOWN_ATTRIBUTE) | (attribute >= self.num_attributes)).any():
            raise InputError(
                f"{type(self).__name__}.assign_training must return a tensor of whole numbers of shape {shape}, from 0 "
                f"to {self.num_attributes - 1}, {UNKNOWN_ATTRIBUTE} where unknown"
            )
        self.row_attribute.copy_(attribute)
        broadcast_in_place(self.row_attribute)

    def assign_training(self, outputs: Tensor) -> Tensor:
        """Return the attribute (N,) long of all training rows, -1 where unknown.

        Args:
            outputs: (N, C), what ``collect_outputs`` returned at the end of the last stage; C is 0 without stages.
        """
        raise NotImplementedError

    def forward(self, batch: Batch, epoch: float, randomness: StepRandomness) -> BatchEstimate:
        """Return the estimated attributes of a batch. Under ``torch.no_grad`` nothing trains and nothing is drawn.

        Args:
            batch: The rows.
            epoch: Epochs since the method's own stage began, with the fraction of the current one.
            randomness: Source of the random numbers of a step.
        """
        return BatchEstimate(self.row_attribute.index_select(0, batch.index))

    def predict_attributes(self, label: Tensor, inputs: ViewInputs) -> Tensor | None:
        """Return the attribute (n,) of rows that were not trained on; the networks are in evaluation mode.

        Args:
            label: (n,) long, the labels of the rows.
            inputs: The rows.

        Returns:
            (n,) long, -1 where unknown; None, as by default, if the estimator knows its training rows only.
        """
        return None

    def count_groups(self) -> Tensor:
        """Return the number of training rows of each group, (L, K) long; rows of unknown attribute do not count."""
        label = self.rows.label.to(self.row_attribute.device)
        return count_groups(label, self.row_attribute, self.info.num_labels, self.num_attributes)

    def record_robust_losses(self, label: Tensor, losses: Tensor) -> None:
        """Use the robust network's losses of the batch that was estimated last; by default do nothing.

        Args:
            label: (B,) long, the labels of the batch.
            losses: (B,), without a gradient.
        """

    def list_estimate_warnings(self) -> list[str]:
        """Return what a user should know about the present estimates."""
        return []

    def get_extra_state(self) -> dict[str, Any]:
        return {"finding": finding_to_dict(self.finding)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.finding = state["finding"] and Finding.from_dict(state["finding"])

    @abstractmethod
    def describe(self) -> str:
        """Return in a few words where the attributes come from; the report prints them."""


def select_attribute(posterior: Tensor, label: Tensor, correlation: Correlation, odds: float = 1.0) -> Tensor:
    """Return the attribute of each row: a bias-conflicting value only if it is ``odds`` times as likely as the others.

    Args:
        posterior: (N, K), P(a | x).
        label: (N,) long.
        correlation: The attribute values of each label's majority.
        odds: Above 1, fewer rows are taken for bias-conflicting.

    Returns:
        (N,) long.

    >>> posterior = torch.tensor([[0.75, 0.25], [0.95, 0.05]])
    >>> select_attribute(posterior, torch.tensor([1, 1]), Correlation.one_to_one(2), odds=10.0)
    tensor([1, 0])
    """
    is_conflicting = correlation.minority_groups(posterior.device).index_select(0, label)
    aligned_probability, aligned = posterior.masked_fill(is_conflicting, -1.0).max(dim=1)
    conflicting_probability, conflicting = posterior.masked_fill(~is_conflicting, -1.0).max(dim=1)
    return torch.where(conflicting_probability > odds * aligned_probability, conflicting, aligned)


@torch.no_grad()
def compute_network_outputs(network: Callable[[Inputs], Tensor], view_inputs: ViewInputs, weight: Tensor) -> Tensor:
    """Return the outputs of a network for all rows, computed in chunks.

    Args:
        network: Maps inputs to (B, C).
        view_inputs: The n rows.
        weight: A weight of the network; inputs get its device, and numbers its precision.

    Returns:
        (n, C) float32 on the CPU.
    """

    def convert(tensor: Tensor) -> Tensor:
        return tensor.to(weight.device, weight.dtype if tensor.is_floating_point() else None)

    outputs = []
    for chunk in view_inputs.split_row_numbers():
        inputs = convert_inputs(view_inputs.inputs(chunk), convert)
        outputs.append(network(inputs).float().cpu())
    return torch.cat(outputs)
