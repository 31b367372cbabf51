"""Just train twice; Liu, Haghgoo, Chen, Raghunathan, Koh, Sagawa, Liang and Finn, ICML 2021 (arXiv:2107.09044)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import ParameterGroup, make_parameter_group
from logit_correction.errors import TrainingError, check_range
from logit_correction.formatting import format_option
from logit_correction.methods.base import Algorithm
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step


class JTT(Algorithm):
    """Trains twice: the second time the rows that the first network got wrong are seen more often.

    Use it as a baseline that reads no attribute. Stage 1 trains an identification network by ERM for T epochs. Its
    error set E holds the training rows that it predicts wrong. Stage 2 trains a fresh network by ERM, each row of E
    lambda_up times an epoch and each other row once (Algorithm 1 of the paper).

    The published runs add lambda_up copies to the row that is there, so their 50 is 51 here. Their stage 1 is an
    ordinary training that ends after T epochs, so its learning rate is constant by default. Use a strong
    ``weight_decay``: the paper has 1 on Waterbirds and 0.1 on CelebA, in both stages.
    """

    num_stages = 2

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        identification_epochs: int = 1,
        up_weight: int = 50,
        identification_learning_rate: float | None = None,
        identification_schedule: Literal["same", "none"] = "none",
        seed: int = 0,
    ) -> None:
        """Build both networks.

        Args:
            network: Builds both networks.
            info: Sizes and names of the data.
            identification_epochs: T, 1 or more; the paper has 1 on CelebA, 2 on CivilComments, 60 on Waterbirds. With
                more epochs fewer rows are in the error set. Tune it together with ``up_weight``.
            up_weight: lambda_up, how often a row of the error set is seen in an epoch, 1 or more; the paper has 50 on
                CelebA, 6 on CivilComments, 100 on Waterbirds.
            identification_learning_rate: Learning rate of stage 1; None takes the run's, as the paper does.
            identification_schedule: ``none`` keeps it constant, ``same`` follows the run's schedule.
            seed: Seed of the initial weights.
        """
        check_range("identification_epochs", identification_epochs, 1)
        check_range("up_weight", up_weight, 1)
        super().__init__(network, info, seed=seed)
        self.identification_network = self.build(network, "identification network")
        self.identification_epochs = identification_epochs
        self.up_weight = up_weight
        self.identification_learning_rate = identification_learning_rate
        self.identification_schedule = identification_schedule

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return the mean cross-entropy of the network that the present stage trains.

        Args: as in ``Algorithm.compute_loss``.
        """
        return Step(cross_entropy(self.predict(batch.inputs), batch.label))

    def predict(self, inputs: Inputs) -> Tensor:
        """Return logits (B, L) of the network that the present stage trains."""
        return (self.network if self.stage else self.identification_network)(inputs)

    def collect_outputs(self, batch: Batch) -> Tensor:
        """Return the logits (B, L) less that of the label: a row with a positive one is predicted wrong."""
        logits = self.predict(batch.inputs)
        return logits - logits.gather(1, batch.label.unsqueeze(1))

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Begin the identification stage, or find its error set and begin the second training.

        Args: as in ``Algorithm.begin_stage``.
        """
        super().begin_stage(stage, outputs)
        if stage == 0:
            return Stage(epochs=self.identification_epochs, learning_rate=self.identification_learning_rate)
        assert outputs is not None
        is_wrong = (outputs > 0).any(dim=1).cpu()
        if not is_wrong.any():
            raise TrainingError(
                f"JTT's first stage ({self.identification_epochs} epochs) got every training row right, so its error "
                f"set is empty: lower {format_option('method.identification_epochs')}, or raise "
                f"{format_option('weight_decay')}"
            )
        return Stage(sample_weight=torch.where(is_wrong, self.up_weight, 1))

    def parameter_groups(self) -> list[ParameterGroup]:
        if self.stage:
            return super().parameter_groups()
        schedule = None if self.identification_schedule == "same" else "none"
        return [make_parameter_group(self.identification_network, "identification_network", schedule=schedule)]
