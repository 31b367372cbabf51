"""Attributes from an early network: MST of FG-CCDB (Zhao and Zhang, ICLR 2026), EIIL (Creager et al., ICML 2021).

Early in training a network predicts by the shortcut. Both estimators take its predictions for the attribute.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.errors import check_range
from logit_correction.seeds import StepRandomness, make_generator
from logit_correction.types import Batch, Inputs, Stage, Step, ViewInputs


class MST(AttributeEstimator):
    """The label that an early network predicts is the attribute (FG-CCDB).

    In the first round the network sees a tenth of the rows of each label, in later rounds the half of each label that
    it predicted with the greatest confidence. Hardly any of these rows conflict with the shortcut, so the network
    learns it. Use it with ``Reweighting(balance="conditional")`` to train FG-CCDB, or to compare estimators.
    """

    num_stages = 3  # rounds; each trains the network anew
    schedule = "none"
    first_share = 0.1  # of the rows of each label, seen in the first round
    later_share = 0.5

    def __init__(self, epochs: int = 3) -> None:
        """Choose how long the network trains.

        Args:
            epochs: Epochs of a round, 1 or more. An epoch draws N rows with replacement from those that the network
                sees. After many epochs the network memorizes these rows.
        """
        super().__init__()
        check_range("epochs", epochs, 1)
        self.epochs = epochs

    def build_networks(self, build: Callable[[str], nn.Module]) -> None:
        self._build_network = build
        self.early = build("early network, round 0")

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Choose the rows that the next round sees, and start the network anew.

        Args: as in ``AttributeEstimator.begin_stage``.
        """
        label = self.rows.label
        if outputs is None:
            score = torch.rand(len(label), generator=make_generator(self.seed, "share"))
            share = self.first_share
        else:
            score = outputs.softmax(dim=1).gather(1, label.unsqueeze(1)).squeeze(1)
            share = self.later_share
            self.early.load_state_dict(self._build_network(f"early network, round {stage}").state_dict())
        if share == 1:
            return Stage(epochs=self.epochs)
        weight = torch.zeros(len(label))
        for value in label.unique():
            rows = (label == value).nonzero().squeeze(1)
            num_seen = max(1, round(share * len(rows)))
            weight[rows[score[rows].topk(num_seen).indices]] = 1.0
        return Stage(epochs=self.epochs, sample_weight=weight)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the mean cross-entropy of the early network.

        Args: as in ``AttributeEstimator.step``.
        """
        loss = cross_entropy(self.early(batch.inputs), batch.label)
        return Step(loss, {"loss_early": loss.detach()})

    def predict_logits(self, inputs: Inputs) -> Tensor:
        return self.early(inputs)

    def compute_attribute(self, logits: Tensor, label: Tensor) -> Tensor:
        """Return the attribute of rows from the early network's predictions.

        Args:
            logits: (n, L), of the early network.
            label: (n,) long.

        Returns:
            (n,) long.
        """
        return logits.argmax(dim=1)

    def assign_training(self, outputs: Tensor) -> Tensor:
        return self.compute_attribute(outputs, self.rows.label)

    def predict_attributes(self, label: Tensor, inputs: ViewInputs) -> Tensor | None:
        """Return the attributes by the early network's predictions.

        Args: as in ``AttributeEstimator.predict_attributes``.
        """
        return self.compute_attribute(self.compute_logits(inputs), label)

    def describe(self) -> str:
        return "what an early network answers"


class EIIL(MST):
    """The two environments in which a network, trained briefly by ERM on all rows, is least invariant.

    Rows of the first environment have the attribute of their own label, those of the second the attribute of the most
    probable other label. With two labels the groups are those of EIIL. Use it to compare estimators.
    """

    num_stages = 1
    first_share = 1.0

    def __init__(self, epochs: int = 1) -> None:
        """Choose how long the network trains.

        Args:
            epochs: Epochs, 1 or more. After many epochs the network predicts every training row's label, and all rows
                are in the first environment.
        """
        super().__init__(epochs)

    def compute_attribute(self, logits: Tensor, label: Tensor) -> Tensor:
        other_label = logits.scatter(1, label.unsqueeze(1), -torch.inf).argmax(dim=1)
        return torch.where(select_second_environment(logits, label), other_label, label)


def select_second_environment(logits: Tensor, label: Tensor) -> Tensor:
    """Return which rows make the second environment of EIIL.

    EIIL's environments have the greatest sum of squared gradients of their risk by a factor w of the logits at w = 1.
    Row i adds g_i = sum_k p_ik z_ik - z_iy to its environment's gradient. The sum of squares is convex in the
    assignment, so all rows of positive g_i belong together.

    Args:
        logits: (N, L).
        label: (N,) long.

    Returns:
        (N,) bool.

    >>> select_second_environment(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
    tensor([False,  True])
    """
    return (logits.softmax(dim=1) * logits).sum(dim=1) > logits.gather(1, label.unsqueeze(1)).squeeze(1)
