"""The training loop: flat, the same for every method, resumable at any step."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from logit_correction.data.loading import BatchLoader
from logit_correction.data.table import DataTable, compute_fingerprint
from logit_correction.distributed import (
    average_gradients,
    broadcast_from_first,
    broadcast_object,
    num_processes,
    rank,
    wait_for_processes,
)
from logit_correction.errors import InputError, TrainingError, TrainingInterrupted
from logit_correction.evaluation.predictions import (
    PredictedAttributes,
    Predictions,
    build_predictions,
    collect_outputs,
    evaluation_mode,
)
from logit_correction.evaluation.report import EvaluatedRows
from logit_correction.methods.base import Algorithm
from logit_correction.seeds import LayerRandomness, derive_seed
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import Display
from logit_correction.training.optimizer import Optimizer
from logit_correction.training.record import (
    OTHER_VERSION,
    MetricsRecorder,
    TrainingProgress,
    read_checkpoint,
    write_checkpoint,
)
from logit_correction.training.rules import SelectionRule, choose_rule, update_best_weights
from logit_correction.types import Batch, Inputs, ViewInputs


@dataclass
class Trainer:
    """One training of an algorithm on a table, resumable at any step.

    Attributes:
        device: Where this process trains.
        checkpoint_path: The file to resume from, written during training; None writes none.
        loggers: Loggers of Lightning's, which get each row of figures with its step.
        checkpoint_seconds: Least time between two writes of the checkpoint.
        after_epoch: Called with the loop after each epoch; the figures that it returns go to ``metrics.csv``.
        progress: Where the training stands.
    """

    #: Figures of the validation rows after each epoch; those by groups only where the rule reads attributes.
    RECORDED: ClassVar[tuple[str, ...]] = ("average", "worst_class", "group_balanced", "worst_group")
    SHOW_SECONDS: ClassVar[float] = 2.0  # progress is shown at least so often
    FINETUNE_RATE: ClassVar[float] = 0.05  # learning rate of pretrained layers, times that of the head; 1e-4 by default

    algorithm: Algorithm
    table: DataTable
    config: TrainingConfig
    device: torch.device
    checkpoint_path: Path | None
    display: Display
    loggers: list[Any] | None = None
    checkpoint_seconds: float = 30.0
    after_epoch: Callable[[Trainer], Mapping[str, float]] | None = None

    def __post_init__(self) -> None:
        self.progress, self.record = TrainingProgress(), MetricsRecorder(self.loggers)
        self.rule = choose_rule(self.config, self.algorithm)
        self._valid = BatchLoader(self.table, "valid", device=self.device)
        self._estimates: dict[str, PredictedAttributes | None] = {}
        self.algorithm.to(self.device)
        if self.config.channels_last:
            self.algorithm.to(memory_format=torch.channels_last)
        for network in self.algorithm.built_networks if self.config.compile else ():
            # In place, so that names in checkpoints stay. Features apart from the head, a single layer, since some
            # methods mix or swap features.
            features = getattr(network, "features", None)  # of a user's network it may be anything
            if isinstance(features, torch.nn.Module):
                features.compile(mode=None if self.config.compile is True else self.config.compile)
            else:
                # Without CUDA graphs: the next pass would overwrite the logits, which are kept for longer.
                network.compile()
        self._layers = LayerRandomness(self.config.seed, self.device)
        self._cuda = [self.device] if self.device.type == "cuda" else []
        self._saved_at = self._started = self._shown_at = time.monotonic()

    @property
    def epochs(self) -> int:
        """The epochs of the present stage."""
        plan, epochs = self.progress.plan, self.config.epochs
        assert plan is not None and epochs is not None
        return epochs if plan.epochs is None else plan.epochs

    @cached_property
    def fingerprint(self) -> str:
        """Of the data."""
        return compute_fingerprint(self.table)

    def can_resume(self) -> bool:
        """Return whether a training was begun whose checkpoint is there."""
        return self.checkpoint_path is not None and self.checkpoint_path.is_file()

    def run(self, resume: bool = False, estimator_only: bool = False) -> None:
        """Train to the end, or with ``estimator_only`` up to the method's own stage; ``resume`` from the checkpoint."""
        optimizer_state = self._read_checkpoint(self.checkpoint_path) if resume and self.checkpoint_path else None
        progress = self.progress
        self._started = time.monotonic() - progress.seconds
        with torch.random.fork_rng(devices=self._cuda), catch_stop_signals() as self._asked:
            if progress.plan is None:
                self._begin_stage(0, None)
            while not (last := progress.stage + 1 == self.algorithm.num_stages) or not estimator_only:
                self._run_stage(optimizer_state)
                if last:
                    break
                optimizer_state, outputs = None, self.predict("train", self.algorithm.collect_outputs)
                # Running statistics are each process's own, the next stage is common.
                self._begin_stage(progress.stage + 1, broadcast_object(outputs))
        progress.seconds = time.monotonic() - self._started

    def _read_checkpoint(self, path: Path) -> dict[str, Any]:
        """Load the state of a training, and return that of its optimizer."""
        content = read_checkpoint(path)
        if content.get("data") != self.fingerprint:
            raise InputError(
                f"the data are not those that the run in {path.parent} was started with: there are other rows, "
                "inputs, labels or splits; put the former data back, or train into a new folder"
            )
        try:
            self.progress = TrainingProgress.from_plain(content["progress"])
            self.algorithm.load_state_dict(content["algorithm"])
            self.record.load(content["record"])
            self.algorithm.stage = self.progress.stage
            return dict(content["optimizer"])
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise InputError(f"{path} {OTHER_VERSION}") from error

    def _begin_stage(self, stage: int, outputs: Tensor | None) -> None:
        self.progress.plan = self.algorithm.begin_stage(stage, outputs)
        self.progress.stage, self.progress.epoch, self.progress.step = stage, 0, 0

    def _run_stage(self, optimizer_state: dict[str, Any] | None) -> None:
        progress, config, plan = self.progress, self.config, self.progress.plan
        assert plan is not None and config.batch_size is not None
        algorithm = self.algorithm
        loader = BatchLoader(
            self.table,
            "train",
            batch_size=plan.batch_size(config.batch_size, num_processes()),
            # Counted from the last one, so that methods of one stage and of several see their rows in one order.
            seed=derive_seed(config.seed, "stage", algorithm.num_stages - 1 - progress.stage),
            shuffle=True,
            sample_weight=plan.sample_weight,
            drop_last=config.drop_last,
            device=self.device,
            rank=rank(),
            world_size=num_processes(),
        )
        # Torch's own wrapper warns, or fails, wherever a stage leaves networks untrained. Buffers stay each process's
        # own: the methods reduce what must be common.
        for parameter in algorithm.parameters():
            broadcast_from_first(parameter.data)
        features = (
            [getattr(network, "features", None) for network in algorithm.built_networks] if config.finetune else []
        )
        pretrained = [list(one.parameters()) for one in features if isinstance(one, torch.nn.Module)]
        theirs, rate = {id(one) for layers in pretrained for one in layers}, self.FINETUNE_RATE
        groups = split_groups(algorithm.parameter_groups(), lambda one: id(one) in theirs, learning_rate_scale=rate)
        optimizer = make_optimizer(groups, config, plan.learning_rate or config.learning_rate)
        if optimizer_state is not None:
            optimizer.load_state_dict(optimizer_state)
        epochs, title = self.epochs, type(algorithm).__name__
        if algorithm.num_stages > 1:
            title += f", stage {progress.stage + 1} of {algorithm.num_stages}"
        self.display.start(title, epochs * len(loader), progress.epoch * len(loader) + progress.step)
        while progress.epoch < epochs:
            for layers in pretrained:
                for number, layer in enumerate(layers):
                    layer.requires_grad_(3 * progress.epoch >= epochs or 3 * number >= 2 * len(layers))
            self._run_epoch(optimizer, loader, epochs)
            progress.warnings = algorithm.end_epoch()
            progress.epoch, progress.step = progress.epoch + 1, 0
            self._validate()
            self._save_if_due(optimizer, force=progress.epoch == epochs)

    def _run_epoch(self, optimizer: Optimizer, loader: BatchLoader, epochs: int) -> None:
        progress, config, steps = self.progress, self.config, len(loader)
        single = num_processes() == 1
        for batch in loader.epoch(progress.epoch, progress.step):
            now = progress.epoch * steps + progress.step
            for group in optimizer.param_groups:
                length = group.get("schedule_epochs", epochs) * steps
                group["lr"] = group["start"] * compute_schedule_factor(group["schedule"], now, length, config)
            with self._autocast():
                self._layers.seed(progress.total_steps)
                step = self.algorithm(batch, progress.epoch + progress.step / steps)
            optimizer.zero_grad()
            (step.loss if single else step.loss * loader.compute_loss_weight(progress.step)).backward()
            average_gradients(parameter for group in optimizer.param_groups for parameter in group["params"])
            if config.gradient_clip:
                clip_gradients(optimizer.param_groups, config.gradient_clip)
            optimizer.step()
            self.record.add(step.loss, step.logs)
            progress.step, progress.total_steps = progress.step + 1, progress.total_steps + 1
            if progress.total_steps % config.log_every == 0:
                self._flush(progress.epoch * steps + progress.step, optimizer)
                self._save_if_due(optimizer)
            elif self._asked and single:
                self._save_if_due(optimizer)
            elif time.monotonic() - self._shown_at > self.SHOW_SECONDS:  # slow steps are shown before their row
                self._show(progress.epoch * steps + progress.step)
        self._flush((progress.epoch + 1) * steps, optimizer)

    def _flush(self, done: int, optimizer: Optimizer) -> None:
        """MetricsRecorder and show the steps since the last row of figures; ``done`` steps of the stage are done."""
        where = {"stage": self.progress.stage, "epoch": self.progress.epoch}
        if self.record.flush(self.progress.total_steps, **where, learning_rate=optimizer.param_groups[0]["lr"]):
            self._show(done)

    def _show(self, done: int) -> None:
        self.display.update(done, self.record.latest())
        self._shown_at = time.monotonic()

    def _validate(self) -> None:
        progress, rows, rule = self.progress, self.predict_validation_rows([self.rule]), self.rule
        figures: dict[str, float | None] = {}
        if rows is not None:
            judged, score = EvaluatedRows.from_predictions(rows), rule.score(rows)
            figures = {f"valid_{name}": judged.compute_metric(name) for name in self.RECORDED} | {rule.name: score}
            if progress.stage + 1 == self.algorithm.num_stages:  # only models of the last stage are what it makes
                update_best_weights(progress.best, rule, score, rows, progress.epoch, self.algorithm.state_dict())
        row: dict[str, float] = {"step": progress.total_steps, "stage": progress.stage, "epoch": progress.epoch}
        row |= {name: value for name, value in figures.items() if value is not None}
        self.record.append(row | dict(self.after_epoch(self) if self.after_epoch else {}))

    def predict_validation_rows(self, rules: Collection[SelectionRule]) -> Predictions | None:
        """Return what these rules may look at of the model as it is; None without validation rows."""
        if not len(self.table.split["valid"]):
            return None
        estimate = self.estimate("valid") if any(rule.needs_estimate for rule in rules) else None
        groups = any("attribute" in rule.labels_read for rule in rules)
        rows = build_predictions(self.table, "valid", self.predict("valid"), estimate, groups)
        # Running statistics are each process's own, the epoch to keep is common.
        return broadcast_object(rows)

    def estimate(self, split: str) -> PredictedAttributes | None:
        """Return the estimated attributes of the rows of ``split``; settled ones are computed once."""
        if split in self._estimates:
            return self._estimates[split]
        estimate, estimator = predict_split_attributes(self.algorithm, self.table, split), self.algorithm.attributes
        # None is remembered too, since looking needs every form of the rows.
        if estimator is not None and estimator.is_static and not self.algorithm.in_pretraining:
            self._estimates[split] = estimate
        return estimate

    def predict(self, split: str, predict: Callable[[Batch], Tensor] | None = None) -> Tensor:
        """Return the logits (n, L) of all rows of ``split``, on the CPU."""
        predict = predict or (lambda batch: self.algorithm.predict(batch.inputs))
        return self._collect(split, predict).float()

    def _collect(self, split: str, function: Callable[[Batch], Tensor]) -> Tensor:
        loader = self._valid if split == "valid" else BatchLoader(self.table, split, device=self.device)
        with evaluation_mode(self.algorithm), self._autocast():
            return collect_outputs(function, loader.epoch())

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.config.precision == "32-true":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def estimate_training_attributes(self) -> Tensor | None:
        """Return the estimated attribute (N,) of all training rows as things stand; None without an estimator."""
        estimator = self.algorithm.attributes
        if estimator is None or estimator.is_static:
            return None if estimator is None else estimator.row_attribute.cpu()
        return self._collect("train", lambda batch: estimator(batch, 0.0, self.algorithm.randomness).attribute)

    def _save_if_due(self, optimizer: Optimizer, force: bool = False) -> None:
        """Write the checkpoint if it is time, or if somebody has asked to stop; then raise ``TrainingInterrupted``."""
        stop = bool(self._asked)
        due = force or stop or time.monotonic() - self._saved_at >= self.checkpoint_seconds
        due, stop = broadcast_object((due, stop))
        if not due:
            return
        step = self.progress.total_steps
        self.record.pending(step)  # refuses a loss that is not finite
        if not all(bool(weight.isfinite().all()) for weight in self.algorithm.parameters()):  # by a bad gradient
            raise TrainingError(f"the weights are not finite after step {step}: {MetricsRecorder.describe_remedy()}")
        self.progress.seconds = time.monotonic() - self._started
        if self.checkpoint_path is not None and rank() == 0:
            write_checkpoint(
                self.checkpoint_path,
                data=self.fingerprint,
                progress=self.progress.to_plain(),
                record=self.record.state(),
                algorithm=self.algorithm.state_dict(),
                optimizer=optimizer.state_dict(),
            )
        self._saved_at = time.monotonic()
        wait_for_processes()
        if stop:
            raise TrainingInterrupted


def predict_split_attributes(algorithm: Algorithm, table: DataTable, split: str) -> PredictedAttributes | None:
    """Return the estimated attributes of all rows of a split; see ``predict_row_attributes``."""
    return predict_row_attributes(algorithm, table.label[table.split[split]], table.view_inputs(split))


@torch.no_grad()
def predict_row_attributes(algorithm: Algorithm, label: Tensor, rows: ViewInputs) -> PredictedAttributes | None:
    """Return the estimated attributes of rows (n,) of these labels; reads no attribute label."""
    estimator = algorithm.attributes
    if estimator is None or estimator.has_abstained or algorithm.in_pretraining:
        return None
    dtype = next((weight.dtype for weight in algorithm.parameters() if weight.is_floating_point()), None)

    def fetch(part: Tensor) -> Inputs:
        """Return rows in the precision of the network's weights, which a user's own may have chosen."""
        inputs = rows.inputs(part)
        return inputs.to(dtype) if isinstance(inputs, Tensor) and inputs.is_floating_point() else inputs

    with evaluation_mode(estimator):
        found = estimator.predict_attributes(label, replace(rows, inputs=fetch))
    if found is None:
        return None
    names = get_attribute_names(algorithm)
    return PredictedAttributes(found.cpu().numpy(), names, estimator.correlation.to_table(), estimator.describe())


def get_attribute_names(algorithm: Algorithm) -> list[str]:
    """Return the names of a method's attribute values: the data's, or where they are not known "that of LABEL"."""
    estimator, info = algorithm.attributes, algorithm.info
    if estimator is not None and estimator.attribute_names is not None:
        return estimator.attribute_names
    if info.correlation is not None and estimator and estimator.num_attributes == len(info.attribute_names):
        return list(info.attribute_names)
    return [f"that of {name}" for name in info.label_names]


@contextmanager
def catch_stop_signals() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM in the list that is yielded, inside the block and in the main thread.

    A second signal raises ``KeyboardInterrupt`` at once; the last complete checkpoint stays.
    """
    asked: list[int] = []

    def ask(signum: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(signum)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.signal(kind, ask) for kind in kinds}
    try:
        yield asked
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def make_optimizer(groups: list[dict[str, Any]], config: TrainingConfig, learning_rate: float) -> Optimizer:
    """Return the optimizer of one stage for ``Algorithm.parameter_groups()``."""
    decay = config.weight_decay or 0.0
    if decay and not config.decay_norm_and_bias:
        groups = split_groups(
            groups, lambda one: one.dim() <= 1, weight_decay=0.0
        )  # biases and norms have one dimension
    prepared = []
    for group in groups:
        start = learning_rate * group.get("learning_rate_scale", 1.0)
        prepared.append({"schedule": config.schedule, **group, "lr": start, "start": start})
    return Optimizer(prepared, learning_rate, config.optimizer, weight_decay=decay, momentum=config.sgd_momentum)


def split_groups(groups: list[dict[str, Any]], apart: Callable[[Tensor], bool], **options: Any) -> list[dict[str, Any]]:
    """Split each group: the parameters that are ``apart`` get further options."""
    parts = []
    for group in groups:
        parts.append({**group, "params": [one for one in group["params"] if not apart(one)]})
        parts.append({**group, **options, "params": [one for one in group["params"] if apart(one)]})
    return [part for part in parts if part["params"]]


def clip_gradients(groups: Iterable[dict[str, Any]], largest: float) -> None:
    """Scale the gradients of each network, that is of groups of one name, to a norm of at most ``largest``."""
    networks: dict[Any, list[Tensor]] = {}
    for number, group in enumerate(groups):
        networks.setdefault(group.get("name", number), []).extend(group["params"])
    for parameters in networks.values():
        torch.nn.utils.clip_grad_norm_(parameters, largest)


def compute_schedule_factor(schedule: str, step: int, total_steps: float, config: TrainingConfig) -> float:
    """Return what the learning rate is multiplied by in ``step`` (0-based) of a schedule of ``total_steps``."""
    progress = min(step / total_steps, 1.0)
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if schedule == "linear":
        return 1.0 - progress
    if schedule == "step":
        return float(config.step_factor ** (step // config.step_every))
    return 1.0
