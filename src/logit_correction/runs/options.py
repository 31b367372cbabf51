"""Options against the signature of the class that takes them."""

from __future__ import annotations

import math
from argparse import ArgumentError
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, get_args, get_type_hints

from logit_correction.errors import InputError, did_you_mean, option_message

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
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    add_options(parser, cls, None, skip or set())
    known = sorted({action.dest for action in parser._actions} - {"help"} | set(components))
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
    options = dict(parsed.as_dict())
    for name, value in options.items():
        _check_number(f"--{prefix}{name}", value, is_seed=name.rpartition("_")[2] == "seed")
    return options


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
