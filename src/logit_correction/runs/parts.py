"""What a run is put together from: parts and components by name, their classes, and their checked options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator
from logit_correction.config import PARTS, ComponentConfig, RunConfig, TrainingConfig
from logit_correction.data import SOURCES
from logit_correction.data.table import DataSource
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.methods.mixing import MIXING, Mixing
from logit_correction.methods.prior import PRIORS, PriorRule
from logit_correction.networks import NETWORKS
from logit_correction.registry import resolve_any
from logit_correction.runs.networks import check_takes_info
from logit_correction.runs.options import checked_options, plain
from logit_correction.types import InputError

#: Most threads, processes or machines of a run.
MOST_PROCESSES = 4096

#: Constructor arguments that the run itself gives and the user does not.
GIVEN: dict[str, set[str]] = {
    "data": set(),
    "method": {"network", "info", "biased_network", "seed"},
    "network": {"info"},
    "biased_network": {"info"},
    "encoder": {"info"},
    "attributes": set(),
    "prior": set(),
    "mixing": set(),
}

#: Part of a run, or kind of component -> what it is called, what there is, and what its classes derive from.
KINDS: dict[str, tuple[str, Mapping[str, tuple[str, str]], type]] = {
    "data": ("data source", SOURCES, DataSource),
    "method": ("method", METHODS, Algorithm),
    "network": ("network", NETWORKS, nn.Module),
    "biased_network": ("network", NETWORKS, nn.Module),
    "encoder": ("network", NETWORKS, nn.Module),
    "attributes": ("attribute estimator", ESTIMATORS, AttributeEstimator),
    "prior": ("prior", PRIORS, PriorRule),
    "mixing": ("mixing", MIXING, Mixing),
}


def known_name(part: str, name: str) -> str:
    """Return a name as it is written in the list of its kind, whatever letters of it are capital; others as they are.

    >>> known_name("method", "lc"), known_name("network", "resnet18"), known_name("method", "my_package.Mine")
    ('LC', 'ResNet18', 'my_package.Mine')
    """
    known = KINDS[part][1]
    return name if name in known else {one.lower(): one for one in known}.get(name.lower(), name)


def find_class(part: str, name: str) -> Callable[..., Any]:
    """Return the class of ``part`` (one of ``config.PARTS``) that ``name`` stands for; a network may be a function.

    Raises:
        InputError: If there is none, or it is something else.
    """
    kind, known, base = KINDS[part]
    found: Callable[..., Any] = resolve_any(kind, known_name(part, name), known)
    of_networks = base is nn.Module
    if isinstance(found, type):
        if not issubclass(found, base):
            raise InputError(f"{name!r} is not a {kind}: its class must derive from {base.__module__}.{base.__name__}")
    elif not (of_networks and callable(found)):
        raise InputError(f"{kind} {name!r} is not a class: give the dotted path of a class")
    if of_networks:
        check_takes_info(name, found)
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
    for part in PARTS:
        choice = getattr(config, part)
        if choice is not None and choice.name:
            choice = ComponentConfig(known_name(part, choice.name), choice.options)
            options = _options(part, choice.name, choice.options, f"{part}.")
            parts[part] = ComponentConfig(choice.name, {name: _plain(value, name) for name, value in options.items()})
    return replace(config, **parts)


def _plain(value: Any, name: str) -> Any:
    """Return an option, or the options of a component, as ``config.yaml`` holds them."""
    if isinstance(value, ComponentConfig):
        return {"name": value.name, **{key: _plain(part, key) for key, part in value.options.items()}}
    return plain(value, name)


def _options(kind: str, name: str, given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return all options of a class, checked: plain ones of the types that it asks for, components as choices."""
    cls = find_class(kind, name)
    kinds = components_of(cls)
    own = {key: value for key, value in given.items() if key not in kinds}
    options = checked_options(cls, own, prefix, skip=GIVEN[kind] | set(kinds), components=kinds)
    for key, its_kind in kinds.items():
        chosen = as_choice(given.get(key, default_of(cls, key)), f"{prefix}{key}")
        if chosen is not None:
            its_name = known_name(its_kind, chosen.name)
            chosen = ComponentConfig(its_name, _options(its_kind, its_name, chosen.options, f"{prefix}{key}."))
        options[key] = chosen
    return options


def components_of(cls: Callable[..., Any]) -> Mapping[str, str]:
    """Return the constructor arguments of a class that are components with options of their own, with their kinds."""
    return getattr(cls, "components", {})


def default_of(cls: Callable[..., Any], argument: str) -> Any:
    """Return the default of a constructor's argument."""
    return inspect.signature(cls).parameters[argument].default


def as_choice(given: Any, option: str) -> ComponentConfig | None:
    """Return a component that is given by name, or as a mapping with a name, as a choice; None stays None.

    Raises:
        InputError: If it is something else.
    """
    if given is None or isinstance(given, ComponentConfig):
        return given
    if isinstance(given, str):
        return ComponentConfig(given)
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return ComponentConfig(given["name"], {key: value for key, value in given.items() if key != "name"})
    raise InputError(f"--{option} must be a name, or a mapping with a name and its options: {{name: NAME, ...}}")


def with_known(method: ComponentConfig, known: Mapping[str, Sequence[str]]) -> ComponentConfig:
    """Return the method with the views that a person knows given to the estimator that looks for a shortcut.

    Args:
        method: Not yet checked.
        known: ``shortcut`` or ``legitimate`` -> views.

    Raises:
        InputError: If no estimator of the method looks for a shortcut.
    """
    cls = find_class("method", method.name)
    own = default_of(cls, "attributes") if "attributes" in components_of(cls) else None
    estimator = as_choice(method.options.get("attributes", own), "method.attributes")
    if estimator is None or known_name("attributes", estimator.name) != "Auto":
        raise InputError(
            f"--{next(iter(known))} is for methods that look for a shortcut: take --method LC with its default "
            "--method.attributes Auto"
        )
    options = {name: [*(estimator.options.get(name) or []), *views] for name, views in known.items()}
    return ComponentConfig(
        method.name, {**method.options, "attributes": ComponentConfig("Auto", {**estimator.options, **options})}
    )


def _made(kind: str, value: Any) -> Any:
    """Return a component that was chosen, made; anything else as it is."""
    if not isinstance(value, ComponentConfig):
        return value
    return find_class(kind, value.name)(**_arguments(kind, value.name, value.options))


def _arguments(kind: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked options as arguments of the constructor, components made."""
    kinds = components_of(find_class(kind, name))
    return {key: _made(kinds[key], value) if key in kinds else value for key, value in options.items()}


def class_and_options(part: str, choice: ComponentConfig) -> tuple[Any, dict[str, Any]]:
    """Return a part's class and all arguments of its constructor, each of the type that the class asks for."""
    options = _options(part, choice.name, choice.options, f"{part}.")
    return find_class(part, choice.name), _arguments(part, choice.name, options)


def check_training(config: TrainingConfig) -> TrainingConfig:
    """Return ``config`` if its numbers make sense.

    Raises:
        InputError: Names the option.
    """
    for name in ("epochs", "batch_size", "devices", "nodes", "log_every", "step_every"):
        if getattr(config, name) is not None and getattr(config, name) < 1:
            raise InputError(f"--{name} is {getattr(config, name)}, but must be at least 1")
    for name in ("weight_decay", "gradient_clip", "seed", "threads"):
        if not 0 <= getattr(config, name) < float("inf"):
            raise InputError(f"--{name} is {getattr(config, name)}, but must not be negative")
    for name in ("threads", "workers", "devices", "nodes"):
        if getattr(config, name) > MOST_PROCESSES:
            raise InputError(f"--{name} is {getattr(config, name)}, but must be at most {MOST_PROCESSES}")
    if config.workers < -1:
        raise InputError(f"--workers is {config.workers}, but must be -1, which chooses, or not negative")
    for name in ("learning_rate", "step_factor"):
        if not 0 < getattr(config, name) < float("inf"):
            raise InputError(f"--{name} is {getattr(config, name)}, but must be positive")
    if not 0 <= config.sgd_momentum < 1:
        raise InputError(f"--sgd_momentum is {config.sgd_momentum}, but must lie in [0, 1)")
    processes = config.devices * config.nodes
    if config.batch_size is not None and config.batch_size % processes:
        raise InputError(f"--batch_size is {config.batch_size}, but must be divisible by the {processes} processes")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no CUDA device here; take --device cpu or auto")
    if config.device == "cuda" and config.devices > torch.cuda.device_count():
        raise InputError(f"--devices {config.devices}: torch sees {torch.cuda.device_count()} CUDA devices here")
    return config
