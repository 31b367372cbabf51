"""From a complete config to what a run is made of: the data, the networks, the method, the devices."""

from __future__ import annotations

import inspect
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from logit_correction.config import ComponentConfig, RunConfig, TrainingConfig
from logit_correction.data.reader import DataSource
from logit_correction.errors import InputError
from logit_correction.evaluation.report import Report
from logit_correction.methods.base import Algorithm
from logit_correction.runs.leave_out import without
from logit_correction.runs.options import complete
from logit_correction.types import DataInfo, NetworkFactory

if TYPE_CHECKING:
    from lightning_fabric import Fabric


#: Images of a shorter side are vectors to a network, and of one as long as the second they want a deep one.
SMALL_SIDE, LARGE_SIDE = 16, 64


def fitted(config: RunConfig, info: DataInfo) -> tuple[RunConfig, list[str]]:
    """Return a complete config with ``LEFT_TO_THE_DATA`` and the network filled in, and what to tell a user of it.

    ``info`` has the sizes of the data, behind an encoder those of its features.
    """
    told, found, training, rows = list[str](), dict[str, Any](), config.training, info.num_rows
    if not config.network.name:
        name, why = usual_network(info, config.encoder is not None)
        config = complete(replace(config, network=ComponentConfig(name)))
        told.append(f"network {name}, for {why}")
    if training.weight_decay is None:
        # Without it an MLP memorizes a few thousand rows of numbers, the minority's first: see
        # ``lab/results/weight-decay``.
        numbers = len(info.input_shape) == 1 and not (info.tokens or info.words or config.encoder)
        found["weight_decay"] = 1e-3 if numbers else 0.0
        told += ["weight decay 0.001"] if numbers else []
    if (size := training.batch_size) is None:
        processes = training.devices * training.nodes
        sizes = ((500_000, 1024), (20_000, 256), (8_000, 128), (4_000, 64))
        size = next((size for least, size in sizes if rows >= least), 32)
        found["batch_size"] = size = math.ceil(size / processes) * processes
        told.append(f"batches of {size}")
    if training.epochs is None and training.finetune:
        found["epochs"] = 5
        told.append("5 epochs")
    elif training.epochs is None:  # small data take more epochs, for a network learns by steps
        steps = math.ceil(rows / size)
        found["epochs"] = epochs = min(100, max(15, math.ceil(1500 / steps)))
        told.append(f"{epochs} epochs, {epochs * steps:,} steps, for {rows:,} rows")
    if training.threads is None:
        # Some networks wait for each other's threads longer than they compute, on vectors and on small images.
        large = len(info.input_shape) == 3 and max(info.input_shape[1:]) >= LARGE_SIDE
        small = config.network.name in ("MLP", "Linear", "ConvNet", "FromRun") and not large
        found["threads"] = int(small)
        told += ["one processor thread"] if small else []
    return replace(config, training=replace(training, **found)), told


def usual_network(info: DataInfo, encoded: bool = False) -> tuple[str, str]:
    """Return the network for inputs of a kind and size, and these in words."""
    if encoded:
        return "Linear", "the features of an encoder"
    if info.tokens:
        return "TextClassifier", f"texts of {info.input_shape[0]} tokens"
    if info.words:  # more of them than rows, as a rule: anything deeper learns the rows by heart
        return "Linear", f"texts as {info.input_shape[0]:,} counted words"
    if len(info.input_shape) != 3:
        return "MLP", f"{math.prod(info.input_shape):,} numbers a row"
    height, width = info.input_shape[1:]
    images = f"images of {height} x {width} pixels"
    if min(height, width) < SMALL_SIDE:
        return "MLP", images
    return ("ConvNet" if min(height, width) < LARGE_SIDE else "ResNet18"), images


def network_factory(choice: ComponentConfig, info: DataInfo) -> NetworkFactory:
    """Return a function that builds the chosen network; it raises ``InputError`` if what was built is none."""

    def build() -> nn.Module:
        built = choice.make(info=info)
        if not isinstance(built, nn.Module):
            raise InputError(f"network {choice.name!r} made a {type(built).__name__}, but must make a torch.nn.Module")
        return built

    return build


def build_algorithm(config: RunConfig, info: DataInfo) -> Algorithm:
    """Build the method of a complete config; ``InputError`` if an option does not fit the data."""
    assert config.method.cls is not None
    given: dict[str, Any] = {"seed": config.training.seed}
    if config.biased_network is not None and "biased_network" in inspect.signature(config.method.cls).parameters:
        biased = network_factory(config.biased_network, info)
        given["biased_network"] = without(biased, config.training.leave_out, info)
    network = without(network_factory(config.network, info), config.training.leave_out, info)
    algorithm: Algorithm = config.method.make(network, info, **given)
    return algorithm


def prepare_as(results: Report, source: DataSource, run: Path) -> None:
    """Have a data source read rows by what a finished run found out of its own; ``InputError`` if that does not fit."""
    try:
        source.reader.prepare(results.data.preparation)
    except InputError as error:
        raise InputError(f"{run}: {error}") from error
    except (TypeError, KeyError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"{run}: data.preparation does not fit ({error!r}): train again") from error


def earlier_runs(config: RunConfig) -> dict[Path, Report]:
    """Return the finished runs whose networks a complete config takes, to examine or to train on."""
    networks = (config.network, config.biased_network, config.encoder)
    runs = [one.options["run"] for one in networks if one is not None and one.name == "FromRun"]
    estimator = config.method.options.get("attributes")
    if isinstance(estimator, dict) and estimator.get("name") == "Auto" and estimator.get("run"):
        runs.append(estimator["run"])
    return {Path(run): Report.read(run) for run in runs}


@contextmanager
def keeping_threads() -> Iterator[None]:
    """Give torch back the processor threads that the caller's process had before a training took its own."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def build_fabric(config: TrainingConfig) -> Fabric:
    """Return Fabric for the devices and the precision, with its processes started."""
    from lightning_fabric import Fabric

    if config.threads:
        torch.set_num_threads(config.threads)
    if config.deterministic and config.device != "cpu" and torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # It would fill what is about to be written, one kernel for each new tensor; nothing here reads it before.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fabric = Fabric(
            accelerator=config.device,
            devices=config.devices,
            num_nodes=config.nodes,
            precision=config.precision,
            strategy="ddp" if config.devices * config.nodes > 1 else "auto",
        )
        fabric.launch()
    if fabric.device.type == "cpu":
        # Importing Fabric makes torch look for GPUs by NVML, which optimizers ask for in each step: 120 us without one.
        os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    return fabric
