"""What is kept of a training: figures over time, and checkpoints, which are loaded without pickle."""

from __future__ import annotations

import csv
import math
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from logit_correction.atomic_files import replace_atomically
from logit_correction.errors import InputError, InputWarning, TrainingError
from logit_correction.formatting import format_option, format_reason
from logit_correction.paths import reject_special_file
from logit_correction.training.rules import SelectedWeights
from logit_correction.types import Stage

MetricsRow = dict[str, float | int]

#: Of checkpoints.
FORMAT = 1

OTHER_VERSION = "was written by another version of logit-correction: train again into a new folder"


class MetricsRecorder:
    """Collects the figures of steps on the device and reads them together: each reading waits for a GPU."""

    @staticmethod
    def describe_remedy() -> str:
        """Return what to do where figures are not finite."""
        return f"lower {format_option('learning_rate')}, or set {format_option('gradient_clip', 1)}"

    def __init__(self, loggers: list[Any] | None = None) -> None:
        """Start empty; ``loggers`` of Lightning take each row of figures with its step."""
        self.rows: list[MetricsRow] = []
        self.loggers = loggers or []
        self._pending: list[dict[str, Tensor]] = []

    def add(self, loss: Tensor, logs: dict[str, Tensor]) -> None:
        """Keep one step's total loss and logs, without reading them; a step may log other figures than the last."""
        figures = {"loss": loss, **logs}
        figures["loss"] = loss.detach()
        self._pending.append(figures)

    def pending(self, step: int) -> list[dict[str, float]]:
        """Read the figures of the steps since the last row, of which ``step`` is the latest."""
        if not self._pending:
            return []
        device = self._pending[-1]["loss"].device  # steps taken from a checkpoint lie on the CPU
        values = [value.to(device, torch.float32) for figures in self._pending for value in figures.values()]
        numbers = iter(torch.stack(values).tolist())
        steps = [dict(zip(figures, islice(numbers, len(figures)), strict=True)) for figures in self._pending]
        for number, figures in enumerate(steps, start=step - len(steps) + 1):
            if not math.isfinite(figures["loss"]):
                raise TrainingError(f"the loss became {figures['loss']} at step {number}: {self.describe_remedy()}")
        return steps

    def flush(self, step: int, **where: float | int) -> bool:
        """Turn the steps since the last row into one of means, each over the steps that have the figure.

        ``where`` are further columns, such as the epoch. Return whether there were any steps.
        """
        steps = self.pending(step)
        if not steps:
            return False
        self._pending = []
        row: MetricsRow = {"step": step, **where}
        for name in dict.fromkeys(name for figures in steps for name in figures):
            known = [figures[name] for figures in steps if name in figures]
            row[name] = math.fsum(known) / len(known)
        self.append(row)
        return True

    def append(self, row: MetricsRow) -> None:
        """Keep a row of figures and tell the loggers."""
        self.rows.append(row)
        figures = {name: value for name, value in row.items() if name != "step"}
        notify_loggers(self.loggers, lambda logger: logger.log_metrics(figures, step=int(row["step"])))

    def latest(self) -> MetricsRow:
        """Return the latest figure of every kind."""
        return {name: value for row in self.rows[-8:] for name, value in row.items()}

    def epochs_per_stage(self) -> list[int]:
        """Return the length of each stage so far, in whole epochs."""
        epochs: dict[int, int] = {}
        for row in self.rows:
            epochs[int(row["stage"])] = int(row["epoch"])
        return list(epochs.values())

    def state(self) -> dict[str, Any]:
        """Return all of it for a checkpoint."""
        pending = [{name: value.cpu() for name, value in figures.items()} for figures in self._pending]
        return {"rows": self.rows, "pending": pending}

    def load(self, state: dict[str, Any]) -> None:
        """Take up what ``state`` returned."""
        self.rows, self._pending = list(state["rows"]), list(state["pending"])

    def write(self, path: Path) -> None:
        """Write the rows as CSV; a figure that a row lacks is left empty."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        with replace_atomically(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(self.rows)


def notify_loggers(loggers: list[Any], act: Callable[[Any], object]) -> None:
    """Let each logger do something; one that fails is left out with a warning, and the training goes on."""
    for logger in list(loggers):
        try:
            with suppress(NotImplementedError):  # some have no place for options
                act(logger)
        except Exception as error:  # a training does not end because a server is away
            loggers.remove(logger)
            name = type(logger).__name__
            warnings.warn(
                f"{name} failed and gets no further figures ({format_reason(error)})", InputWarning, stacklevel=2
            )


@contextmanager
def open_loggers(
    names: Sequence[str], given: Sequence[Any], folder: Path, options: Mapping[str, Any]
) -> Iterator[list[Any]]:
    """Begin loggers with the options of a run, and close them when the block ends.

    Those of the names ``csv`` and ``tensorboard`` are Lightning's and write into ``folder``.
    """
    loggers, status, folder = list(given), "failed", folder.absolute()
    if names:
        from lightning_fabric.loggers import CSVLogger, TensorBoardLogger

        board = partial(TensorBoardLogger, name="", version="tensorboard", default_hp_metric=False)
        loggers = [CSVLogger(folder, "csv") if one == "csv" else board(folder) for one in names] + loggers
    notify_loggers(loggers, lambda logger: logger.log_hyperparams(dict(options)))
    try:
        yield loggers
        status = "success"
    finally:
        notify_loggers(loggers, lambda logger: logger.finalize(status))


@dataclass
class TrainingProgress:
    """Where a run stands."""

    stage: int = 0
    epoch: int = 0  # epochs done in the stage
    step: int = 0  # steps done in the present epoch
    total_steps: int = 0
    plan: Stage | None = None  # what the method asked for in this stage; None before it begins
    best: dict[str, SelectedWeights] = field(default_factory=dict)  # what each selection rule holds
    seconds: float = 0.0  # the work between stages and validation included
    warnings: list[str] = field(default_factory=list)

    def to_plain(self) -> dict[str, Any]:
        """Return tensors and plain values."""
        best = {rule: dict(vars(selected)) for rule, selected in self.best.items()}
        return {**vars(self), "plan": None if self.plan is None else dict(vars(self.plan)), "best": best}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> TrainingProgress:
        """Return the progress that ``to_plain`` turned into plain values."""
        plan = None if values["plan"] is None else Stage(**values["plan"])
        best = {rule: SelectedWeights(**selected) for rule, selected in values["best"].items()}
        return cls(**{**values, "plan": plan, "best": best})


def write_checkpoint(path: Path, **content: Any) -> None:
    """Write a checkpoint of tensors and plain values; an older file stays until the new one is complete."""
    with (
        replace_atomically(path) as temporary,
        temporary.open("wb") as file,
    ):  # of a path torch does not tell why it failed
        try:
            torch.save({"format": FORMAT, **content}, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # else torch says only that the archive has no end
                raise error.__context__ from error
            raise


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read what ``write_checkpoint`` wrote onto the CPU; never runs code from the file."""
    try:
        with zipfile.ZipFile(reject_special_file(path)) as archive:
            # Torch never compresses; compressed entries may unpack to more than the memory holds.
            packed = [entry.filename for entry in archive.infolist() if entry.file_size != entry.compress_size]
            # Every tensor has a checksum in the file, which torch writes and never reads.
            if bad := packed[0] if packed else archive.testzip():
                raise zipfile.BadZipFile(f"{bad} is packed" if packed else f"the checksum of {bad} is wrong")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: the run was not trained to the end, or the folder is another") from error
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = error if isinstance(error, zipfile.BadZipFile) else type(error).__name__
        raise InputError(
            f"{path} is damaged ({reason}): put a copy of it back, or train again into a new folder"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path} {OTHER_VERSION}")
    return content
