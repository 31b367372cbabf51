"""What every method is: a module that turns a batch into one loss, and that any training loop can train."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from logit_correction.group_prior import GroupPrior
from logit_correction.seeds import derive_seed
from logit_correction.types import Batch, DataInfo, InputError, Inputs, NetworkFactory, Stage, Step

#: 2^64 over the golden ratio: steps of it spread evenly, and an odd one comes to every seed before it repeats.
_SEED_STEP = 0x9E3779B97F4A7C15


class StepRandomness(nn.Module):
    """A generator for each training step, derived from a seed, the step's number and the process's rank.

    Its whole state is one counter in the state dict, so a resumed run draws what an uninterrupted one would.
    """

    def __init__(self, seed: int) -> None:
        """Start at step 0."""
        super().__init__()
        self.seed, self.count = seed, 0
        self._generators: dict[torch.device, torch.Generator] = {}
        self._first: int | None = None

    def next(self, device: torch.device) -> torch.Generator:
        """Return the generator of the next step on ``device``."""
        if self._first is None:
            distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
            rank = torch.distributed.get_rank() if distributed else 0
            self._first = derive_seed(self.seed, "step", rank)
        if device not in self._generators:
            self._generators[device] = torch.Generator(device=device)
        # One multiplication: to derive each step's seed anew would take 2 % of a step of a small network.
        seed = (self._first + self.count * _SEED_STEP) % 2**64
        self.count += 1
        return self._generators[device].manual_seed(seed)

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
            sees an attribute label. Where an option decides, ``__init__`` sets it on the instance.
        num_stages: How many stages the training has.
        network: The network that predicts.
        group_prior: The estimated P(y, a), where the method has one.
        built: All networks that ``build`` has built.
    """

    needs_attributes: bool = False
    num_stages: int = 1

    def __init__(self, network: NetworkFactory, info: DataInfo, *, seed: int = 0) -> None:
        """Build the network that predicts.

        Args:
            network: Called without arguments, returns a fresh network that maps inputs to logits (B, L).
            info: Sizes and names of the data.
            seed: Seed of the initial weights and of everything random in a step.
        """
        super().__init__()
        self.info, self.seed = info, seed
        self.built: list[nn.Module] = []
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
            self.built.append(network())
        return self.built[-1]

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

    def observe_rows(self, label: Tensor, attribute: Tensor | None) -> None:
        """Look once at the labels of all training rows, before training begins or goes on; by default do nothing.

        Args:
            label: (N,) long, in the order of ``Batch.index``.
            attribute: (N,) long; None unless the method declares ``needs_attributes``.
        """

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

    def check_epochs(self, epochs: int) -> None:
        """Return if the method can do its work in so many epochs.

        Raises:
            InputError: Otherwise; says what to change.
        """

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return one optimiser group per network.

        Beside ``params`` and ``name`` a group may hold ``learning_rate_scale`` (times the run's learning rate)
        and ``schedule`` (the name of a schedule that replaces the run's).
        """
        return [{"params": list(self.network.parameters()), "name": "network"}]

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return what the method believes of rows, such as ``estimated_attribute`` (B,); for reports only."""
        return {}


class StagedAlgorithm(Algorithm):
    """A method of several stages that knows, also after a resume, in which it is.

    Attributes:
        stage: 0..num_stages-1; set by ``begin_stage``, which a subclass calls first in its own.
    """

    num_stages = 2

    def __init__(self, network: NetworkFactory, info: DataInfo, *, seed: int = 0) -> None:
        """Begin at stage 0."""
        super().__init__(network, info, seed=seed)
        self.stage = 0

    def begin_stage(self, stage: int, train_logits: Tensor | None) -> Stage:
        """Remember the stage."""
        self.stage = stage
        return super().begin_stage(stage, train_logits)

    def get_extra_state(self) -> dict[str, int]:
        """Return the stage for the state dict."""
        return {"stage": self.stage}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Take the stage from a state dict."""
        self.stage = state["stage"]


def check_range(name: str, value: float, low: float, high: float = float("inf"), open_end: bool = False) -> None:
    """Return if an option lies in low..high, ``high`` itself left out with ``open_end``.

    Raises:
        InputError: Otherwise.

    >>> check_range("q", 0.7, 0, 1)
    """
    if not low <= value <= high or (open_end and value == high):
        end = "" if high == float("inf") else f" and at most {high:g}" if not open_end else f" and less than {high:g}"
        raise InputError(f"{name} is {value}, but must be at least {low:g}{end}")


def num_processes() -> int:
    """Number of processes that train together; 1 without torch.distributed."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if distributed else 1


def sum_over_processes(value: Tensor) -> Tensor:
    """Sum of a tensor over all processes, without a gradient; the tensor itself if there is one process."""
    if num_processes() == 1:
        return value
    total = value.detach().clone()
    torch.distributed.all_reduce(total)
    return total


def join_over_processes(value: Tensor) -> Tensor:
    """Rows (B, ...) of all processes one after another, without a gradient; all must have as many."""
    if num_processes() == 1:
        return value
    parts = [torch.empty_like(value) for _ in range(num_processes())]
    torch.distributed.all_gather(parts, value.detach().contiguous())
    return torch.cat(parts)
