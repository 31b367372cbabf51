"""The training loop: the same for every method, and resumable at any step.

A method says what its stages are and what the loss of a batch is; the loop does everything else: batches, optimizer,
schedule, precision, several processes, validation, selection of an epoch, metrics, checkpoints and interruption.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from logit_correction.data.loading import BatchLoader
from logit_correction.data.table import DataTable, compute_fingerprint
from logit_correction.distributed import (
    average_gradients_in_place,
    broadcast_in_place,
    broadcast_object,
    get_rank,
    get_world_size,
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
    describe_divergence_remedy,
    read_checkpoint,
    write_checkpoint,
)
from logit_correction.training.rules import (
    SelectedWeights,
    SelectionRule,
    build_rule,
    choose_rule,
    update_best_weights,
)
from logit_correction.types import Batch, ViewInputs


@dataclass
class Trainer:
    """One training of an algorithm on a table, resumable at any step.

    Attributes:
        algorithm: The method, whose ``setup`` was called.
        table: The data.
        config: Options of the loop, all of them set.
        device: Where this process trains.
        display: Shows progress.
        checkpoint_path: The file to resume from, written during training; None writes none.
        loggers: Lightning loggers, which get each row of metrics with its step.
        checkpoint_seconds: Least time between two writes of the checkpoint.
        last_epochs: Epochs after which the last stage ends, though the schedule is that of all epochs: one number, or
            one for each member of an average; empty for all epochs.
        after_epoch: Called with the trainer after each epoch; the metrics that it returns go to ``metrics.csv``.
        progress: The present stage, epoch and step, and the selected weights.
        record: The metrics of all steps and epochs so far.
        rule: The rule that selects an epoch.
    """

    #: Metrics of the validation rows after each epoch; those by groups only if the rule reads attributes.
    VALIDATION_METRICS: ClassVar[tuple[str, ...]] = ("average", "worst_class", "group_balanced", "worst_group")
    SHOW_SECONDS: ClassVar[float] = 2.0  # longest time without an update of the display
    FINETUNE_RATE: ClassVar[float] = 0.05  # learning rate of pretrained layers, times that of the head; 1e-4 by default

    algorithm: Algorithm
    table: DataTable
    config: TrainingConfig
    device: torch.device
    display: Display
    checkpoint_path: Path | None = None
    loggers: list[Any] | None = None
    checkpoint_seconds: float = 30.0
    after_epoch: Callable[[Trainer], Mapping[str, float]] | None = None
    last_epochs: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.progress = TrainingProgress()
        self.record = MetricsRecorder(self.loggers)
        self.rule = choose_rule(self.config, self.algorithm)
        self._valid_loader = BatchLoader(self.table, "valid", device=self.device)
        self._predicted_attributes: dict[str, PredictedAttributes | None] = {}
        self._stop_signals: Sequence[int] = ()
        self.algorithm.to(self.device)
        if self.config.channels_last:
            self.algorithm.to(memory_format=torch.channels_last)
        if self.config.compile:
            self._compile_networks()
        self._layer_randomness = LayerRandomness(self.config.seed, self.device)
        now = time.monotonic()
        self._saved_at = now
        self._started_at = now
        self._shown_at = now

    def _compile_networks(self) -> None:
        """Compile the networks in place, so that names in checkpoints stay."""
        for network in self.algorithm.built_networks:
            # The features without the head, a single layer: some methods mix or swap features.
            features = getattr(network, "features", None)  # of a user's network it may be anything
            if isinstance(features, torch.nn.Module):
                features.compile(mode=None if self.config.compile is True else self.config.compile)
            else:
                # Without CUDA graphs: the next pass would overwrite the logits, which are kept for longer.
                network.compile()

    @property
    def stage_epochs(self) -> int:
        """The epochs of the present stage."""
        assert self.config.epochs is not None
        epochs = self.progress.plan.epochs
        return self.config.epochs if epochs is None else epochs

    @property
    def in_last_stage(self) -> bool:
        """Whether the method's last stage trains."""
        return self.progress.stage + 1 == self.algorithm.num_stages

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the data, by which a resumed training checks that they are the same."""
        return compute_fingerprint(self.table)

    def get_selections(self) -> list[tuple[SelectionRule, int]]:
        """Return the rule and the epoch that it selected, in a list; of an average, those of each member."""
        best = self.selected_weights
        if best is not None:
            return [(self.rule, best.epoch)]
        # The default rule had no rows to read.
        rule = build_rule("last") if self.config.selection is None else self.rule
        return [(rule, self.progress.epoch)]

    @property
    def selected_weights(self) -> SelectedWeights | None:
        """The weights that the rule of the training has selected; None if it has selected none."""
        return self.progress.best.get(self.rule.name)

    def load_selected_weights(self) -> None:
        """Give the method the weights that were selected; without any it keeps those of the last step."""
        if self.selected_weights is not None:
            self.algorithm.load_state_dict(self.selected_weights.state)

    def run(self, resume: bool = False, estimator_only: bool = False) -> None:
        """Train to the end.

        Args:
            resume: Go on from the checkpoint if it is there.
            estimator_only: Stop before the method's own stage, when the estimator has collected its outputs.

        Raises:
            InputError: The checkpoint is damaged, or of other data.
            TrainingError: A loss or the weights are not finite.
            TrainingInterrupted: The user asked to stop, and the checkpoint is written.
        """
        optimizer_state = None
        if resume and self.checkpoint_path is not None and self.checkpoint_path.is_file():
            optimizer_state = self._restore_from_checkpoint(self.checkpoint_path)
        progress = self.progress
        self._started_at = time.monotonic() - progress.seconds
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), catch_stop_signals() as self._stop_signals:
            if optimizer_state is None:
                self._begin_stage(0, None)
            while not (estimator_only and self.in_last_stage):
                self._run_stage(optimizer_state)
                if self.in_last_stage:
                    break
                optimizer_state = None
                outputs = self.predict("train", self.algorithm.collect_outputs)
                # Batch norm statistics are each process's own, the next stage is common.
                self._begin_stage(progress.stage + 1, broadcast_object(outputs))
        progress.seconds = time.monotonic() - self._started_at

    def _restore_from_checkpoint(self, path: Path) -> dict[str, Any]:
        """Load the state of a training, and return that of its optimizer."""
        content = read_checkpoint(path)
        if content.get("data") != self.fingerprint:
            raise InputError(
                f"the data are not those that the run in {path.parent} was started with: there are other rows, "
                "inputs, labels or splits; put the former data back, or train into a new folder"
            )
        try:
            self.progress = TrainingProgress.from_state(content["progress"])
            self.algorithm.load_state_dict(content["algorithm"])
            self.record.load_state(content["record"])
            self.algorithm.stage = self.progress.stage
            return dict(content["optimizer"])
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise InputError(f"{path} {OTHER_VERSION}") from error

    def _begin_stage(self, stage: int, outputs: Tensor | None) -> None:
        self.progress.plan = self.algorithm.begin_stage(stage, outputs)
        self.progress.stage = stage
        self.progress.epoch = 0
        self.progress.step = 0

    def _run_stage(self, optimizer_state: dict[str, Any] | None) -> None:
        progress = self.progress
        config = self.config
        algorithm = self.algorithm
        stage = progress.plan
        assert config.batch_size is not None
        loader = BatchLoader(
            self.table,
            "train",
            batch_size=stage.compute_global_batch_size(config.batch_size, get_world_size()),
            # Counted from the last stage, so that methods of one stage and of several see their rows in one order.
            seed=derive_seed(config.seed, "stage", algorithm.num_stages - 1 - progress.stage),
            shuffle=True,
            sample_weight=stage.sample_weight,
            drop_last=config.drop_last,
            device=self.device,
            rank=get_rank(),
            world_size=get_world_size(),
        )
        # Torch's own wrapper warns, or fails, wherever a stage leaves networks untrained. Buffers stay each process's
        # own: the methods reduce what must be common.
        for parameter in algorithm.parameters():
            broadcast_in_place(parameter.data)
        networks = algorithm.built_networks if config.finetune else []
        features = [getattr(network, "features", None) for network in networks]
        pretrained = [list(module.parameters()) for module in features if isinstance(module, torch.nn.Module)]
        pretrained_ids = {id(parameter) for layers in pretrained for parameter in layers}
        groups = split_groups(
            algorithm.parameter_groups(),
            lambda parameter: id(parameter) in pretrained_ids,
            learning_rate_scale=self.FINETUNE_RATE,
        )
        optimizer = make_optimizer(groups, config, stage.learning_rate or config.learning_rate)
        if optimizer_state is not None:
            optimizer.load_state_dict(optimizer_state)
        epochs = self.stage_epochs
        last_epoch = self.last_epochs[0] if self.last_epochs and self.in_last_stage else epochs
        title = type(algorithm).__name__
        if algorithm.num_stages > 1:
            title += f", stage {progress.stage + 1} of {algorithm.num_stages}"
        self.display.start(title, last_epoch * len(loader), progress.epoch * len(loader) + progress.step)
        while progress.epoch < last_epoch:
            for layers in pretrained:
                for number, layer in enumerate(layers):
                    # The last third of the layers trains first, all layers after a third of the epochs.
                    layer.requires_grad_(3 * progress.epoch >= epochs or 3 * number >= 2 * len(layers))
            self._run_epoch(optimizer, loader, epochs)
            progress.warnings = algorithm.end_epoch()
            progress.epoch += 1
            progress.step = 0
            self._record_validation_metrics()
            self._checkpoint_or_stop(optimizer, force=progress.epoch == last_epoch)

    def _run_epoch(self, optimizer: Optimizer, loader: BatchLoader, epochs: int) -> None:
        progress = self.progress
        config = self.config
        num_steps = len(loader)
        is_single = get_world_size() == 1
        for batch in loader.epoch(progress.epoch, progress.step):
            stage_step = progress.epoch * num_steps + progress.step
            for group in optimizer.param_groups:
                length = group.get("schedule_epochs", epochs) * num_steps
                group["lr"] = group["start"] * compute_schedule_factor(group["schedule"], stage_step, length, config)
            with self._autocast():
                self._layer_randomness.seed(progress.total_steps)
                step = self.algorithm(batch, progress.epoch + progress.step / num_steps)
            optimizer.zero_grad()
            (step.loss if is_single else step.loss * loader.compute_loss_weight(progress.step)).backward()
            average_gradients_in_place(parameter for group in optimizer.param_groups for parameter in group["params"])
            if config.gradient_clip:
                clip_gradients(optimizer.param_groups, config.gradient_clip)
            optimizer.step()
            self.record.add(step.loss, step.logs)
            progress.step += 1
            progress.total_steps += 1
            if progress.total_steps % config.log_every == 0:
                self._record_and_show_steps(stage_step + 1, optimizer)
                self._checkpoint_or_stop(optimizer)
            elif self._stop_signals and is_single:
                self._checkpoint_or_stop(optimizer)
            elif time.monotonic() - self._shown_at > self.SHOW_SECONDS:  # slow steps are shown before their row
                self._show_latest_metrics(stage_step + 1)
        self._record_and_show_steps((progress.epoch + 1) * num_steps, optimizer)

    def _record_and_show_steps(self, steps_done: int, optimizer: Optimizer) -> None:
        """Record and show the steps since the last row of metrics; ``steps_done`` are those of the stage."""
        position = {"stage": self.progress.stage, "epoch": self.progress.epoch}
        if self.record.flush(self.progress.total_steps, **position, learning_rate=optimizer.param_groups[0]["lr"]):
            self._show_latest_metrics(steps_done)

    def _show_latest_metrics(self, steps_done: int) -> None:
        self.display.update(steps_done, self.record.latest())
        self._shown_at = time.monotonic()

    def _record_validation_metrics(self) -> None:
        progress = self.progress
        predictions = self.predict_validation_rows([self.rule])
        row: dict[str, float] = {"step": progress.total_steps, "stage": progress.stage, "epoch": progress.epoch}
        if predictions is not None:
            evaluated = EvaluatedRows.from_predictions(predictions)
            score = self.rule.score(predictions)
            metrics = {f"valid_{name}": evaluated.compute_metric(name) for name in self.VALIDATION_METRICS}
            metrics[self.rule.name] = score
            row |= {name: value for name, value in metrics.items() if value is not None}
            if self.in_last_stage:  # models of earlier stages are not the method's result
                state = self.algorithm.state_dict()
                update_best_weights(progress.best, self.rule, score, predictions, progress.epoch, state)
        self.record.append(row | dict(self.after_epoch(self) if self.after_epoch else {}))

    def predict_validation_rows(self, rules: Collection[SelectionRule]) -> Predictions | None:
        """Return the predictions of the validation rows, with the labels and estimates that these rules read.

        Without validation rows it returns None.
        """
        if not len(self.table.split["valid"]):
            return None
        needs_estimate = any(rule.needs_estimate for rule in rules)
        reads_attributes = any("attribute" in rule.labels_read for rule in rules)
        # Batch norm statistics are each process's own, the selected epoch is common.
        return broadcast_object(self.predict_split("valid", needs_estimate, reads_attributes))

    def predict_split(self, split: str, with_estimate: bool = True, with_groups: bool = True) -> Predictions:
        """Return the predictions of a split.

        Args:
            split: ``train``, ``valid`` or ``test``.
            with_estimate: Whether to estimate the attributes.
            with_groups: Whether to read the attributes and the data's own groups.
        """
        estimate = self.predict_attributes(split) if with_estimate else None
        return build_predictions(self.table, split, self.predict(split), estimate, with_groups)

    def predict_attributes(self, split: str) -> PredictedAttributes | None:
        """Return the estimated attributes of the rows of a split; None if the estimator has none of them.

        Those of static estimators are computed once.
        """
        if split in self._predicted_attributes:
            return self._predicted_attributes[split]
        label = self.table.label[self.table.split[split]]
        predicted = predict_row_attributes(self.algorithm, label, self.table.view_inputs(split))
        estimator = self.algorithm.attributes
        # None is remembered too: to find it, all forms of the rows are read.
        if estimator is not None and estimator.is_static and not self.algorithm.in_pretraining:
            self._predicted_attributes[split] = predicted
        return predicted

    def predict(self, split: str, predict: Callable[[Batch], Tensor] | None = None) -> Tensor:
        """Return the logits of all rows of a split.

        Args:
            split: ``train``, ``valid`` or ``test``.
            predict: Computes the outputs of a batch, (B, C); by default the method's logits.

        Returns:
            (n, C) float32 on the CPU.
        """
        function = predict or (lambda batch: self.algorithm.predict(batch.inputs))
        loader = self._valid_loader if split == "valid" else BatchLoader(self.table, split, device=self.device)
        with evaluation_mode(self.algorithm):  # in single precision, as the finished run predicts
            return collect_outputs(function, loader.epoch()).float()

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16-mixed")

    def estimate_training_attributes(self) -> Tensor | None:
        """Return the present estimate of the attribute (N,) of all training rows; None without an estimator."""
        estimator = self.algorithm.attributes
        if estimator is None:
            return None
        if estimator.is_static:
            return estimator.row_attribute.cpu()
        return self.predict("train", lambda batch: estimator(batch, 0.0, self.algorithm.randomness).attribute).long()

    def _checkpoint_or_stop(self, optimizer: Optimizer, force: bool = False) -> None:
        """Write the checkpoint if it is due or the user asked to stop; in the latter case raise TrainingInterrupted."""
        is_stopping = bool(self._stop_signals)
        is_due = force or is_stopping or time.monotonic() - self._saved_at >= self.checkpoint_seconds
        is_due, is_stopping = broadcast_object((is_due, is_stopping))
        if not is_due:
            return
        total_steps = self.progress.total_steps
        self.record.read_pending_metrics(total_steps)  # raises TrainingError for a loss that is not finite
        if not all(weight.isfinite().all() for weight in self.algorithm.parameters()):  # by a bad gradient
            remedy = describe_divergence_remedy()
            raise TrainingError(f"the weights are not finite after step {total_steps}: {remedy}")
        self.progress.seconds = time.monotonic() - self._started_at
        if self.checkpoint_path is not None and get_rank() == 0:
            write_checkpoint(
                self.checkpoint_path,
                data=self.fingerprint,
                progress=self.progress.get_state(),
                record=self.record.get_state(),
                algorithm=self.algorithm.state_dict(),
                optimizer=optimizer.state_dict(),
            )
        self._saved_at = time.monotonic()
        wait_for_processes()
        if is_stopping:
            raise TrainingInterrupted


@torch.no_grad()
def predict_row_attributes(algorithm: Algorithm, label: Tensor, view_inputs: ViewInputs) -> PredictedAttributes | None:
    """Return the attributes that a method's estimator predicts for rows; no attribute label is read.

    Args:
        algorithm: The trained method.
        label: (n,) long, the labels of the rows.
        view_inputs: The rows.

    Returns:
        None without an estimator, if it has abstained, and if it knows its training rows only.
    """
    estimator = algorithm.attributes
    if estimator is None or estimator.has_abstained or algorithm.in_pretraining:
        return None
    with evaluation_mode(estimator):
        attribute = estimator.predict_attributes(label, view_inputs)
    if attribute is None:
        return None
    names = get_attribute_names(algorithm)
    return PredictedAttributes(attribute.cpu().numpy(), names, estimator.correlation.to_table(), estimator.describe())


def get_attribute_names(algorithm: Algorithm) -> list[str]:
    """Return the names of a method's attribute values: the data's, or "that of LABEL" where these are not known."""
    estimator = algorithm.attributes
    info = algorithm.info
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
    received: list[int] = []

    def handle(signum: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(signum)

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    previous = {kind: signal.signal(kind, handle) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for kind, handler in previous.items():
            signal.signal(kind, handler)


def make_optimizer(groups: list[dict[str, Any]], config: TrainingConfig, learning_rate: float) -> Optimizer:
    """Return the optimizer of one stage.

    Args:
        groups: Those of ``Algorithm.parameter_groups()``.
        config: Options of the loop.
        learning_rate: That of the stage, at the start.
    """
    weight_decay = config.weight_decay or 0.0
    if weight_decay and not config.decay_norm_and_bias:
        # Biases and the weights of normalization layers have one dimension.
        groups = split_groups(groups, lambda parameter: parameter.dim() <= 1, weight_decay=0.0)
    prepared = []
    for group in groups:
        start = learning_rate * group.get("learning_rate_scale", 1.0)
        prepared.append({"schedule": config.schedule, **group, "lr": start, "start": start})
    return Optimizer(prepared, learning_rate, config.optimizer, weight_decay, config.sgd_momentum)


def split_groups(
    groups: list[dict[str, Any]], is_selected: Callable[[Tensor], bool], **options: Any
) -> list[dict[str, Any]]:
    """Split each group of parameters in two, and give further options to the selected parameters.

    Args:
        groups: Optimizer groups.
        is_selected: Whether a parameter is selected.
        options: Entries of the groups of selected parameters.

    Returns:
        The groups that have parameters.
    """
    parts = []
    for group in groups:
        others = [parameter for parameter in group["params"] if not is_selected(parameter)]
        selected = [parameter for parameter in group["params"] if is_selected(parameter)]
        parts += [{**group, "params": others}, {**group, **options, "params": selected}]
    return [part for part in parts if part["params"]]


def clip_gradients(groups: Iterable[dict[str, Any]], max_norm: float) -> None:
    """Scale down the gradients of each network to a norm of at most ``max_norm``.

    Args:
        groups: Optimizer groups; those of one name belong to one network.
        max_norm: Above 0.
    """
    networks: dict[Any, list[Tensor]] = {}
    for number, group in enumerate(groups):
        networks.setdefault(group.get("name", number), []).extend(group["params"])
    for parameters in networks.values():
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)


def compute_schedule_factor(schedule: str, step: int, total_steps: float, config: TrainingConfig) -> float:
    """Return the factor of the learning rate in a step.

    Args:
        schedule: One of those of ``TrainingConfig``.
        step: From 0.
        total_steps: Steps of the schedule.
        config: Has the options of the ``step`` schedule.
    """
    progress = min(step / total_steps, 1.0)
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if schedule == "linear":
        return 1.0 - progress
    if schedule == "step":
        num_falls = max(step - config.step_from, 0) // config.step_every
        return float(config.step_factor**num_falls)
    return 1.0
