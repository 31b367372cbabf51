"""From a checked config to what a run is made of: the data, the networks, the method and the devices."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from logit_correction.config import ComponentConfig, RunConfig, TrainingConfig
from logit_correction.data.reader import DataSource
from logit_correction.data.table import SPLITS, DataTable
from logit_correction.errors import InputError
from logit_correction.methods.base import Algorithm
from logit_correction.runs.parts import checked
from logit_correction.training.rules import reads_attributes
from logit_correction.types import DataInfo, NetworkFactory

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def build_source(config: RunConfig) -> DataSource:
    """Build the data source of a config."""
    source: DataSource = checked("data", config.data).make()
    return source


def build_table(source: DataSource, rules: Sequence[str], splits: Sequence[str] = SPLITS) -> DataTable:
    """Read the data and check that it can be trained on with these selection rules.

    Args:
        source: The data source.
        rules: Names of the rules.
        splits: Those that must have rows.

    Raises:
        InputError: Says what is wrong with the data.
    """
    table = source.build().check(splits)
    group_rules = [rule for rule in rules if reads_attributes([rule])]
    if group_rules and not table.has_groups("valid"):
        raise InputError(
            f"selection rule {group_rules[0]} reads validation attributes, but some are unknown: take last, "
            "valid_average or valid_worst_class, or one that goes by estimated groups (`list rules`)"
        )
    return table


def network_factory(choice: ComponentConfig, info: DataInfo, part: str = "network") -> NetworkFactory:
    """Return a function that builds the chosen network; it raises ``InputError`` if what was built is none."""
    make = checked(part, choice).make

    def build() -> nn.Module:
        built = make(info=info)
        if not isinstance(built, nn.Module):
            raise InputError(f"network {choice.name!r} made a {type(built).__name__}, but must make a torch.nn.Module")
        return built

    return build


def build_algorithm(config: RunConfig, info: DataInfo) -> Algorithm:
    """Build the method with its networks.

    Raises:
        InputError: If a biased network is given to a method without one, or an option does not fit the data.
    """
    method = checked("method", config.method)
    given: dict[str, Any] = {"seed": config.training.seed}
    if config.biased_network is not None:
        if "biased_network" not in inspect.signature(method.cls).parameters:
            raise InputError(f"method {method.name} has no biased network: leave --biased_network out")
        given["biased_network"] = network_factory(config.biased_network, info, "biased_network")
    algorithm: Algorithm = method.make(network_factory(config.network, info), info, **given)
    estimator = algorithm.attributes
    if config.biased_network is not None and estimator is not None and not estimator.trains_network:
        raise InputError(f"{type(estimator).__name__} as chosen trains no biased network: leave --biased_network out")
    return algorithm


def check_attributes(config: RunConfig, algorithm: Algorithm, table: DataTable) -> None:
    """Return if the training rows have the attributes that the method needs.

    Raises:
        InputError: Otherwise.
    """
    if algorithm.needs_attributes and not table.has_attributes("train"):
        raise InputError(
            f"method {config.method.name} as chosen needs the attribute of every training row, but some are unknown: "
            "give them, or take a method or --method.attributes that does not need them"
        )


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
    from lightning_fabric.strategies import DDPStrategy

    if config.threads:
        torch.set_num_threads(config.threads)
    if config.deterministic and config.device != "cpu" and torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # It would fill what is about to be written, one kernel for each new tensor; nothing here reads it before.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    strategy: Any = "auto"
    if config.devices * config.nodes > 1:
        # Every process keeps its own buffers: the methods reduce what must be common, and broadcasting rank 0's
        # would lose what another rank wrote. A frozen biased network leaves parameters without gradients.
        strategy = DDPStrategy(broadcast_buffers=False, find_unused_parameters=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fabric = Fabric(
            accelerator=config.device,
            devices=config.devices,
            num_nodes=config.nodes,
            precision=config.precision,
            strategy=strategy,
        )
        fabric.launch()
    if fabric.device.type == "cpu":
        # Importing Fabric makes torch look for GPUs by NVML, which optimizers ask for in each step: 120 us without one.
        os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    return fabric
