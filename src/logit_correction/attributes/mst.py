"""Attributes from an early network: MST of FG-CCDB (Zhao and Zhang, ICLR 2026), EIIL (Creager et al., ICML 2021)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator, NetworkBuilder, compute_outputs
from logit_correction.errors import check_range
from logit_correction.seeds import StepRandomness, make_generator
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, ViewInputs


class MST(AttributeEstimator):
    """The label that an early network predicts is the attribute.

    In the first round the network sees a tenth of the rows, in later rounds the half of each label that it was surest
    of. Hardly any of these rows conflict with the shortcut, so the network learns it. FG-CCDB weighs the cells of label
    by predicted label.
    """

    num_stages = 3  # rounds; each trains the network anew
    share = 0.1  # of the rows, seen in the first round

    def __init__(self, epochs: int = 3) -> None:
        """Choose how long the network trains.

        Args:
            epochs: Epochs of a round. An epoch draws N rows with replacement from those that the network sees.
        """
        super().__init__()
        check_range("epochs", epochs, 1)
        self.epochs = epochs

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self._fresh = partial(build, network)  # called with a role
        self.early = self._fresh("early network, round 0")

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        label, share = self.rows.label, self.share
        score = torch.rand(len(label), generator=make_generator(self.seed, "share"))
        if outputs is not None:
            score, share = outputs.softmax(dim=1).gather(1, label.unsqueeze(1)).squeeze(1), 0.5
            self.early.load_state_dict(self._fresh(f"early network, round {stage}").state_dict())
        seen = torch.zeros(len(label))
        for own in ((label == y).nonzero().squeeze(1) for y in label.unique()):
            seen[own[score[own].topk(max(1, round(share * len(own)))).indices]] = 1.0
        return Stage(epochs=self.epochs, sample_weight=None if share == 1 else seen)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        loss = cross_entropy(self.early(batch.inputs), batch.label)
        return Step(loss, {"loss_early": loss.detach()})

    def collect_outputs(self, batch: Batch) -> Tensor:
        return self.predict(batch.inputs)

    def parameter_groups(self) -> list[dict[str, object]]:
        return [{"params": list(self.early.parameters()), "name": "early", "schedule": "none"}]

    def predict(self, inputs: Inputs) -> Tensor:
        logits: Tensor = self.early(inputs)
        return logits

    def attribute_of(self, logits: Tensor, label: Tensor) -> Tensor:
        """Return the attribute (B,) of rows from the early network's logits (B, L)."""
        return logits.argmax(dim=1)

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        assert outputs is not None
        return self.attribute_of(outputs, self.rows.label)

    def predict_attributes(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        return self.attribute_of(compute_outputs(self.predict, rows, self.row_attribute.device), label)

    def describe(self) -> str:
        return "what an early network answers"


class EIIL(MST):
    """The two environments in which a network, trained briefly by ERM on all rows, is least invariant.

    Rows of the first environment have the attribute of their own label, those of the second the attribute of the most
    probable other label. With two labels the groups are those of EIIL.
    """

    num_stages = 1
    share = 1.0

    def __init__(self, epochs: int = 1) -> None:
        """Choose how long the network trains.

        Args:
            epochs: Of the network. After many it knows every label, and all rows are in the first environment.
        """
        super().__init__(epochs)

    def attribute_of(self, logits: Tensor, label: Tensor) -> Tensor:
        other = logits.scatter(1, label.unsqueeze(1), -torch.inf).argmax(dim=1)
        return torch.where(least_invariant(logits, label), other, label)


def least_invariant(logits: Tensor, label: Tensor) -> Tensor:
    """Return which rows (N,) of logits (N, L) make the second environment.

    EIIL's environments have the greatest sum of squared gradients of their risk by a factor w of the logits at w = 1.
    Row i adds g_i = sum_k p_ik z_ik - z_iy to its environment's gradient. The sum of squares is convex in the
    assignment, so all rows of positive g_i belong together.

    >>> least_invariant(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
    tensor([False,  True])
    """
    return (logits.softmax(dim=1) * logits).sum(dim=1) > logits.gather(1, label.unsqueeze(1)).squeeze(1)
