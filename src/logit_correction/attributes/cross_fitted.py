"""Cross-fitting: the attribute of every training row, estimated by networks that were not trained on the row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from logit_correction.attributes.base import AttributeEstimator, select_attribute
from logit_correction.attributes.folds import FoldNetworks, draw_halves_of_rows, ramp_up_q
from logit_correction.errors import check_range
from logit_correction.functional import GCE_EXPONENT
from logit_correction.seeds import StepRandomness, make_generator
from logit_correction.types import Batch, Inputs, Step, TrainingRows, ViewInputs


class CrossFitted(AttributeEstimator):
    """Biased networks trained on one half of the rows, with generalized cross-entropy (eq. 3), estimate the other half.

    What a network has memorized does not help it on the other half, so its errors there are those of the shortcut.
    Use it instead of ``Online`` if the biased network would memorize the training rows, and if the shortcut is not one
    of the views that ``Auto`` looks at. The networks are of the kind of the robust one; ``biased_network`` of the
    method names another. It does not check whether there is a shortcut, and always corrects.
    """

    Q = GCE_EXPONENT  # of the generalized cross-entropy
    Q_RAMP_UP_SHARE = 2 / 3  # share of the epochs in which q rises from 0

    num_stages = 1
    schedule = "none"
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
            splits: S, the number of random splits into two halves, 1 to 1,000; 2 S networks are trained. More splits
                average out the chance of the split and take longer.
            epochs: Epochs of a network, 1 or more. After many the network also learns the label's own features, and
                takes fewer rows for bias-conflicting.
            input_dropout: Probability in [0, 1) with which a pixel or feature is hidden from the networks while they
                train; it hinders features that are small more than a shortcut that shows everywhere.
            correlation: ``one-to-one`` pairs label j with attribute value j; ``known`` uses the data source's table.
        """
        super().__init__()
        check_range("splits", splits, 1, 1000)
        check_range("epochs", epochs, 1)
        check_range("input_dropout", input_dropout, 0, 1, open_end=True)
        self.splits = splits
        self.epochs: int = epochs
        self.input_dropout = input_dropout
        self.correlation_option = correlation

    def build_networks(self, build: Callable[[str], nn.Module]) -> None:
        networks = [build(f"biased network {number}") for number in range(2 * self.splits)]
        self.networks = FoldNetworks(networks, torch.zeros(self.splits, self.info.num_rows, dtype=torch.long))

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        for split in range(self.splits):
            generator = make_generator(self.seed, "split", split)
            self.networks.fold[split] = draw_halves_of_rows(rows.label, rows.unit, generator)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the sum of the networks' generalized cross-entropies (eq. 3), each over its own half of the rows.

        Args: as in ``AttributeEstimator.step``.
        """
        q = ramp_up_q(self.Q, epoch, self.Q_RAMP_UP_SHARE * self.epochs)
        generator = randomness.next(batch.label.device) if self.input_dropout else None
        total = self.networks.compute_loss(batch, q, self.input_dropout, generator)
        return Step(total, {"loss_biased": total.detach() / len(self.networks)})

    def collect_outputs(self, batch: Batch) -> Tensor:
        return self.networks.predict_out_of_fold(batch, self.info.num_labels)

    def predict_logits(self, inputs: Inputs) -> Tensor:
        """Return the logarithm (B, L) of the mean softmax of all networks, for rows that none was trained on."""
        return self.networks.compute_log_probabilities(inputs).logsumexp(dim=0) - math.log(len(self.networks))

    def assign_training(self, outputs: Tensor) -> Tensor:
        self.row_posterior = self.correlation.posterior(outputs)
        return select_attribute(self.row_posterior, self.rows.label, self.correlation)

    def predict_attributes(self, label: Tensor, inputs: ViewInputs) -> Tensor | None:
        """Return the attributes by the mean prediction of all networks, which have not seen the rows.

        Args: as in ``AttributeEstimator.predict_attributes``.
        """
        probability = self.compute_logits(inputs).softmax(dim=1)
        return select_attribute(self.correlation.posterior(probability), label, self.correlation)

    def describe(self) -> str:
        return "biased networks on the whole input, cross-fitted"
