"""A user's own module: a data source, methods, networks, an estimator and a view that runs name by dotted paths."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from logit_correction.data.source import DataSource
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.types import UNKNOWN_ATTRIBUTE, Batch, Correlation, DataInfo, Step, ViewInputs
from logit_correction.views.base import View


class Points(DataSource):
    """Three labels, three attribute values, twelve numbers a row."""

    def __init__(self, known: bool = True, seed: int = 0) -> None:
        self.known = known
        self.seed = seed

    def build(self) -> DataTable:
        rows = torch.arange(150)
        generator = torch.Generator().manual_seed(self.seed)
        label = rows % 3
        attribute = torch.where(rows % 10 == 0, (label + 1) % 3, label)
        values = 0.3 * torch.randn(150, 12, generator=generator)
        values[rows, label] += 1
        values[rows, 3 + attribute] += 2
        return DataTable(
            inputs=ArrayStore(values),
            label=label,
            attribute=attribute if self.known else torch.full_like(attribute, UNKNOWN_ATTRIBUTE),
            split={"train": rows[:90], "valid": rows[90:110], "test": rows[110:]},
            label_names=["circle", "square", "star"],
            attribute_names=["red", "green", "blue"],
            correlation=Correlation.one_to_one(3),
        )


class Narrow(nn.Module):
    """One hidden layer."""

    def __init__(self, info: DataInfo, width: int = 8) -> None:
        super().__init__()
        size = int(torch.Size(info.input_shape).numel())
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(size, width), nn.ReLU(), nn.Linear(width, info.num_labels))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.layers(inputs)
        return logits


class Branching(nn.Module):
    """A network whose way depends on the values, so that it cannot be traced."""

    def __init__(self, info: DataInfo) -> None:
        super().__init__()
        self.layer = nn.Linear(info.input_shape[0], info.num_labels)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits, of large values the negative ones."""
        logits: Tensor = self.layer(inputs)
        return -logits if bool((inputs > 100).any()) else logits


class NotFinite(nn.Module):
    """Features that are NaN."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (B, 2)."""
        return inputs.flatten(1)[:, :2] * float("nan")


def build_broken_features(info: DataInfo) -> nn.Module:
    """Make a network whose features cannot be used."""
    network = nn.Sequential(nn.Linear(2, info.num_labels))
    network.features = NotFinite()
    return network


class Stopped(LC):
    """LC that sends its own process a signal in one step: STOP=SIGINT:17 stops in the 17th of a process.

    STOP_RANK names the process, where there are several. The signal is in the environment, so that a stopped run and
    an undisturbed one have the same options.
    """

    calls = 0

    def forward(self, batch: Batch, epoch: float) -> Step:
        self.calls += 1
        name, _, call = os.environ.get("STOP", "").partition(":")
        is_this_rank = os.environ.get("LOCAL_RANK", "0") == os.environ.get("STOP_RANK", "0")
        if name and is_this_rank and self.calls == int(call):
            os.kill(os.getpid(), signal.Signals[name])
        return super().forward(batch, epoch)


class Breaking(ERM):
    """ERM whose loss is not a number in one step."""

    def __init__(self, network, info, *, at_step: int = 1, seed: int = 0) -> None:  # type: ignore[no-untyped-def]
        super().__init__(network, info, seed=seed)
        self.at_step = at_step
        self.calls = 0

    def forward(self, batch: Batch, epoch: float) -> Step:
        self.calls += 1
        step = super().forward(batch, epoch)
        return Step(step.loss * float("nan") if self.calls == self.at_step else step.loss, step.logs)


class Tail(View):
    """What is left of a row without its first three numbers."""

    breadth = 0

    def __init__(self) -> None:
        self.name = "my_parts.Tail"

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        """Return the one view, where a row is numbers."""
        return [] if inputs.texts is not None else [cls()]

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return (N, F - 3)."""
        values = inputs.inputs(torch.arange(inputs.num_rows))
        assert isinstance(values, Tensor)
        return values.flatten(1)[:, 3:].float()


def write_label_names(exported: Any, folder: Path) -> None:
    """Write an export of one's own."""
    (folder / "labels.txt").write_text("\n".join(exported.settings["label_names"]))
