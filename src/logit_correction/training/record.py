"""The record of a training: metrics over time (``metrics.csv``), loggers, progress, and checkpoints.

A checkpoint holds tensors and plain values only, so that loading one never runs code from the file.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from logit_correction.atomic_files import replace_atomically
from logit_correction.errors import InputError, TrainingError, warn_user
from logit_correction.formatting import format_option, format_reason
from logit_correction.paths import reject_special_file
from logit_correction.training.rules import SelectedWeights
from logit_correction.types import Stage

#: The metrics of one step or epoch, by name.
MetricsRow = dict[str, float | int]

CHECKPOINT_FORMAT = 1

OTHER_VERSION = "was written by another version of logit-correction: train again into a new folder"

#: Rows of metrics in which each kind occurs at least once, for the display.
NUM_LATEST_ROWS = 8


def describe_divergence_remedy() -> str:
    """Return what to do if losses or weights are not finite."""
    return f"lower {format_option('learning_rate')}, or set {format_option('gradient_clip', 1)}"


class MetricsRecorder:
    """Collects the metrics of steps on the device and reads many steps at once, since each reading waits for a GPU.

    Attributes:
        rows: The rows of ``metrics.csv``.
        loggers: Lightning loggers, which get each row.
    """

    def __init__(self, loggers: list[Any] | None = None) -> None:
        self.rows: list[MetricsRow] = []
        self.loggers = loggers or []
        self._pending: list[dict[str, Tensor]] = []

    def add(self, loss: Tensor, logs: dict[str, Tensor]) -> None:
        """Keep the metrics of one step, without reading them.

        Args:
            loss: 0-d, the total loss.
            logs: Further 0-d tensors; they need not be those of the step before.
        """
        metrics = {"loss": loss, **logs}
        metrics["loss"] = loss.detach()
        self._pending.append(metrics)

    def read_pending_metrics(self, step: int) -> list[dict[str, float]]:
        """Return the metrics of the steps since the last row.

        Args:
            step: The number of the latest step, for the message.

        Raises:
            TrainingError: A loss is not finite.
        """
        if not self._pending:
            return []
        device = self._pending[-1]["loss"].device  # steps that a checkpoint held are on the CPU
        values = [value.to(device, torch.float32) for metrics in self._pending for value in metrics.values()]
        numbers = iter(torch.stack(values).tolist())
        steps = [dict(zip(metrics, islice(numbers, len(metrics)), strict=True)) for metrics in self._pending]
        for number, metrics in enumerate(steps, start=step - len(steps) + 1):
            if not math.isfinite(metrics["loss"]):
                remedy = describe_divergence_remedy()
                raise TrainingError(f"the loss became {metrics['loss']} at step {number}: {remedy}")
        return steps

    def flush(self, step: int, **position: float | int) -> bool:
        """Add a row with the means of the steps since the last row, each over the steps that have the metric.

        Args:
            step: The number of the latest step.
            position: Further columns, such as the epoch.

        Returns:
            Whether there were any steps.
        """
        steps = self.read_pending_metrics(step)
        if not steps:
            return False
        self._pending = []
        row: MetricsRow = {"step": step, **position}
        for name in dict.fromkeys(name for metrics in steps for name in metrics):
            values = [metrics[name] for metrics in steps if name in metrics]
            row[name] = math.fsum(values) / len(values)
        self.append(row)
        return True

    def append(self, row: MetricsRow) -> None:
        """Add a row of metrics, and pass it to the loggers."""
        self.rows.append(row)
        metrics = {name: value for name, value in row.items() if name != "step"}
        notify_loggers(self.loggers, lambda logger: logger.log_metrics(metrics, step=int(row["step"])))

    def latest(self) -> MetricsRow:
        """Return the latest value of every metric."""
        return {name: value for row in self.rows[-NUM_LATEST_ROWS:] for name, value in row.items()}

    def epochs_per_stage(self) -> list[int]:
        """Return the length of each stage so far, in whole epochs."""
        return list({int(row["stage"]): int(row["epoch"]) for row in self.rows}.values())

    def get_state(self) -> dict[str, Any]:
        """Return everything that a checkpoint holds of the record."""
        pending = [{name: value.cpu() for name, value in metrics.items()} for metrics in self._pending]
        return {"rows": self.rows, "pending": pending}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what ``state`` returned."""
        self.rows = list(state["rows"])
        self._pending = list(state["pending"])

    def write(self, path: Path) -> None:
        """Write the rows as CSV; a metric that a row lacks is left empty."""
        import pandas as pd

        with replace_atomically(path) as temporary:
            pd.DataFrame(self.rows).to_csv(temporary, index=False)


def notify_loggers(loggers: list[Any], call: Callable[[Any], object]) -> None:
    """Call each logger. One that fails is removed with a warning, and the training goes on.

    Args:
        loggers: Lightning loggers.
        call: Called with each of them.
    """
    for logger in list(loggers):
        try:
            with suppress(NotImplementedError):  # some loggers cannot log options
                call(logger)
        except Exception as error:  # a training does not end because a server is away
            loggers.remove(logger)
            message = f"{type(logger).__name__} failed and gets no further figures ({format_reason(error)})"
            warn_user(message)


@contextmanager
def open_loggers(
    names: Sequence[str], given_loggers: Sequence[Any], folder: Path, options: Mapping[str, Any]
) -> Iterator[list[Any]]:
    """Start loggers with the options of a run, yield them, and close them when the block ends.

    Args:
        names: ``csv`` and ``tensorboard``, Lightning's loggers, which write into ``folder``.
        given_loggers: The user's own loggers.
        folder: The run's folder.
        options: The run's options.
    """
    loggers = list(given_loggers)
    folder = folder.absolute()
    status = "failed"
    if names:
        from lightning_fabric.loggers import CSVLogger, TensorBoardLogger

        named_loggers = [
            CSVLogger(folder, "csv")
            if name == "csv"
            else TensorBoardLogger(folder, name="", version="tensorboard", default_hp_metric=False)
            for name in names
        ]
        loggers = named_loggers + loggers
    notify_loggers(loggers, lambda logger: logger.log_hyperparams(dict(options)))
    try:
        yield loggers
        status = "success"
    finally:
        notify_loggers(loggers, lambda logger: logger.finalize(status))


@dataclass
class TrainingProgress:
    """The position of a training, and what it has selected.

    Attributes:
        stage: The present stage, from 0.
        epoch: Epochs done in the stage.
        step: Steps done in the present epoch.
        total_steps: Steps done in all stages.
        plan: What the method asked for in this stage.
        best: The selected weights, by the name of the selection rule.
        seconds: Time of the training, the work between stages and validation included.
        warnings: The method's warnings after the latest epoch.
    """

    stage: int = 0
    epoch: int = 0
    step: int = 0
    total_steps: int = 0
    plan: Stage = field(default_factory=Stage)
    best: dict[str, SelectedWeights] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    def get_state(self) -> dict[str, Any]:
        """Return tensors and plain values, for a checkpoint."""
        best = {rule: vars(selected) for rule, selected in self.best.items()}
        return {**vars(self), "plan": vars(self.plan), "best": best}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TrainingProgress:
        """Return the progress whose state ``get_state`` gave."""
        plan = Stage(**state["plan"])
        best = {rule: SelectedWeights(**selected) for rule, selected in state["best"].items()}
        return cls(**{**state, "plan": plan, "best": best})


def write_checkpoint(path: Path, **content: Any) -> None:
    """Write a checkpoint; an older file stays until the new one is complete.

    Args:
        path: The file.
        content: Tensors and plain values.
    """
    # Torch gets an open file: if it is given a path, its errors do not name the cause.
    with replace_atomically(path) as temporary, temporary.open("wb") as file:
        try:
            torch.save({"format": CHECKPOINT_FORMAT, **content}, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # the cause, which torch replaces by a fault of the archive
                raise error.__context__ from error
            raise


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what ``write_checkpoint`` wrote, on the CPU; never runs code from the file.

    Raises:
        InputError: The file is missing, damaged, or of another version.
    """
    try:
        with zipfile.ZipFile(reject_special_file(path)) as archive:
            # Torch never compresses; compressed entries may unpack to more than the memory holds.
            for entry in archive.infolist():
                if entry.file_size != entry.compress_size:
                    raise zipfile.BadZipFile(f"{entry.filename} is packed")
            # Every tensor has a checksum in the file, which torch writes and never reads.
            damaged = archive.testzip()
            if damaged:
                raise zipfile.BadZipFile(f"the checksum of {damaged} is wrong")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: the run was not trained to the end, or the folder is another") from error
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = error if isinstance(error, zipfile.BadZipFile) else type(error).__name__
        message = f"{path} is damaged ({reason}): put a copy of it back, or train again into a new folder"
        raise InputError(message) from error
    if not isinstance(content, dict) or content.get("format") != CHECKPOINT_FORMAT:
        raise InputError(f"{path} {OTHER_VERSION}")
    return content
