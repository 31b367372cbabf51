"""What every method is: a module that turns a batch into one loss, and that any training loop can train."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from logit_correction.group_prior import GroupPrior
from logit_correction.seeds import derive_seed
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step


class StepRandomness(nn.Module):
    """A generator for each training step, derived from a seed, the step's number and the process's rank.

    Its whole state is one counter in the state dict, so a resumed run draws what an uninterrupted one would.
    """

    def __init__(self, seed: int) -> None:
        """Start at step 0."""
        super().__init__()
        self.seed, self.count = seed, 0
        self._generators: dict[torch.device, torch.Generator] = {}

    def next(self, device: torch.device) -> torch.Generator:
        """Return the generator of the next step on ``device``."""
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank = torch.distributed.get_rank() if distributed else 0
        if device not in self._generators:
            self._generators[device] = torch.Generator(device=device)
        generator = self._generators[device].manual_seed(derive_seed(self.seed, "step", self.count, rank))
        self.count += 1
        return generator

    def get_extra_state(self) -> dict[str, int]:
        """Return the counter for the state dict."""
        return {"count": self.count}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Take the counter from a state dict."""
        self.count = state["count"]


class Algorithm(nn.Module, ABC):
    """A training method: its networks, its state and its loss in one module.

    Any loop can train it::

        algorithm = LC(build_network, info)
        optimizer = torch.optim.Adam(algorithm.parameter_groups(), lr=1e-3)
        for epoch in range(epochs):
            for step, batch in enumerate(batches):
                loss = algorithm(batch, epoch + step / len(batches)).loss
                optimizer.zero_grad(); loss.backward(); optimizer.step()
            algorithm.end_epoch()
        logits = algorithm.predict(inputs)

    A subclass takes ``(network, info, *, its own options, seed)``. Every option becomes a command line option.

    Attributes:
        needs_attributes: Whether ``Batch.attribute`` must be there. A method that leaves this False never
            sees an attribute label.
        num_stages: How many stages the training has.
        network: The network that predicts.
        group_prior: The estimated P(y, a), where the method has one.
    """

    needs_attributes: ClassVar[bool] = False
    num_stages: ClassVar[int] = 1

    def __init__(self, network: NetworkFactory, info: DataInfo, *, seed: int = 0) -> None:
        """Build the network that predicts.

        Args:
            network: Called without arguments, returns a fresh network that maps inputs to logits (B, L).
            info: Sizes and names of the data.
            seed: Seed of the initial weights and of everything random in a step.
        """
        super().__init__()
        self.info, self.seed = info, seed
        self.network = self.build(network, "network")
        self.randomness = StepRandomness(seed)
        self.group_prior: GroupPrior | None = None

    def build(self, network: NetworkFactory, role: str) -> nn.Module:
        """Build a network with weights drawn from this method's seed and the network's ``role``.

        The global random state is left as it was, and the weights of one role do not depend on what else a
        method builds: ERM and LC of one seed start with the same predicting network.

        Raises:
            TypeError: If ``network`` is a network rather than something that builds one.
        """
        if isinstance(network, nn.Module):
            raise TypeError(
                "network must build a network when it is called: give `lambda: MyNetwork()`, not the network"
            )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(self.seed, role))
            return network()

    @abstractmethod
    def forward(self, batch: Batch, epoch: float) -> Step:
        """Return the loss of one batch.

        Args:
            batch: The rows.
            epoch: Epochs done in this stage, with the fraction of the current one.
        """

    def predict(self, inputs: Inputs) -> Tensor:
        """Return logits (B, L) without any correction."""
        logits: Tensor = self.network(inputs)
        return logits

    def begin_stage(self, stage: int, train_logits: Tensor | None) -> Stage:
        """Prepare a stage and say what it asks of the loop.

        Args:
            stage: 0..num_stages-1.
            train_logits: (N, L) logits of every training row by ``predict_rows`` in evaluation mode at the end of
                the stage before; None at stage 0.
        """
        return Stage()

    def predict_rows(self, batch: Batch) -> Tensor:
        """Return the logits (B, L) of training rows that the next stage's ``begin_stage`` is given."""
        return self.predict(batch.inputs)

    def end_epoch(self) -> list[str]:
        """Do what is done once an epoch and return what the user should be warned of as things stand."""
        return []

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return one optimiser group per network.

        Beside ``params`` and ``name`` a group may hold ``learning_rate_scale`` (times the run's learning rate)
        and ``schedule`` (the name of a schedule that replaces the run's).
        """
        return [{"params": list(self.network.parameters()), "name": "network"}]

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return what the method believes of rows, such as ``estimated_attribute`` (B,); for reports only."""
        return {}
