"""The door of every option: from names and values of a command line, a file or Python to a complete ``RunConfig``.

Which parts are chosen says which classes take the options, and their constructors say which options there are. One
parser of jsonargparse is made of these constructors; it reads, checks and explains them all. Imports nothing heavy
before a part is named, so that a plain ``--help`` answers at once.
"""

from __future__ import annotations

import math
import os
import re
from argparse import ArgumentError
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import cache, lru_cache
from inspect import signature
from typing import Any, TypeAlias

from jsonargparse import ArgumentParser, Namespace

from logit_correction.config import (
    OF_ESTIMATOR,
    PARTS,
    PRESET_OF_METHOD,
    ComponentConfig,
    RunConfig,
    TrainingConfig,
    as_mapping,
    load_preset,
    merge,
    plain,
)
from logit_correction.data import source_of_place
from logit_correction.errors import InputError, check_range, did_you_mean, format_list, no_effect
from logit_correction.registry import resolve

#: Short names that other programs use, for hints.
HABITS = {"lr": "learning_rate", "wd": "weight_decay", "dataset": "data", "gpus": "devices"}
HABITS |= {"model": "network", "arch": "network", "algorithm": "method", "output": "out", "output_dir": "out"}

#: Most threads, processes or machines of a run; whole numbers go as far as the second, and seeds as the third.
MOST_PROCESSES, MOST, MOST_OF_SEED = 4096, 2**31 - 1, 2**63 - 1


#: A part or component that was chosen: its kind, its name, and its class or the function that makes it.
Choice: TypeAlias = tuple[str, str, Callable[..., Any]]

#: The least values of options of training, and the greatest where there is one.
RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("epochs", "batch_size", "log_every", "step_every"), (1, MOST)),
    **dict.fromkeys(("devices", "nodes"), (1, MOST_PROCESSES)),
    **dict.fromkeys(("weight_decay", "gradient_clip"), (0, math.inf)),
    "threads": (0, MOST_PROCESSES),
}


#: Options that name a file or folder, which become absolute paths: a run's config.yaml works in any folder.
PATHS = ("file", "root", "published", "run")

#: Constructor arguments that the run itself gives and the user does not.
GIVEN: dict[str, set[str]] = {kind: {"info"} for kind in ("network", "biased_network", "encoder")}
GIVEN |= {"method": {"network", "info", "biased_network", "seed"}}


@cache
def kinds() -> dict[str, tuple[str, Mapping[str, tuple[str, str]], type]]:
    """Return the parts of a run and the components inside them: what each is called, its names, and its base class."""
    from torch import nn  # these imports are what a plain --help does without

    from logit_correction.attributes import ESTIMATORS
    from logit_correction.attributes.base import AttributeEstimator
    from logit_correction.data import SOURCES
    from logit_correction.data.reader import DataSource
    from logit_correction.methods import METHODS
    from logit_correction.methods.base import Algorithm
    from logit_correction.methods.parts import MIXING, PRIORS, Mixing, PriorRule
    from logit_correction.networks import NETWORKS

    return {
        "data": ("data source", SOURCES, DataSource),
        "method": ("method", METHODS, Algorithm),
        **dict.fromkeys(("network", "biased_network", "encoder"), ("network", NETWORKS, nn.Module)),
        "attributes": ("attribute estimator", ESTIMATORS, AttributeEstimator),
        "prior": ("prior", PRIORS, PriorRule),
        "mixing": ("mixing", MIXING, Mixing),
    }


def find_class(kind: str, name: str) -> Callable[..., Any]:
    """Return the class that a name or dotted path stands for; a network may be a function. ``InputError`` if none."""
    what, known, base = kinds()[kind]
    found: Callable[..., Any] = resolve(what, name, known)
    if GIVEN.get(kind) == {"info"} and callable(found) and not isinstance(found, type):
        return found
    return resolve(what, name, known, base)


def components_of(cls: Callable[..., Any]) -> Mapping[str, str]:
    """Return the constructor arguments of a class that are components with options of their own, with their kinds."""
    return getattr(cls, "components", {})


def complete(given: RunConfig | Mapping[str, Any]) -> RunConfig:
    """Check every option and fill in the defaults, so that the result says all that a run depends on.

    ``given`` is a config, of which what is complete stays as it is, or what ``RunConfig.from_dict`` reads.
    """
    config = complete_parts(given if isinstance(given, RunConfig) else RunConfig.from_dict(given))
    return replace(config, training=_checked_training(parsed(parser_of((), True), vars(config.training)).as_dict()))


def complete_parts(config: RunConfig) -> RunConfig:
    """Check the options of data, method and networks and fill in their defaults; see ``complete``."""
    parts = {part: getattr(config, part) for part in PARTS}
    chosen = {part: one for part, one in parts.items() if one is not None and (one.name or part != "network")}
    checked_parts: dict[str, Any] = {part: checked(part, one) for part, one in chosen.items()}
    return replace(config, **checked_parts)


def checked(kind: str, part: ComponentConfig) -> ComponentConfig:
    """Return a part with its options checked and completed; one that is complete as it is."""
    if part.cls is not None:
        return part
    choices: dict[str, Choice] = {}
    given = choose(kind, kind, part, choices)
    return _part_of(kind, parsed(parser_of(tuple(choices.items()), False), {kind: given}).as_dict()[kind], choices)


def choose(kind: str, path: str, given: Any, choices: dict[str, Choice], default: Any = None) -> Any:
    """Return the options of a part with the names of all components inside, and put their classes into ``choices``."""
    if given is None:
        return None
    full: dict[str, Any] = as_mapping(path, given)
    if full.get("name", default) is None:
        raise InputError(no_effect(path, full))
    full = source_of_place({"name": default} | full) if kind == "data" else {"name": default} | full
    of_any_case = {one.lower(): one for one in kinds()[kind][1]}
    full["name"] = name = of_any_case.get(full["name"].lower(), full["name"])
    if kind == "method" and name in PRESET_OF_METHOD:
        full = merge(load_preset(PRESET_OF_METHOD[name])["method"], full | {"name": "LC"}) | {"name": name}
    cls = find_class(kind, name)
    choices[path] = kind, name, cls
    for argument, its_kind in components_of(cls).items():
        usual = signature(cls).parameters[argument].default
        inner = choose(its_kind, f"{path}.{argument}", full.pop(argument, usual), choices, usual)
        full |= {} if inner is None else {argument: inner}
    return full


def _part_of(path: str, found: Mapping[str, Any], choices: Mapping[str, Choice]) -> ComponentConfig:
    """Return a part of what a parser has found."""
    kind, name, cls = choices[path]
    arguments = {option: value for option, value in found.items() if option != "name"}
    for option in PATHS if kind != "attributes" else PATHS[:1]:  # a page shows the run that an audit examines
        if isinstance(place := arguments.get(option), str) and os.path.exists(place):
            arguments[option] = os.path.abspath(place)
    for argument in components_of(cls):
        inner, value = f"{path}.{argument}", arguments.pop(argument, None)
        arguments[argument] = _part_of(inner, value, choices) if inner in choices else None
    return ComponentConfig(name, plain(arguments), cls, arguments)


def add_options(parser: ArgumentParser, choices: Mapping[str, Choice], training: bool) -> None:
    """Give a parser the options of training, and those of the chosen classes."""
    if training:
        parser.add_argument_group("training").add_class_arguments(TrainingConfig, None, as_group=False)
    for path, (kind, name, cls) in choices.items():
        group, components = parser.add_argument_group(f"{path}: {name}"), components_of(cls)
        text = f"The {kinds()[kind][0]}."
        group.add_argument(f"--{path}.name", type=str, default=name, metavar="NAME", help=text)
        add = group.add_class_arguments if isinstance(cls, type) else group.add_function_arguments
        skip: set[str | int] = {*GIVEN.get(kind, ()), *components}
        add(cls, path, skip=skip, as_group=False, fail_untyped=False)


@lru_cache(maxsize=256)
def parser_of(choices: tuple[tuple[str, Choice], ...], training: bool) -> ArgumentParser:
    """Return the parser of chosen classes, and of training; kept, since a grid asks for the same again and again."""
    parser = ArgumentParser(exit_on_error=False)
    add_options(parser, dict(choices), training)
    return parser


def parsed(parser: ArgumentParser, given: Mapping[str, Any]) -> Namespace:
    """Return all options of a parser, those that are not given with their defaults."""
    known, given = known_options(parser), plain(given)
    leaves = dict(_leaves(given, known))
    for option, value in leaves.items():
        check_known(option, known)
        if value is None and parser.get_default(option) is not None:  # the parser would take it where none may stand
            with explained(parser, leaves):
                parser.parse_args([f"--{option}=null"])
    with explained(parser, leaves):
        found = deepcopy(parser.parse_object(given))  # defaults that are lists are the parser's own
    for option, value in found.as_dict().items():
        _check_numbers(option, value)
    return found


@contextmanager
def explained(parser: ArgumentParser, given: Mapping[str, Any]) -> Iterator[None]:
    """Raise what a parser finds wrong as ``InputError``, in its words, which of a wrong type would take ten lines."""
    try:
        yield
    except (ArgumentError, ValueError, TypeError) as error:
        told = " ".join(str(error).split())
        for option, value in given.items():
            hint = getattr(parser._option_string_actions.get(f"--{option}"), "_typehint", None)
            if hint is not None and f'"{option}"' in told:
                of_type = hint.__name__ if isinstance(hint, type) else re.sub(r"\w+\.|Type\b", "", str(hint))
                example = ", such as [a,b]" if "list[" in of_type else ""
                told = f"--{option} is {value!r}, but must be {of_type}{example}"
        raise InputError(told) from error


def known_options(parser: ArgumentParser) -> list[str]:
    """Return the names of all options of a parser, such as ``method.strength``."""
    return [name[2:] for name in parser._option_string_actions if name.startswith("--") and not name.endswith("+")]


def check_known(option: str, known: Collection[str], where: str = "") -> None:
    """Raise ``InputError`` unless there is such an option; ``where`` ends the message."""
    if option in known:
        return
    part, _, inner = option.partition(".")
    if part in PARTS and inner and f"{part}.name" not in known:
        raise InputError(no_effect(part, {inner: None}))
    if part == "method" and (view := inner.rpartition(".")[2]) in OF_ESTIMATOR:
        raise InputError(f"--{view} is for methods that look for a shortcut: take --method LC and its own attributes")
    path, _, last = option.rpartition(".")
    if f"{path}.name" in known and path.endswith(".attributes"):
        estimators = kinds()["attributes"][1]
        of = [name for name in estimators if last in signature(find_class("attributes", name)).parameters]
        if of:
            raise InputError(f"--{option} is an option of {format_list(of)}: add --{path} {of[0]}{where}")
    hint = f" (did you mean --{HABITS[option]}?)" if option in HABITS else did_you_mean(option, known, "--")
    beside = ", ".join(one.rpartition(".")[2] for one in known if one.rpartition(".")[0] == option.rpartition(".")[0])
    raise InputError(f"There is no option --{option}{hint}{where or ': there are ' + beside}")


def _leaves(given: Mapping[str, Any], known: Collection[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every option that is given, such as ``method.strength``, with its value."""
    for name, value in given.items():
        option = f"{path}{name}"
        if isinstance(value, dict) and option not in known:
            yield from _leaves(value, known, f"{option}.")
        else:
            yield option, value


def _check_numbers(option: str, value: Any) -> None:
    """Raise ``InputError`` unless all numbers of an option are such that programs can count with."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            _check_numbers(f"{option}.{name}", part)
    elif isinstance(value, list | tuple):
        for part in value:
            _check_numbers(option, part)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"--{option} is {value}, but must be a finite number")
    elif isinstance(value, int):
        seed = re.search(r"(^|[._])seed$", option)
        check_range(f"--{option}", value, 0 if seed else -MOST, MOST_OF_SEED if seed else MOST)


def _checked_training(options: Mapping[str, Any]) -> TrainingConfig:
    """Return options of training whose types fit, if their values make sense together and on this machine."""
    config = TrainingConfig(**options)
    for name, (least, most) in RANGES.items():
        if (value := getattr(config, name)) is not None:
            check_range(f"--{name}", value, least, most)
    for name in ("learning_rate", "step_factor"):
        if not getattr(config, name) > 0:
            raise InputError(f"--{name} is {getattr(config, name)}, but must be positive")
    check_range("--sgd_momentum", config.sgd_momentum, 0, 1, open_end=True)
    processes = config.devices * config.nodes
    if config.compile == "reduce-overhead" and processes > 1:
        raise InputError("--compile reduce-overhead is for one process: give --compile true with several devices")
    if config.batch_size is not None and config.batch_size % processes:
        raise InputError(f"--batch_size is {config.batch_size}, but must be divisible by the {processes} processes")
    import torch

    from logit_correction.training.rules import rule_of

    try:
        rule_of(config.selection or "last")
    except InputError as error:
        raise InputError(f"--selection: {error}") from error
    if config.device == "cuda" and config.devices > torch.cuda.device_count():
        raise InputError(f"--device cuda: torch sees {torch.cuda.device_count()} CUDA devices here")
    return config
