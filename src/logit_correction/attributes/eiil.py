"""EIIL's environments: what an early reference network has learned; Creager, Jacobsen and Zemel, ICML 2021."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator, Builder
from logit_correction.attributes.heads import outputs_of
from logit_correction.errors import check_range
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step
from logit_correction.views.base import ViewInputs


def environments(logits: Tensor, label: Tensor) -> Tensor:
    """Return the environment (N,) of each row, 0 or 1, that breaks invariance most.

    EIIL assigns rows to two environments so that the sum over them of the squared gradient of their risk, by a factor w
    of the logits at w = 1, is greatest. The gradient of row i is g_i = sum_k p_ik z_ik - z_iy, and an environment's is
    their sum over its rows. The sum of squares is convex in the assignment, so it is greatest where one environment has
    all rows of positive g_i and the other the rest: the paper's ascent has this end, and none is needed.

    >>> environments(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
    tensor([0, 1])
    """
    expected = (logits.softmax(dim=1) * logits).sum(dim=1)
    return (expected > logits.gather(1, label.unsqueeze(1)).squeeze(1)).long()


class EIIL(AttributeEstimator):
    """The two environments in which a reference network, trained by ERM for a little, is least invariant.

    Rows of the first have the attribute that goes with their label; those of the second the reference network's most
    probable other label, for LC corrects by what an attribute says of the label. Two labels and two environments are
    the same groups as label by environment.
    """

    trains_network = True
    num_stages = 1

    def __init__(self, epochs: int = 1) -> None:
        """Choose how long the reference network trains.

        Args:
            epochs: Length of its stage; one that trains for long knows every row's label, and nothing is told apart.
        """
        super().__init__()
        check_range("epochs", epochs, 1)
        self.epochs = epochs

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self.reference = build(network, "reference network")

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        self.stage = stage
        return Stage(epochs=self.epochs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        loss = cross_entropy(self.reference(batch.inputs), batch.label)
        return Step(loss, {"loss_reference": loss.detach()})

    def collect(self, batch: Batch) -> Tensor:
        return self.predict(batch.inputs)

    def parameter_groups(self) -> list[dict[str, object]]:
        reference: dict[str, object] = {"params": list(self.reference.parameters()), "name": "reference_network"}
        return [reference | {"schedule": "none"}] if self.stage < self.num_stages else []

    def predict(self, inputs: Inputs) -> Tensor:
        logits: Tensor = self.reference(inputs)
        return logits

    def finish(self, outputs: Tensor | None) -> None:
        self.stage = self.num_stages
        super().finish(outputs)

    def _attribute(self, logits: Tensor, label: Tensor) -> Tensor:
        other = logits.scatter(1, label.unsqueeze(1), -torch.inf).argmax(dim=1)
        return torch.where(environments(logits, label) == 1, other, label)

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        assert outputs is not None
        label = self.rows.label
        return self._attribute(outputs, label), outputs.softmax(1).gather(1, label.unsqueeze(1)).squeeze(1)

    def estimate_new(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        return self._attribute(outputs_of(self.predict, rows, self.row_attribute.device), label)

    def describe(self) -> str:
        return "the environments in which an early network is least invariant (EIIL)"
