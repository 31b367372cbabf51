"""The command line as a list of words, before any parser sees it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from logit_correction.errors import InputError

#: Short names that other programs use, for hints.
HABITS = {
    "--lr": "--learning_rate",
    "--wd": "--weight_decay",
    "--bs": "--batch_size",
    "--num_epochs": "--epochs",
    "--num_workers": "--workers",
    "--dataset": "--data",
    "--algorithm": "--method",
    "--model": "--network",
    "--arch": "--network",
    "--output": "--out",
    "--output_dir": "--out",
    "--optim": "--optimizer",
    "--gpus": "--devices",
}


def spelled(arguments: list[str]) -> list[str]:
    """Return the arguments with ``--batch-size`` as ``--batch_size``; values are left as they are.

    >>> spelled(["--batch-size=8", "--method.step-size", "a-b"])
    ['--batch_size=8', '--method.step_size', 'a-b']
    """
    result = []
    for argument in arguments:
        head, equals, tail = argument.partition("=")
        is_option = head.startswith("--")
        result.append("--" + head[2:].replace("-", "_") + equals + tail if is_option else argument)
    return result


def values_of(arguments: list[str], wanted: dict[str, str]) -> dict[str, str]:
    """Return the values that the command line gives for some options, each under the key that stands for it.

    Raises:
        InputError: If one has no value.
    """
    keys = {option: key for key, option in wanted.items()} | {f"{option}.name": key for key, option in wanted.items()}
    found: dict[str, str] = {}
    for argument, following in zip_longest(arguments, arguments[1:]):
        head, equals, tail = argument.partition("=")
        if head not in keys:
            continue
        value = tail if equals else following or ""
        if not value or (not equals and value.startswith("--")):
            raise InputError(f"{head.removesuffix('.name')} needs a value")
        found[keys[head]] = value
    return found


def taken_out(arguments: list[str], options: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the arguments without some options that may be repeated, and their values by name.

    Raises:
        InputError: If one has no value.
    """
    rest: list[str] = []
    found: dict[str, list[str]] = {}
    waiting: str | None = None
    for argument in [*arguments, ""]:
        head, equals, tail = argument.partition("=")
        if waiting is not None:
            if not argument or argument.startswith("--"):
                raise InputError(f"{waiting} needs a value: the name of a view")
            found.setdefault(waiting.removeprefix("--"), []).append(argument)
            waiting = None
        elif head in options:
            waiting = None if equals else head
            if equals:
                found.setdefault(head.removeprefix("--"), []).append(tail)
        elif argument:
            rest.append(argument)
    return rest, found


def with_data_of_paths(arguments: list[str]) -> list[str]:
    """Return the arguments with ``--data PATH`` as the source that reads it: a folder of images, or a table's file.

    >>> with_data_of_paths(["--data", "Digits"])
    ['--data', 'Digits']
    """
    result, waiting = [], False
    for argument in arguments:
        head, equals, value = argument.partition("=")
        place = argument if waiting else value if equals and head == "--data" else ""
        waiting = head == "--data" and not equals
        if place and not place.isidentifier() and Path(place).exists():
            folder = Path(place).is_dir()
            source = ["ImageFolder", "--data.root"] if folder else ["Table", "--data.file"]
            result += [*([] if not equals else ["--data"]), *source, place]
        else:
            result.append(argument)
    return result


def long_names(arguments: list[str], paths: list[str]) -> list[str]:
    """Turn ``--data NAME`` into ``--data.name NAME``, and ``--data_root`` into ``--data.root``."""
    short = {f"--{path}": f"--{path}.name" for path in paths} | {"--data_root": "--data.root"}
    result = []
    for argument in arguments:
        head, equals, tail = argument.partition("=")
        result.append(short.get(head, head) + equals + tail)
    return result
