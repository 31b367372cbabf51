"""From a ``RunConfig`` to the data, the method and the devices; every option is checked on the way."""

from __future__ import annotations

import os
from argparse import ArgumentError
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import torch
from torch import nn

from logit_correction.config import Choice, RunConfig, TrainingConfig
from logit_correction.data import SOURCES
from logit_correction.data.table import DataSource, DataTable
from logit_correction.errors import did_you_mean, option_message
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

#: Part -> what it is called, what there is, and what its classes derive from.
KINDS: dict[str, tuple[str, Mapping[str, tuple[str, str]], type]] = {
    "data": ("data source", SOURCES, DataSource),
    "method": ("method", METHODS, Algorithm),
    "network": ("network", NETWORKS, nn.Module),
    "biased_network": ("network", NETWORKS, nn.Module),
}


def find_class(part: str, name: str) -> type:
    """Return the class of ``part`` (data, method, network, biased_network) that ``name`` stands for.

    Raises:
        InputError: If there is none, or it is something else.
    """
    kind, known, base = KINDS[part]
    found = resolve(kind, name, known)
    if not issubclass(found, base):
        raise InputError(f"{name!r} is not a {kind}: its class must derive from {base.__module__}.{base.__name__}")
    return found


def complete(config: RunConfig) -> RunConfig:
    """Check every option and fill in the defaults, so that the result says all that the run depends on.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    training = checked_options(TrainingConfig, vars(config.training))
    return replace(complete_parts(config), training=check_training(TrainingConfig(**training)))


def complete_parts(config: RunConfig) -> RunConfig:
    """Check the options of data, method and networks and fill in their defaults.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    parts: dict[str, Any] = {}
    for part in KINDS:
        choice = getattr(config, part)
        if choice is not None:
            options = checked_options(find_class(part, choice.name), choice.options, f"{part}.", skip=GIVEN[part])
            parts[part] = Choice(choice.name, options)
    return replace(config, **parts)


def checked_options(
    cls: type, options: Mapping[str, Any], prefix: str = "", skip: set[str] | None = None
) -> dict[str, Any]:
    """Check ``options`` against the constructor of ``cls`` and add its defaults.

    Args:
        cls: A data source, method or network, or ``TrainingConfig``.
        options: Name -> value.
        prefix: What the command line puts before the names, such as ``method.``.
        skip: Arguments of the constructor that are no options.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(cls, None, skip=skip or set(), fail_untyped=False)
    known = sorted({action.dest for action in parser._actions} - {"help"})
    for name, value in options.items():
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise InputError(f"{cls.__name__} has no option {name!r}{hint}: it has {', '.join(known) or 'none'}")
        if value is None and not _takes_null(cls, name):
            raise InputError(f"--{prefix}{name} has no value: give one, or leave it out")
    try:
        parsed = parser.parse_object(dict(options))
    except (ArgumentError, ValueError, TypeError) as error:
        raise InputError(option_message(error, prefix)) from error
    return dict(parsed.as_dict())


def _takes_null(cls: type, name: str) -> bool:
    """Return whether an option may be None; one whose type cannot be told may be anything."""
    try:
        hint = get_type_hints(cls.__init__).get(name, Any)  # type: ignore[misc]
    except (NameError, TypeError):
        return True
    return hint is Any or hint is type(None) or type(None) in get_args(hint)


def check_training(config: TrainingConfig) -> TrainingConfig:
    """Return ``config`` if its numbers make sense.

    Raises:
        InputError: Names the option.
    """
    for name in ("epochs", "batch_size", "devices", "nodes", "log_every", "step_every"):
        if getattr(config, name) < 1:
            raise InputError(f"--{name} is {getattr(config, name)}, but must be at least 1")
    for name in ("weight_decay", "gradient_clip", "seed", "threads"):
        if not 0 <= getattr(config, name) < float("inf"):
            raise InputError(f"--{name} is {getattr(config, name)}, but must not be negative")
    for name in ("learning_rate", "step_factor"):
        if not 0 < getattr(config, name) < float("inf"):
            raise InputError(f"--{name} is {getattr(config, name)}, but must be positive")
    if not 0 <= config.sgd_momentum < 1:
        raise InputError(f"--sgd_momentum is {config.sgd_momentum}, but must lie in [0, 1)")
    processes = config.devices * config.nodes
    if config.batch_size % processes:
        raise InputError(f"--batch_size is {config.batch_size}, but must be divisible by the {processes} processes")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no CUDA device here; take --device cpu or auto")
    if config.device == "cuda" and config.devices > torch.cuda.device_count():
        raise InputError(f"--devices {config.devices}: torch sees {torch.cuda.device_count()} CUDA devices here")
    return config


def build_source(config: RunConfig) -> DataSource:
    """Build the data source of a complete config."""
    source: DataSource = find_class("data", config.data.name)(**config.data.options)
    return source


def build_table(source: DataSource, rules: Sequence[str]) -> DataTable:
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
        InputError: If a biased network is given to a method without one, or an option does not fit the data.
    """
    cls = find_class("method", config.method.name)
    extra: dict[str, Any] = {}
    if config.biased_network is not None:
        import inspect

        if "biased_network" not in inspect.signature(cls).parameters:
            raise InputError(f"method {config.method.name} has no biased network: leave --biased_network out")
        extra["biased_network"] = network_factory(config.biased_network, info, "biased_network")
    algorithm: Algorithm = cls(
        network_factory(config.network, info),
        info,
        seed=config.training.seed,
        **config.method.options,
        **extra,
    )
    return algorithm


def check_attributes(config: RunConfig, algorithm: Algorithm, table: DataTable) -> None:
    """Return if the training rows have the attributes that the method needs.

    Raises:
        InputError: Otherwise.
    """
    if algorithm.needs_attributes and not table.has_attributes("train"):
        raise InputError(
            f"method {config.method.name} needs the attribute of every training row, but some are unknown: "
            "give them, or take a method that does not need them"
        )


def build_fabric(config: TrainingConfig, loggers: Any = ()) -> Fabric:
    """Return Fabric for the devices and the precision, with its processes started."""
    import warnings

    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy

    if config.threads:
        torch.set_num_threads(config.threads)
    if config.deterministic and config.device != "cpu" and torch.cuda.is_available():
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
