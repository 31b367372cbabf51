"""The base of all training methods.

A method is an ``nn.Module`` that holds its networks and its state and turns a batch into one loss, so that any training
loop can train it. ``examples/extensions/focal_loss.py`` is a complete method of your own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator, BatchEstimate, ParameterGroup, make_parameter_group
from logit_correction.errors import InputError
from logit_correction.finding import Finding
from logit_correction.losses import GroupPrior
from logit_correction.methods.parts import PRIORS, Counted, Moving, PriorRule, describe_collapsed_labels
from logit_correction.registry import make_component
from logit_correction.seeds import StepRandomness, seed_default_generator
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, TrainingRows


class Algorithm(nn.Module):
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

    A subclass takes ``(network, info, *, its own options, seed)`` and overrides ``compute_loss``. Every option becomes
    one of the command line. A method that needs the attribute of every row takes an attribute estimator as one of its
    options and passes it to ``use_attributes``: the estimator's stages then come before the method's own stage.

    Attributes:
        components: Constructor arguments that have options of their own, each named by the kind of component:
            attributes, mixing or prior.
        needs_attributes: Whether the method reads attribute labels of training rows; otherwise it gets none.
        needs_valid_attributes: Whether it learns from attribute labels of validation rows.
        learns_valid_rows: Whether it trains on validation rows, which then cannot select an epoch.

        num_stages: Number of stages of the training.
        stage: The present stage, 0..num_stages-1; ``begin_stage`` sets it, and so does a resumed training.
        attributes: The attribute estimator; None without one.
        valid_estimators: Estimators that give the attributes of the validation rows.
        network: The network that predicts.
        group_prior: The estimated P(y, a); None without one.
        prior_rule: Computes the group prior; None without one.
        built_networks: All networks that ``build`` has built.
    """

    components: Sequence[str] = ()
    needs_attributes: bool = False
    needs_valid_attributes: bool = False
    learns_valid_rows: bool = False

    num_stages: int = 1
    valid_estimators: Sequence[AttributeEstimator] = ()

    def __init__(self, network: NetworkFactory, info: DataInfo, *, seed: int = 0) -> None:
        """Build the network that predicts.

        Args:
            network: Called without arguments, returns a fresh network that maps inputs to logits (B, L).
            info: Sizes and names of the data.
            seed: Seed of the initial weights and of everything random in a step.
        """
        super().__init__()
        self.info = info
        self.seed = seed
        self.built_networks: list[nn.Module] = []
        self.network = self.build(network, "network")
        self.randomness = StepRandomness(seed)
        self.group_prior: GroupPrior | None = None
        self.prior_rule: PriorRule | None = None
        self.attributes: AttributeEstimator | None = None
        self.stage = self.num_stages - 1
        self.register_load_state_dict_pre_hook(_resize_buffers)

    def build(self, network: NetworkFactory, role: str) -> Any:
        """Build a network whose weights depend only on this method's seed and the network's role.

        So ERM and LC of one seed start with the same predicting network. The global random state does not change.

        Args:
            network: Factory of the network.
            role: What the network is for, different for each network of the method.

        Raises:
            TypeError: ``network`` is a network and not a factory.
        """
        if isinstance(network, nn.Module):
            raise TypeError("network must build a network when called: give `lambda: MyNetwork()`, not the network")
        with seed_default_generator(self.seed, role):
            self.built_networks.append(network())
        return self.built_networks[-1]

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Return the loss of a batch, in a stage of the estimator that of the estimator.

        Args:
            batch: The rows.
            epoch: Epochs since the stage began, with the fraction of the current one.
        """
        if self.in_pretraining and self.attributes is not None:
            return self.attributes.step(batch, epoch, self.randomness)
        return self.compute_loss(batch, epoch)

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return the loss of a batch in a stage of the method's own; the arguments are those of ``forward``."""
        raise NotImplementedError

    def predict(self, inputs: Inputs) -> Tensor:
        """Return uncorrected logits (B, L); in a stage of the estimator those of the network that it trains."""
        if self.in_pretraining and self.attributes is not None:
            return self.attributes.predict_logits(inputs)
        return self.network(inputs)

    def use_attributes(self, attributes: AttributeEstimator | str, network: NetworkFactory) -> None:
        """Attach an attribute estimator.

        Args:
            attributes: The estimator, or its name.
            network: Factory of the networks that the estimator trains.
        """
        estimator = make_component("attribute estimator", attributes, ESTIMATORS, AttributeEstimator)
        estimator.attach(self.build, network, self.info, self.seed)
        self.attributes = estimator
        self.needs_attributes = estimator.needs_attributes
        self._set_num_stages()

    def use_prior(self, prior: PriorRule | str | None, static_default: PriorRule | None = None) -> None:
        """Set the rule that computes the group prior from the estimated attributes.

        Args:
            prior: The rule, or its name; None takes ``static_default`` with a static estimator, else ``Moving``.
            static_default: By default ``Counted()``.
        """
        assert self.attributes is not None
        if prior is None:
            prior = (static_default or Counted()) if self.attributes.is_static else Moving()
        self.prior_rule = make_component("prior", prior, PRIORS, PriorRule)
        self.group_prior = self.prior_rule.build_prior(self.attributes)

    def _set_num_stages(self) -> None:
        if self.attributes is not None:
            self.num_stages = self.attributes.num_stages + 1
            self.stage = self.num_stages - 1

    @property
    def in_pretraining(self) -> bool:
        """Whether the present stage is the attribute estimator's."""
        return self.attributes is not None and self.stage < self.attributes.num_stages

    @staticmethod
    def add_estimator_loss(loss: Tensor, estimate: BatchEstimate) -> Step:
        """Return the step whose loss is that of the robust network plus the estimator's, if the estimator trains.

        Args:
            loss: 0-d, of the robust network.
            estimate: Of the same batch.
        """
        step = Step(loss, {"loss_robust": loss.detach()})
        if estimate.loss is not None:
            step.loss = loss + estimate.loss
            step.logs["loss_biased"] = estimate.loss.detach()
        return step

    def setup(self, rows: TrainingRows) -> None:
        """Use facts of all training rows, once, before training begins or resumes; must not take long."""
        if self.attributes is not None:
            self.attributes.setup(rows)
            self._set_num_stages()  # the estimator may have found that it needs no stage

    def adopt_finding(self, finding: Finding) -> None:
        """Correct by what an earlier search on these data found instead of searching; called after ``setup``."""
        if self.attributes is not None:
            self.attributes.adopt_finding(finding)
            self._set_num_stages()

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Prepare a stage and return what it asks of the loop.

        Args:
            stage: 0..num_stages-1.
            outputs: (N, C), what ``collect_outputs`` returned for all training rows, in evaluation mode, at the end of
                the previous stage, on any device; None at stage 0.

        Raises:
            InputError: The outputs of the previous stage are missing.
        """
        self.stage = stage
        if self.attributes is None:
            return Stage()
        if stage and outputs is None:
            raise InputError(
                "begin_stage needs what collect_outputs returned at the end of the stage before; after "
                "load_state_dict set method.stage instead"
            )
        outputs = None if outputs is None else outputs.cpu()  # where the labels of all rows are
        if self.in_pretraining:
            return self.attributes.begin_stage(stage, outputs)
        self.attributes.finish(outputs)
        if self.prior_rule is not None and self.group_prior is not None:
            self.prior_rule.fit_prior(self.group_prior, self.attributes)
        return self.begin_method_stage()

    def begin_method_stage(self) -> Stage:
        """Return what the method's own stage asks of the loop; called after the estimates and the prior are made."""
        return Stage()

    def collect_outputs(self, batch: Batch) -> Tensor:
        """Return what ``begin_stage`` of the next stage gets of training rows, (B, C); by default their logits."""
        if self.in_pretraining and self.attributes is not None:
            return self.attributes.collect_outputs(batch)
        return self.predict(batch.inputs)

    def end_epoch(self) -> list[str]:
        """End an epoch and return the warnings that now apply."""
        if self.group_prior is not None:
            self.group_prior.end_epoch()
        if self.in_pretraining or self.attributes is None:
            return []
        warnings = self.attributes.list_estimate_warnings()
        if self.group_prior is not None:
            warnings += describe_collapsed_labels(self.group_prior, self.attributes.correlation, self.info.label_names)
        return warnings

    def parameter_groups(self) -> list[ParameterGroup]:
        """Return one optimizer group for each network that trains in the present stage.

        A group may also hold ``learning_rate_scale``, a factor of the run's learning rate; ``schedule``, the name of a
        schedule that replaces the run's; ``schedule_epochs``, the epochs that the schedule takes, instead of those of
        the stage; and ``weight_decay``, which replaces the run's.
        """
        groups = [] if self.in_pretraining else [make_parameter_group(self.network, "network")]
        if self.attributes is not None and (self.in_pretraining or not self.attributes.is_static):
            groups += self.attributes.parameter_groups()
        return groups


def _resize_buffers(method: Algorithm, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Give the method's own buffers the sizes that the state has, before it is loaded."""
    for name, buffer in method.named_buffers(recurse=False):
        if prefix + name in state:
            setattr(method, name, torch.empty_like(state[prefix + name], device=buffer.device))
