"""The base of all methods: a module that turns a batch into one loss. Any training loop can train it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator, BatchEstimate
from logit_correction.errors import InputError
from logit_correction.losses import GroupPrior
from logit_correction.methods.parts import PriorRule, describe_lost_labels
from logit_correction.registry import make_component
from logit_correction.seeds import StepRandomness, derive_seed
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, TrainingRows


class Algorithm(nn.Module, ABC):
    """A training method: its networks, its state and its loss in one module.

    Any loop can train it::

        algorithm = LC(build_network, info, attributes="Online")
        algorithm.setup(TrainingRows(label))
        algorithm.begin_stage(0, None)
        optimizer = torch.optim.Adam(algorithm.parameter_groups(), lr=1e-3)
        for epoch in range(epochs):
            for step, batch in enumerate(batches):
                loss = algorithm(batch, epoch + step / len(batches)).loss
                optimizer.zero_grad(); loss.backward(); optimizer.step()
            algorithm.end_epoch()
        logits = algorithm.predict(inputs)

    A subclass takes ``(network, info, *, its own options, seed)``. Every option becomes a command line option. A method
    that wants the attribute of every row takes an attribute estimator as one of them and gives it to
    ``use_attributes``: its stages then come before the method's own, whose ``forward`` begins with
    ``if self.in_pretraining: return self.attributes.step(batch, epoch, self.randomness)``.

    Attributes:
        components: Constructor argument -> kind of component (attributes, mixing or prior), for arguments that have
            options of their own.
        needs_attributes: Whether the method reads attribute labels of training rows; otherwise it never sees any.
        needs_valid_attributes: Whether it learns from attribute labels of validation rows.
        resizable_buffers: Buffers that take the size that a checkpoint has.
        num_stages: Number of stages of the training.
        stage: The present stage, 0..num_stages-1; ``begin_stage`` sets it, and so does a resumed training.
        attributes: The attribute estimator; None without one.
        valid_estimators: Estimators that give the attributes of the validation rows.
        network: The network that predicts.
        group_prior: The estimated P(y, a); None without one.
        prior_rule: What makes the group prior and feeds it.
        built_networks: All networks that ``build`` has built.
    """

    components: ClassVar[Mapping[str, str]] = MappingProxyType({})
    needs_attributes: bool = False
    needs_valid_attributes: bool = False
    resizable_buffers: ClassVar[Sequence[str]] = ()
    num_stages: int = 1
    valid_estimators: Sequence[AttributeEstimator] = ()

    def __init__(self, network: NetworkFactory, info: DataInfo, *, seed: int = 0) -> None:
        """Build the network that predicts.

        Args:
            network: Called without arguments, returns a fresh network that maps inputs to logits (B, L).
            seed: Seed of the initial weights and of everything random in a step.
        """
        super().__init__()
        self.info, self.seed = info, seed
        self.built_networks: list[nn.Module] = []
        self.network = self.build(network, "network")
        self.randomness = StepRandomness(seed)
        self.group_prior: GroupPrior | None = None
        self.prior_rule: PriorRule | None = None
        self.attributes: AttributeEstimator | None = None
        self.stage = self.num_stages - 1
        self.register_load_state_dict_pre_hook(_take_sizes)

    def build(self, network: NetworkFactory, role: str) -> nn.Module:
        """Build a network whose weights depend on this method's seed and the network's ``role`` alone.

        So ERM and LC of one seed start with the same predicting network. The global random state does not change.
        """
        if isinstance(network, nn.Module):
            raise TypeError("network must build a network when called: give `lambda: MyNetwork()`, not the network")
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(self.seed, role))
            self.built_networks.append(network())
        return self.built_networks[-1]

    @abstractmethod
    def forward(self, batch: Batch, epoch: float) -> Step:
        """Return the loss of one batch, ``epoch`` epochs (with the fraction of the current one) into this stage."""

    def predict(self, inputs: Inputs) -> Tensor:
        """Return uncorrected logits (B, L); in a stage of the estimator those of the network that it trains."""
        if self.in_pretraining and self.attributes is not None:
            return self.attributes.predict(inputs)
        logits: Tensor = self.network(inputs)
        return logits

    def use_attributes(self, attributes: AttributeEstimator | str, network: NetworkFactory) -> None:
        """Attach an attribute estimator, given as such or by name; ``network`` builds the networks that it trains."""
        estimator = make_component("attribute estimator", attributes, ESTIMATORS, AttributeEstimator)
        estimator.attach(self.build, network, self.info, self.seed)
        self.attributes, self.needs_attributes = estimator, estimator.needs_attributes
        self.num_stages = estimator.num_stages + 1
        self.stage = self.num_stages - 1

    @property
    def in_pretraining(self) -> bool:
        """Whether the present stage is the attribute estimator's."""
        return self.attributes is not None and self.stage < self.attributes.num_stages

    @staticmethod
    def add_estimator_loss(loss: Tensor, estimate: BatchEstimate) -> Step:
        """Return the step whose loss is the robust network's (0-d) plus the estimator's, if that trains along."""
        logs = {"loss_robust": loss.detach()}
        if estimate.loss is None:
            return Step(loss, logs)
        return Step(loss + estimate.loss, {**logs, "loss_biased": estimate.loss.detach()})

    def setup(self, rows: TrainingRows) -> None:
        """Take in all training rows, once, before training begins or resumes; must not take long."""
        if self.attributes is not None:
            self.attributes.setup(rows)
            self.num_stages = self.attributes.num_stages + 1  # it may have found that it needs none
            self.stage = self.num_stages - 1

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Prepare a stage and return what it asks of the loop.

        Args:
            stage: 0..num_stages-1.
            outputs: (N, C), what ``collect_outputs`` returned for all training rows, in evaluation mode, at the end of
                the previous stage, on any device; None at stage 0.
        """
        self.stage = stage
        if self.attributes is None:
            return Stage()
        if stage and outputs is None:
            raise InputError(
                "begin_stage needs what collect returned at the end of the stage before; after load_state_dict set "
                "method.stage instead"
            )
        outputs = None if outputs is None else outputs.cpu()  # where the labels of all rows are
        if self.in_pretraining:
            return self.attributes.begin_stage(stage, outputs)
        self.attributes.finish(outputs)
        if self.prior_rule is not None and self.group_prior is not None:
            self.prior_rule.begin(self.group_prior, self.attributes)
        return self.begin_method_stage()

    def begin_method_stage(self) -> Stage:
        """Return what the method's own stage asks of the loop; the estimates and the prior are there."""
        return Stage()

    def collect_outputs(self, batch: Batch) -> Tensor:
        """Return what ``begin_stage`` of the next stage gets of training rows, (B, C)."""
        return (
            self.attributes.collect_outputs(batch)
            if self.in_pretraining and self.attributes
            else self.predict(batch.inputs)
        )

    def end_epoch(self) -> list[str]:
        """End an epoch and return the warnings that hold now."""
        if self.group_prior is not None:
            self.group_prior.end_epoch()
        if self.in_pretraining or self.attributes is None:
            return []
        warnings = self.attributes.list_warnings()
        if self.group_prior is None:
            return warnings
        return warnings + describe_lost_labels(self.group_prior, self.attributes.correlation, self.info.label_names)

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return one optimizer group for each network that trains in the present stage.

        A group may also hold ``learning_rate_scale``, a factor of the run's learning rate; ``schedule``, the name of a
        schedule that replaces the run's; ``schedule_epochs``, the epochs that the schedule takes, instead of those of
        the stage; and ``weight_decay``, which replaces the run's.
        """
        trains = self.attributes is not None and (self.in_pretraining or not self.attributes.is_static)
        estimator = self.attributes.parameter_groups() if self.attributes is not None and trains else []
        if self.in_pretraining:
            return estimator
        return [{"params": list(self.network.parameters()), "name": "network"}, *estimator]


def _take_sizes(method: Algorithm, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Give the buffers ``resizable_buffers`` the sizes that the state has, before it is loaded."""
    for name in method.resizable_buffers:
        if (kept := state.get(f"{prefix}{name}")) is not None:
            setattr(method, name, torch.empty_like(kept, device=getattr(method, name).device))
