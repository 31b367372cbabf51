"""Cross-fitting: the attribute of every training row, estimated by networks that were not trained on the row."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from logit_correction.attributes.base import (
    AttributeEstimator,
    NetworkBuilder,
    compute_outputs,
    select_attribute,
)
from logit_correction.attributes.folds import FoldNetworks, draw_halves, ramp_up_q
from logit_correction.errors import check_range
from logit_correction.functional import GCE_EXPONENT
from logit_correction.seeds import StepRandomness, make_generator
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, ViewInputs


class CrossFitted(AttributeEstimator):
    """Biased networks trained on one half of the rows, with generalized cross-entropy, estimate the other half.

    What a network has memorized does not help it on the other half, so there it follows the shortcut. The networks are
    of the kind of the robust one (``--biased_network`` names another).
    """

    Q = GCE_EXPONENT  # exponent of the generalized cross-entropy,
    Q_RAMP_UP = 2 / 3  # and the share of epochs in which it rises from 0

    num_stages = 1
    networks: FoldNetworks

    def __init__(
        self,
        splits: int = 2,
        epochs: int = 3,
        input_dropout: float = 0.0,
        correlation: Literal["one-to-one", "known"] = "one-to-one",
    ) -> None:
        """Choose how the networks train.

        Args:
            splits: S, the number of random splits into two halves; 2 S networks are trained.
            epochs: Epochs of a network.
            input_dropout: Probability with which a pixel or feature is hidden from the networks while they train.
            correlation: ``one-to-one`` pairs label j with attribute value j; ``known`` uses the data source's table.
        """
        super().__init__()
        check_range("splits", splits, 1, 1000)
        check_range("epochs", epochs, 1)
        check_range("input_dropout", input_dropout, 0, 1, open_end=True)
        self.splits, self.epochs, self.input_dropout, self.choice = splits, epochs, input_dropout, correlation

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self.correlation = info.get_correlation(self.choice)
        networks = [build(network, f"biased network {number}") for number in range(2 * self.splits)]
        halves = [draw_halves(info.num_rows, make_generator(seed, "split", split)) for split in range(self.splits)]
        self.networks = FoldNetworks(networks, torch.stack(halves))

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        return Stage(epochs=self.epochs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        q = ramp_up_q(self.Q, epoch, self.Q_RAMP_UP * self.epochs)
        generator = randomness.next(batch.label.device) if self.input_dropout else None
        total = self.networks.loss(batch, q, self.input_dropout, generator)
        return Step(total, {"loss_biased": total.detach() / len(self.networks)})

    def collect_outputs(self, batch: Batch) -> Tensor:
        return self.networks.predict_out_of_fold(batch, self.info.num_labels)

    def parameter_groups(self) -> list[dict[str, object]]:
        return self.networks.parameter_groups("biased_network", schedule="none")

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logarithm (B, L) of the mean softmax of all networks, for rows that none was trained on."""
        return self.networks.log_probabilities(inputs).logsumexp(dim=0) - math.log(len(self.networks))

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        assert outputs is not None
        self.row_posterior = self.correlation.posterior(outputs)
        return select_attribute(self.row_posterior, self.rows.label, self.correlation)

    def predict_attributes(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        probability = compute_outputs(self.predict, rows, self.row_attribute.device).softmax(dim=1)
        return select_attribute(self.correlation.posterior(probability), label, self.correlation)

    def describe(self) -> str:
        return "biased networks on the whole input, cross-fitted"
