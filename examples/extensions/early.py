"""What a network predicts after a few epochs."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator, NetworkBuilder
from logit_correction.errors import check_range
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step


class Early(AttributeEstimator):
    """A network that is stopped early knows the easy feature; its answer is taken for the attribute."""

    trains_network = True
    num_stages = 1

    def __init__(self, epochs: int = 1) -> None:
        """Choose how long the network trains.

        Args:
            epochs: Epochs, at least 1.
        """
        super().__init__()
        check_range("epochs", epochs, 1)
        self.epochs = epochs

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Build the network."""
        super().attach(build, network, info, seed)
        self.network = build(network, "biased network")

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Ask for the epochs."""
        return Stage(epochs=self.epochs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the mean cross-entropy of a batch."""
        loss = cross_entropy(self.predict(batch.inputs), batch.label)
        return Step(loss, {"loss_biased": loss.detach()})

    def collect_outputs(self, batch: Batch) -> Tensor:
        """Return class probabilities (B, L)."""
        return self.predict(batch.inputs).softmax(dim=1)

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        """Return the answers (N,) for all rows."""
        assert outputs is not None
        return outputs.argmax(dim=1)

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return the network's parameters."""
        return [{"params": list(cast(nn.Module, self.network).parameters()), "name": "biased_network"}]

    def predict(self, inputs: Inputs) -> Tensor:
        """Return logits (B, L)."""
        logits: Tensor = self.network(inputs)
        return logits

    def describe(self) -> str:
        """Say where the attributes come from."""
        return f"what a network predicts after {self.epochs} epochs"
