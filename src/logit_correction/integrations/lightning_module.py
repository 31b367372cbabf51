"""A whole method, with its stages, as one LightningModule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from logit_correction.errors import InputError, TrainingError
from logit_correction.evaluation.predictions import collect, evaluating
from logit_correction.integrations.lightning_evaluation import EvaluatedModule
from logit_correction.integrations.lightning_parts import Batches, hyperparameters, run_config
from logit_correction.runs.api import Part
from logit_correction.runs.train import prepare
from logit_correction.seeds import LayerRandomness
from logit_correction.training.checkpoint import Progress
from logit_correction.training.fit import training_loader
from logit_correction.training.optim import clip_gradients, make_optimizer, set_learning_rates
from logit_correction.training.optim import prepare as prepare_networks
from logit_correction.types import Batch, Stage

#: Entry of a checkpoint.
_KEY = "logit_correction"


class LightningMethod(EvaluatedModule):
    """A method of this package on its data, to be trained by ``Trainer(max_epochs=-1).fit(module)``.

    The module brings its data, goes through the method's stages by itself, and stops the trainer after the last one. On
    one device and with the trainer's default precision it takes the very steps of ``logit_correction.train``. A
    checkpoint of the trainer resumes in any stage and any epoch. ``trainer.test(module)`` judges it by group.

    After each epoch of the last stage the scores of selection rules are logged, ``valid_average`` and
    ``valid_worst_class`` always, for ``ModelCheckpoint(monitor=..., mode="max")``. They are NaN in earlier stages,
    whose weights are not yet what the method makes: no epoch of theirs is the best, and
    ``EarlyStopping`` is of no use here.

    Attributes:
        algorithm: The method, with its networks.
        figures: The test block of ``report.json`` after ``trainer.test``.
        warnings: What the user should know of the training.
    """

    def __init__(
        self,
        data: Part,
        *,
        method: Part = "LC",
        network: Part | Callable[[], nn.Module] | None = None,
        biased_network: Part | None = None,
        encoder: Part | None = None,
        preset: str | None = None,
        shortcut: Sequence[str] = (),
        legitimate: Sequence[str] = (),
        rules: Sequence[str] = (),
        **training: Any,
    ) -> None:
        """Read the data and build the method.

        Args:
            data: The data source, as ``logit_correction.train`` takes it: a name, a mapping of its name and options, or
                what ``from_arrays`` or ``from_table`` returned.
            method: The method.
            network: The network; by default one that fits the data. A function without arguments that builds a network
                of your own is taken, too.
            biased_network: The network of methods that have a biased one; by default like ``network``.
            encoder: A frozen network whose features take the place of the inputs.
            preset: Name of a preset, whose options count where nothing else is given.
            shortcut: Views that are known to be a shortcut.
            legitimate: Views that are known to be none.
            rules: Further selection rules whose scores are logged.
            **training: Options of ``TrainingConfig`` that are not the trainer's, such as ``epochs``, ``batch_size``,
                ``learning_rate`` and ``seed``.

        Raises:
            InputError: Something given is wrong, or is the trainer's to choose.
        """
        super().__init__()
        parts: dict[str, Part | None] = {
            "data": data,
            "method": method,
            "biased_network": biased_network,
            "encoder": encoder,
        }
        views = {"shortcut": list(shortcut), "legitimate": list(legitimate)}
        config = run_config(parts, network, preset, views, rules, training)
        built = prepare(config, None)
        self.table, self.algorithm, self.config = built.table, built.algorithm, built.config.training
        self.save_hyperparameters(hyperparameters(built.config))
        prepare_networks(self.algorithm, self.config, torch.device("cpu"))
        self.progress = Progress()
        self.choose_rules(rules)

    @property
    def warnings(self) -> list[str]:
        """What the user should know of the training."""
        return [*self.table.notes, *self.table.attribute_notes, *self.progress.warnings]

    @property
    def plan(self) -> Stage:
        """What the method asks of the present stage; begins the first one."""
        if self.progress.plan is None:
            self.progress.plan = self.algorithm.begin_stage(0, None)
        return self.progress.plan

    @property
    def stage_epochs(self) -> int:
        """Epochs of the present stage."""
        return self.plan.epochs or self.config.epochs or 1

    def setup(self, stage: str) -> None:
        """Check what the trainer is set to."""
        if stage != "fit":
            return
        if self.trainer.world_size > 1:
            raise InputError(
                f"LightningMethod trains in one process, not in {self.trainer.world_size}: take Trainer(devices=1), or "
                "logit_correction.train(..., devices=N), which trains in several"
            )
        self._layers = LayerRandomness(self.config.seed, self.trainer.strategy.root_device)
        if self.algorithm.num_stages > 1:  # the number of batches may differ between stages
            self.trainer.reload_dataloaders_every_n_epochs = 1

    def train_dataloader(self) -> Batches:
        """Return the batches of the present stage, in the order that our own loop gives them."""
        stage = self.progress.stage
        loader = training_loader(self.table, self.algorithm, self.plan, stage, self.config, self.device)
        self._steps, self._loaded = len(loader), stage
        return Batches(loader, lambda: (self.progress.epoch, self.progress.step))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer of the present stage."""
        start = self.plan.learning_rate or self.config.learning_rate
        return make_optimizer(self.algorithm.parameter_groups(), self.config, start)

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip each network by itself, as one norm over all would let one's gradient shrink another's."""
        if gradient_clip_algorithm == "value":
            raise InputError("gradients are clipped by their norm: leave Trainer(gradient_clip_algorithm=...) out")
        if gradient_clip_val:
            clip_gradients(optimizer.param_groups, float(gradient_clip_val))

    def on_train_epoch_start(self) -> None:
        """End an epoch that was resumed after its last step."""
        if self.progress.step >= self._steps:
            self.on_train_epoch_end()
        if self._loaded != self.progress.stage:
            raise TrainingError(
                "the checkpoint was written between the last step of a stage and its end: resume from one that was "
                "written at the end of an epoch, ModelCheckpoint(save_on_train_epoch_end=True)"
            )

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Set the learning rates of the step."""
        done, total = self.progress.epoch * self._steps + self.progress.step, self.stage_epochs * self._steps
        for optimizer in self.trainer.optimizers:
            set_learning_rates(optimizer.param_groups, done, total, self.config)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch."""
        progress = self.progress
        self._layers.seed(progress.total_steps)
        step = self.algorithm(batch, progress.epoch + progress.step / self._steps)
        self.log_dict({"loss": step.loss.detach(), **step.logs}, batch_size=len(batch.label))
        progress.step, progress.total_steps = progress.step + 1, progress.total_steps + 1
        loss: Tensor = step.loss
        return loss

    def on_train_epoch_end(self) -> None:
        """End the method's epoch, and its stage if that was the last epoch of it."""
        progress = self.progress
        progress.warnings = self.algorithm.end_epoch()
        progress.epoch, progress.step = progress.epoch + 1, 0
        if progress.epoch < self.stage_epochs:
            return
        if progress.stage + 1 == self.algorithm.num_stages:
            self.trainer.should_stop = True
            return
        outputs = self._collect()
        progress.plan = self.algorithm.begin_stage(progress.stage + 1, outputs)
        progress.stage, progress.epoch = progress.stage + 1, 0
        self.trainer.strategy.setup_optimizers(self.trainer)  # parameters differ between stages

    def _collect(self) -> Tensor:
        """Return what the method collects of all training rows for its next stage."""
        with evaluating(self.algorithm), self.trainer.precision_plugin.val_step_context():
            return collect(
                lambda batch: {"outputs": self.algorithm.collect(batch).float()}, self.loader("train").epoch()
            )["outputs"]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save where the training stands, as tensors and plain values."""
        checkpoint[_KEY] = self.progress.to_plain()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from where a training stood.

        Raises:
            InputError: The checkpoint is none of this module.
        """
        if _KEY not in checkpoint:
            raise InputError("the checkpoint was not written by a LightningMethod: load its state_dict by yourself")
        self.progress = Progress.from_plain(checkpoint[_KEY])
        self.algorithm.stage = self.progress.stage
