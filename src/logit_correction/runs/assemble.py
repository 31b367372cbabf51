"""From a ``RunConfig`` to the data, the method and the devices; every option is checked on the way."""

from __future__ import annotations

import os
from argparse import ArgumentError
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from logit_correction.config import Choice, RunConfig, TrainingConfig
from logit_correction.data import SOURCES
from logit_correction.data.table import DataSource, DataTable
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.networks import NETWORKS
from logit_correction.registry import resolve
from logit_correction.types import DataInfo, InputError, NetworkFactory

if TYPE_CHECKING:
    from lightning_fabric import Fabric

#: Constructor arguments that the run itself gives and the user does not.
GIVEN = {
    "data": set[str](),
    "method": {"network", "info", "biased_network", "seed"},
    "network": {"info"},
    "biased_network": {"info"},
}

KINDS: dict[str, tuple[str, Mapping[str, tuple[str, str]]]] = {
    "data": ("data source", SOURCES),
    "method": ("method", METHODS),
    "network": ("network", NETWORKS),
    "biased_network": ("network", NETWORKS),
}


def find_class(part: str, name: str) -> type:
    """Return the class of ``part`` (data, method, network, biased_network) that ``name`` stands for.

    Raises:
        InputError: If there is none.
    """
    kind, known = KINDS[part]
    return resolve(kind, name, known)


def complete(config: RunConfig) -> RunConfig:
    """Check every option and fill in the defaults, so that the result says all that the run depends on.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    parts: dict[str, Any] = {}
    for part in KINDS:
        choice = getattr(config, part)
        if choice is not None:
            options = checked_options(find_class(part, choice.name), choice.options, part, skip=GIVEN[part])
            parts[part] = Choice(choice.name, options)
    training = checked_options(TrainingConfig, vars(config.training), "training option")
    return replace(config, **parts, training=check_training(TrainingConfig(**training)))


def checked_options(cls: type, options: Mapping[str, Any], part: str, skip: set[str] | None = None) -> dict[str, Any]:
    """Check ``options`` against the constructor of ``cls`` and add its defaults.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(cls, None, skip=skip or set(), fail_untyped=False)
    known = {action.dest for action in parser._actions}
    for name in options:
        if name not in known:
            raise InputError(f"{part} {cls.__name__} has no option {name!r}: it has {', '.join(sorted(known - {'help'}))}")
    try:
        parsed = parser.parse_object(dict(options))
    except (ArgumentError, ValueError, TypeError) as error:
        raise InputError(f"{part} {cls.__name__}: {' '.join(str(error).split())}") from error
    return dict(parsed.as_dict())


def check_training(config: TrainingConfig) -> TrainingConfig:
    """Return ``config`` if its numbers make sense.

    Raises:
        InputError: Names the option.
    """
    for name in ("epochs", "batch_size", "devices", "nodes", "log_every", "step_every"):
        if getattr(config, name) < 1:
            raise InputError(f"--{name} is {getattr(config, name)}, but must be at least 1")
    for name in ("weight_decay", "gradient_clip", "seed", "threads"):
        if getattr(config, name) < 0:
            raise InputError(f"--{name} is {getattr(config, name)}, but must not be negative")
    if not 0 < config.learning_rate < float("inf"):
        raise InputError(f"--learning_rate is {config.learning_rate}, but must be positive")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no CUDA device here; take --device cpu or auto")
    if config.device == "cuda" and config.devices > torch.cuda.device_count():
        raise InputError(f"--devices {config.devices}: torch sees {torch.cuda.device_count()} CUDA devices here")
    return config


def build_source(config: RunConfig) -> DataSource:
    """Build the data source of a complete config."""
    source: DataSource = find_class("data", config.data.name)(**config.data.options)
    return source


def build_table(source: DataSource, rules: list[str]) -> DataTable:
    """Read the data and check that it can be trained on with these selection rules.

    Raises:
        InputError: Says what is wrong with the data.
    """
    table = source.build().check()
    group_rules = [rule for rule in rules if "group" in rule]
    if group_rules and not table.has_attributes("valid"):
        raise InputError(
            f"selection rule {group_rules[0]} reads validation attributes, but some are unknown: take last, "
            "valid_average or valid_worst_class"
        )
    return table


def network_factory(choice: Choice, info: DataInfo, part: str = "network") -> NetworkFactory:
    """Return a function that builds the chosen network."""
    return partial(find_class(part, choice.name), info, **choice.options)


def build_algorithm(config: RunConfig, info: DataInfo) -> Algorithm:
    """Build the method with its networks.

    Raises:
        InputError: If the method takes no biased network and one is given, or an option does not fit the data.
    """
    cls = find_class("method", config.method.name)
    extra: dict[str, Any] = {}
    if config.biased_network is not None:
        import inspect

        if "biased_network" not in inspect.signature(cls).parameters:
            raise InputError(f"method {config.method.name} has no biased network: leave --biased_network out")
        extra["biased_network"] = network_factory(config.biased_network, info, "biased_network")
    algorithm: Algorithm = cls(
        network_factory(config.network, info), info, seed=config.training.seed, **config.method.options, **extra
    )
    return algorithm


def build_fabric(config: TrainingConfig, loggers: Any = ()) -> Fabric:
    """Return Fabric for the devices and the precision, with its processes started."""
    import warnings

    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy

    if config.threads:
        torch.set_num_threads(config.threads)
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    several = config.devices * config.nodes > 1
    # Every process keeps its own buffers: the methods reduce what must be common, and broadcasting rank 0's
    # would lose what another rank wrote. A frozen biased network leaves parameters without gradients.
    strategy: Any = DDPStrategy(broadcast_buffers=False, find_unused_parameters=True) if several else "auto"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fabric = Fabric(
            accelerator=config.device,
            devices=config.devices,
            num_nodes=config.nodes,
            precision=config.precision,
            strategy=strategy,
            loggers=list(loggers),
        )
        fabric.launch()
    return fabric
