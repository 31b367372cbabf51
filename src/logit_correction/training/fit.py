"""The training loop: flat, the same for every method, resumable at any step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from logit_correction.data.loading import BatchLoader
from logit_correction.errors import InputError
from logit_correction.training import checkpoint
from logit_correction.training.checkpoint import Progress
from logit_correction.training.display import Display
from logit_correction.training.evaluation import Evaluation
from logit_correction.training.interrupt import Interrupted, StopRequest, stop_requests
from logit_correction.training.loaders import training_loader
from logit_correction.training.networks import LayerRandomness, prepare
from logit_correction.training.optim import clear_gradients, clip_gradients, make_optimizer, set_learning_rates
from logit_correction.training.record import Record
from logit_correction.training.rules import update_best
from logit_correction.training.watch import watched


@dataclass
class Fit(Evaluation):
    """One training: what is trained, on what, how, and where it stands.

    Attributes:
        checkpoint_path: File to resume from, written while training goes on; None writes none.
        display: Shows progress.
        loggers: Lightning's, which take each row of figures with its step.
        checkpoint_seconds: Least time between two checkpoints; 0 writes one after every epoch.
    """

    checkpoint_path: Path | None
    display: Display
    loggers: list[Any] | None = None
    checkpoint_seconds: float = 30.0

    def __post_init__(self) -> None:
        """Prepare what does not depend on the stage."""
        if self.config.epochs is None or self.config.batch_size is None:
            raise InputError("the loop needs a number of epochs and a batch size: give --epochs and --batch_size")
        super().__post_init__()
        self.epochs = self.config.epochs
        self.progress, self.record = Progress(), Record(self.loggers)
        self._title = type(self.algorithm).__name__
        prepare(self.algorithm, self.config, self.fabric.device)
        self._layers = LayerRandomness(self.config.seed, self.fabric.global_rank, self.fabric.device)
        self._cuda = [self.fabric.device] if self.fabric.device.type == "cuda" else []
        self._saved_at = self._started = time.monotonic()

    def run(self, resume: bool = False) -> None:
        """Train to the end.

        Args:
            resume: Go on from the checkpoint.

        Raises:
            InputError: The checkpoint cannot be gone on from, or is of other data.
            Interrupted: Somebody asked to stop; a checkpoint was written.
            TrainingError: The loss was not finite; the last checkpoint stays.
        """
        optimizer_state = None
        if resume and self.checkpoint_path is not None:
            self.progress, parts = checkpoint.load(self.checkpoint_path, self.fingerprint)
            checkpoint.load_state(self.checkpoint_path, self.algorithm, parts["algorithm"])
            self.algorithm.stage = self.progress.stage
            self.record.load(parts["record"])
            optimizer_state = parts["optimizer"]
        with self._training() as request:
            while self.progress.stage < self.algorithm.num_stages:
                self._run_stage(request, optimizer_state)
                optimizer_state = None
                if self.progress.stage + 1 == self.algorithm.num_stages:
                    return
                self._begin_stage(self.progress.stage + 1, self._outputs())

    @contextmanager
    def _training(self) -> Iterator[StopRequest]:
        """Leave torch's own randomness as it was, listen to requests to stop, and count the time."""
        self._started = time.monotonic() - self.progress.seconds
        with torch.random.fork_rng(devices=self._cuda), stop_requests() as request:
            yield request
        self._count_seconds()

    def _count_seconds(self) -> None:
        """Count what went by, the work between stages and validation included."""
        self.progress.seconds = time.monotonic() - self._started

    def _outputs(self) -> Tensor:
        """Return what the method collects of all training rows for its next stage."""
        outputs = self.predict("train", self.algorithm.collect)
        if self.fabric.world_size > 1:  # running statistics are each process's own, the next stage is common
            outputs = self.fabric.broadcast(outputs)
        return outputs

    def prepare(self) -> None:
        """Train what comes before the method's own stage, the attribute estimator, and no more.

        Raises:
            Interrupted: Somebody asked to stop.
            TrainingError: The loss was not finite.
        """
        last = self.algorithm.num_stages - 1
        with self._training() as request:
            while self.progress.stage < last:
                self._run_stage(request, None)
                self._begin_stage(self.progress.stage + 1, self._outputs())
            if self.progress.plan is None:
                self._begin_stage(0, None)

    def _begin_stage(self, stage: int, outputs: Tensor | None) -> None:
        self.progress.plan = self.algorithm.begin_stage(stage, outputs)
        self.progress.stage, self.progress.epoch, self.progress.step = stage, 0, 0

    def _run_stage(self, request: StopRequest, optimizer_state: dict[str, Any] | None) -> None:
        progress, config = self.progress, self.config
        if progress.plan is None:
            self._begin_stage(0, None)
        plan = progress.plan
        assert plan is not None
        loader = training_loader(
            self.table,
            self.algorithm,
            plan,
            progress.stage,
            config,
            self.fabric.device,
            rank=self.fabric.global_rank,
            world_size=self.fabric.world_size,
        )
        # The strategy's module alone, DistributedDataParallel or none: what fabric.setup puts around it walks
        # through every batch and hooks every loss, which costs more than all the rest of the loop.
        module = self.fabric.strategy.setup_module(self.algorithm)
        groups = self.algorithm.parameter_groups()
        optimizer = make_optimizer(groups, config, plan.learning_rate or config.learning_rate)
        if optimizer_state is not None:
            optimizer.load_state_dict(optimizer_state)
        epochs, title = plan.epochs or self.epochs, self._title
        if self.algorithm.num_stages > 1:
            title += f", stage {progress.stage + 1} of {self.algorithm.num_stages}"
        self.display.start(title, epochs * len(loader), progress.epoch * len(loader) + progress.step)
        while progress.epoch < epochs:
            self._run_epoch(module, optimizer, loader, epochs, request)
            progress.warnings = self.algorithm.end_epoch()
            progress.epoch, progress.step = progress.epoch + 1, 0
            self._validate()
            self._save_if_due(optimizer, request, force=progress.epoch == epochs)

    def _run_epoch(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        loader: BatchLoader,
        epochs: int,
        request: StopRequest,
    ) -> None:
        progress, config, steps = self.progress, self.config, len(loader)
        for batch in loader.epoch(progress.epoch, progress.step):
            set_learning_rates(optimizer.param_groups, progress.epoch * steps + progress.step, epochs * steps, config)
            with self.fabric.autocast():
                self._layers.seed(progress.total_steps)
                step = module(batch, progress.epoch + progress.step / steps)
            clear_gradients(optimizer.param_groups)
            (step.loss if self.fabric.world_size == 1 else step.loss * loader.weight(progress.step)).backward()
            if config.gradient_clip:
                clip_gradients(optimizer.param_groups, config.gradient_clip)
            optimizer.step()
            self.record.add(step.loss, step.logs)
            progress.step, progress.total_steps = progress.step + 1, progress.total_steps + 1
            if progress.total_steps % config.log_every == 0:
                self._flush(progress.epoch * steps + progress.step, optimizer)
                self._save_if_due(optimizer, request)
            elif request.asked and self.fabric.world_size == 1:
                self._save_if_due(optimizer, request)
        self._flush((progress.epoch + 1) * steps, optimizer)

    def _flush(self, done: int, optimizer: torch.optim.Optimizer) -> None:
        progress = self.progress
        row = self.record.flush(
            step=progress.total_steps,
            stage=progress.stage,
            epoch=progress.epoch,
            learning_rate=optimizer.param_groups[0]["lr"],
        )
        if row is not None:
            self.display.update(done, self.record.latest())

    def _validate(self) -> None:
        progress, rows, scores = self.progress, None, {}
        if len(self.table.split["valid"]):
            rows = self.validation_rows()
            if self.fabric.world_size > 1:  # running statistics are each process's own, the epoch to keep is common
                rows = self.fabric.broadcast(rows)
            scores = {name: rule.score(rows) for name, rule in self.scored.items()}
        known = {name: score for name, score in scores.items() if score is not None}
        row = {"step": progress.total_steps, "stage": progress.stage, "epoch": progress.epoch, **known}
        row |= watched(self.config.watch, self.table, self.predict)  # never offered: nothing is chosen by it
        self.record.append(row)
        # A model of an early stage is not yet what the method makes, so only the last stage's are offered.
        if progress.stage + 1 == self.algorithm.num_stages:
            rules = {name: rule for name, rule in self.scored.items() if name in self.rules}
            update_best(progress.best, rules, scores, rows, progress.epoch, self.algorithm.state_dict())

    def _save_if_due(self, optimizer: torch.optim.Optimizer, request: StopRequest, force: bool = False) -> None:
        due = force or request.asked or time.monotonic() - self._saved_at >= self.checkpoint_seconds
        stop = request.asked
        if self.fabric.world_size > 1:
            due, stop = self.fabric.broadcast((due, stop))
        if due:
            with request.waiting():
                self.save(optimizer)
        if stop:
            raise Interrupted

    def save(self, optimizer: torch.optim.Optimizer) -> None:
        """Write the checkpoint to resume from.

        Raises:
            TrainingError: A loss since the last row of figures or a weight is not finite; the old checkpoint stays.
        """
        self.record.check(self.progress.total_steps)
        checkpoint.check_finite(self.algorithm.parameters(), self.progress.total_steps)
        self._count_seconds()
        if self.checkpoint_path is not None and self.fabric.is_global_zero:
            content = checkpoint.content(
                self.progress,
                data=self.fingerprint,
                algorithm=self.algorithm.state_dict(),
                optimizer=optimizer.state_dict(),
                record=self.record.state(),
            )
            checkpoint.write(self.checkpoint_path, content)
        self._saved_at = time.monotonic()
        self.fabric.barrier()
