"""What a network predicts after a few epochs."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.errors import check_range
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, Inputs, Step


class Early(AttributeEstimator):
    """A network that is stopped early has learned the easy feature; its prediction is taken for the attribute."""

    num_stages = 1

    def __init__(self, epochs: int = 1) -> None:
        """Choose how long the network trains.

        Args:
            epochs: Epochs, at least 1.
        """
        super().__init__()
        check_range("epochs", epochs, 1)
        self.epochs = epochs

    def build_networks(self, build: Callable[[str], nn.Module]) -> None:
        """Build the network, whose role is its name."""
        self.network = build("biased network")

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the mean cross-entropy of a batch."""
        loss = cross_entropy(self.predict_logits(batch.inputs), batch.label)
        return Step(loss, {"loss_biased": loss.detach()})

    def predict_logits(self, inputs: Inputs) -> Tensor:
        """Return logits (B, L)."""
        logits: Tensor = self.network(inputs)
        return logits

    def assign_training(self, outputs: Tensor) -> Tensor:
        """Return the predicted labels (N,) of all rows, from their logits (N, L)."""
        return outputs.argmax(dim=1)

    def describe(self) -> str:
        """Return where the attributes come from."""
        return f"what a network predicts after {self.epochs} epochs"
