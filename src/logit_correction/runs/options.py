"""Options against the signature of the class that takes them, and those of training against each other."""

from __future__ import annotations

import math
import re
from argparse import ArgumentError
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any, get_args, get_type_hints

import numpy as np
import torch

from logit_correction.config import TrainingConfig
from logit_correction.errors import InputError, check_range, did_you_mean
from logit_correction.training.rules import rule_of

#: Types by their names, for people.
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "list": "a list such as [a, b]",
    "NoneType": "null",
}
_KINDS["Sequence"] = _KINDS["tuple"] = _KINDS["list"]

#: Most threads, processes or machines of a run.
MOST_PROCESSES = 4096

#: Whole numbers go so far; seeds go further.
MOST = 2**31 - 1


def add_options(parser: Any, cls: Callable[..., Any], nested: str | None, skip: set[str]) -> None:
    """Give ``parser`` the arguments of a class's constructor, or of a function, as options."""
    add = parser.add_class_arguments if isinstance(cls, type) else parser.add_function_arguments
    add(cls, nested, skip=skip, fail_untyped=False)


def checked_options(
    cls: Callable[..., Any],
    options: Mapping[str, Any],
    prefix: str = "",
    skip: set[str] | None = None,
    components: Collection[str] = (),
) -> dict[str, Any]:
    """Check ``options`` against the constructor of ``cls`` and add its defaults.

    Args:
        cls: A data source, method or network, a function that makes one, or ``TrainingConfig``.
        options: Name -> value.
        prefix: What the command line puts before the names, such as ``method.``.
        skip: Arguments of the constructor that are no options.
        components: Further options that there are, which are components and not checked here.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    parser = _parser_of(cls, frozenset(skip or ()))
    known = sorted({action.dest for action in parser._actions} - {"help"} | set(components))
    for name, value in options.items():
        if name not in known and f"--{name}" not in parser._option_string_actions:  # such as `views+`, which appends
            hint = did_you_mean(str(name), known, f"--{prefix}")
            has = ", ".join(known) or "no options"
            raise InputError(f"there is no option --{prefix}{name}{hint}: {cls.__name__} has {has}")
        if value is None and not _takes_null(cls, name):
            raise InputError(f"--{prefix}{name} has no value: give one, or leave it out")
    try:
        parsed = parser.parse_object(_of_python(dict(options)))
    except (ArgumentError, ValueError, TypeError) as error:
        raise InputError(_message(error, prefix)) from error
    found: dict[str, Any] = deepcopy(parsed.as_dict())  # defaults that are lists are the parser's own
    for name, value in found.items():
        _check_number(f"--{prefix}{name}", value, is_seed=name.rpartition("_")[2] == "seed")
    return found


def _of_python(value: Any) -> Any:
    """Return options in which paths are texts and NumPy's numbers are Python's, which is what the parser takes."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {name: _of_python(part) for name, part in value.items()}
    return [_of_python(part) for part in value] if type(value) is list else value


@lru_cache(maxsize=256)
def _parser_of(cls: Callable[..., Any], skip: frozenset[str]) -> Any:
    """Return the parser of a class's options; kept, since a grid asks for the same few again and again."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    add_options(parser, cls, None, set(skip))
    return parser


def _check_number(option: str, value: Any, is_seed: bool) -> None:
    """Return if numbers, also those of lists, are such that programs can count with.

    Raises:
        InputError: A number is not finite or too large, or a seed negative.
    """
    if isinstance(value, list | tuple):
        for part in value:
            _check_number(option, part, is_seed)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{option} is {value}, but must be a finite number")
    elif isinstance(value, int):
        if is_seed and value < 0:
            raise InputError(f"{option} is {value}, but must not be negative")
        most = 2**63 - 1 if is_seed else MOST
        if abs(value) > most:
            raise InputError(f"{option} is {value}, but must lie between {-most} and {most}")


@lru_cache(maxsize=1024)
def _takes_null(cls: Callable[..., Any], name: str) -> bool:
    """Return whether an option may be None; one whose type cannot be told may be anything."""
    try:
        constructor = cls.__init__ if isinstance(cls, type) else cls  # type: ignore[misc]
        hint = get_type_hints(constructor).get(name, Any)
    except (NameError, TypeError):
        return True
    return hint is Any or hint is type(None) or type(None) in get_args(hint)


def plain(value: Any, name: str) -> Any:
    """Return an option's value in the form that ``config.yaml`` and ``report.json`` hold.

    Raises:
        InputError: If it has none.

    >>> plain((3, PurePath("data")), "shape")
    [3, 'data']
    """
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(part, name) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, name) for part in value]
    raise InputError(
        f"option {name} is of type {type(value).__name__}, which config.yaml cannot hold: take plain values"
    )


def check_training(config: TrainingConfig) -> TrainingConfig:
    """Return ``config`` if its numbers make sense.

    Raises:
        InputError: Names the option.
    """
    for name in ("epochs", "batch_size", "devices", "nodes", "log_every", "step_every"):
        if getattr(config, name) is not None:
            check_range(f"--{name}", getattr(config, name), 1)
    for name in ("weight_decay", "gradient_clip", "seed", "threads"):
        if getattr(config, name) is not None and not 0 <= getattr(config, name) < float("inf"):
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
    for name, rules in (("selection", [config.selection or "last"]), ("also_select", config.also_select)):
        for rule in rules:
            try:
                rule_of(rule)
            except InputError as error:
                raise InputError(f"--{name}: {error}") from error
    processes = config.devices * config.nodes
    if config.compile == "reduce-overhead" and processes > 1:
        raise InputError("--compile reduce-overhead is for one process: give --compile true with several devices")
    if config.batch_size is not None and config.batch_size % processes:
        raise InputError(f"--batch_size is {config.batch_size}, but must be divisible by the {processes} processes")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no CUDA device here; take --device cpu or auto")
    if config.device == "cuda" and config.devices > torch.cuda.device_count():
        raise InputError(f"--devices {config.devices}: torch sees {torch.cuda.device_count()} CUDA devices here")
    return config


def _message(error: BaseException, prefix: str = "") -> str:
    r"""Say in plain words what the option parser found wrong.

    Args:
        error: What jsonargparse raised.
        prefix: What goes before the option's name, such as ``method.``.

    >>> _message(ValueError('Parser key "epochs": Expected a <class \'int\'>. Got value: many'))
    "--epochs is 'many', but must be a whole number"
    """
    text = " ".join(str(error).split())
    missing = re.fullmatch(r"the following arguments are required: (.*)", text)
    if missing:
        names = [f"--{prefix}{name.strip().removeprefix('--')}" for name in missing[1].split(",")]
        return (
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} missing: --help beside the name says what to give"
        )
    union = re.fullmatch(r'Parser key "([^"]+)": (.*) Given value: (.*)', text)
    found = union or re.fullmatch(r'Parser key "([^"]+)": (.*?)\.? Got value: (.*)', text)
    if not found:
        return text
    name, problem, value = found.groups()
    expected = _expected(problem)
    return f"--{prefix}{name} is {value!r}, but must be {expected}" if expected else f"--{prefix}{name}: {text}"


def _expected(problem: str) -> str:
    """Return the types that jsonargparse names, for people."""
    union = re.search(r"Subtypes: \[(.*)\] Errors:", problem)
    types = re.findall(r"<class '([\w.]+)'>|Literal\[([^\]]*)\]|(\w+\[[\w\[\], ]+\])", union[1] if union else problem)
    names = []
    for plain, choices, nested in types:
        short = plain.rpartition(".")[2]
        names.append(_KINDS.get(short, short) or nested.replace("list[list[int]]", "a list of lists of whole numbers"))
        if choices:
            names[-1] = f"one of {choices}".replace("'", "")
    return " or ".join(dict.fromkeys(names))
