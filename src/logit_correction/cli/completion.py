"""``logit-correction --print_completion SHELL``: a script by which a shell completes commands, options and names."""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from logit_correction.cli.arguments import DESCRIBE, Described
from logit_correction.errors import InputError
from logit_correction.registry import needed

SHELLS = ("bash", "zsh", "tcsh")

#: Options whose type is text, but whose values are paths.
PATHS = ("root", "file", "folder", "run", "predictions", "model", "tokenizer", "weights", "published")


def script(shell: str, commands: Mapping[str, str]) -> str:
    """Return the script.

    Args:
        shell: One of ``SHELLS``.
        commands: Command -> one line.

    Raises:
        InputError: If the shell is unknown, or shtab is not installed.
    """
    if shell not in SHELLS:
        raise InputError(f"--print_completion is {shell!r}, but must be one of {', '.join(SHELLS)}")
    shtab = needed("shtab", "--print_completion", "completion")
    program = argparse.ArgumentParser(prog="logit-correction")
    program.add_argument("--version", action="store_true", help="the version")
    program.add_argument("--debug", action="store_true", help="with any command: show where an error came from")
    found = program.add_subparsers()
    for name, line in commands.items():
        parser = _train_parser() if name == "train" else _parser_of(name)
        for action in parser._actions:
            if action.type is Path or action.dest.rpartition(".")[2] in PATHS:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        found.add_parser(name, help=line, parents=[parser], add_help=False)
    return str(shtab.complete(program, shell))


def _parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser that a command makes."""
    module = importlib.import_module(f"logit_correction.cli.{command}_command")
    try:
        module.main([DESCRIBE])
    except Described as found:
        return found.parser
    raise AssertionError(f"the command {command} has read its arguments without a Parser")


def _train_parser() -> argparse.ArgumentParser:
    """Return a parser with all options of training and of every part of a run that is known."""
    from logit_correction.cli.train_arguments import FLAGS, OWN
    from logit_correction.config import PARTS, TrainingConfig
    from logit_correction.presets import PRESETS
    from logit_correction.training import LOGGERS
    from logit_correction.views import VIEWS

    parser = argparse.ArgumentParser(add_help=False)
    values = {"preset": list(PRESETS), "shortcut": list(VIEWS), "legitimate": list(VIEWS)}
    for name in OWN:
        if name in FLAGS:
            parser.add_argument(f"--{name}", action="store_true")
        else:
            parser.add_argument(f"--{name}", choices=values.get(name), type=Path if name in ("out", "config") else str)
    options: dict[str, list[str] | None] = {}
    options.update(_options_of(TrainingConfig, set()))
    options["logger"] = list(LOGGERS)
    for part in PARTS:
        options.update(_options_of_part(part, part))
    for name, choices in options.items():
        parser.add_argument(f"--{name}", choices=choices)
    return parser


def _options_of_part(kind: str, path: str) -> Iterator[tuple[str, list[str] | None]]:
    """Yield the name of a part and the options of all its classes, components too, with what they may be."""
    from logit_correction.runs.parts import GIVEN, KINDS, components_of, find_class

    known = KINDS[kind][1]
    yield path, list(known)
    inner: dict[str, str] = {}
    for name in known:
        cls = find_class(kind, name)
        inner.update(components_of(cls))
        for option, choices in _options_of(cls, GIVEN[kind] | set(inner)):
            yield f"{path}.{option}", choices
    for argument, its_kind in inner.items():
        if its_kind != kind or path.count(argument) < 2:  # clusters of an estimator, but not clusters of clusters
            yield from _options_of_part(its_kind, f"{path}.{argument}")


def _options_of(cls: Callable[..., Any], skip: set[str]) -> Iterator[tuple[str, list[str] | None]]:
    """Yield the arguments of a constructor or function, and their values where there are few."""
    hints = get_type_hints(cls.__init__ if isinstance(cls, type) else cls)  # type: ignore[misc]
    for name in inspect.signature(cls).parameters:
        if name not in skip:
            yield name, list(_values(hints.get(name))) or None


def _values(hint: Any) -> Iterator[str]:
    """Yield the values that a type names.

    >>> list(_values(Literal["adam", "sgd"] | None)), list(_values(bool)), list(_values(int))
    (['adam', 'sgd'], ['true', 'false'], [])
    """
    if hint is bool:
        yield from ("true", "false")
    elif get_origin(hint) is Literal:
        yield from map(str, get_args(hint))
    elif get_origin(hint) is not None:
        for part in get_args(hint):
            yield from _values(part)
