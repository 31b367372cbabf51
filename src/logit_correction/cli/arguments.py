"""The command line of a command: its function's signature, and the options of the parts of a run that are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from logit_correction.config import PARTS, VIEWS, TrainingConfig, as_part, listed, merge, spelled_out
from logit_correction.errors import InputError
from logit_correction.files import read_yaml
from logit_correction.runs import options

#: What the help says where no class says it.
HELP = {
    "data": "A data source, a folder of images or the file of a table.",
    "method": "A method.",
    "network": "The network that predicts; by default one that fits the data.",
    "biased_network": "The network of methods that have a biased one; by default like --network.",
    "encoder": "A frozen network whose features take the place of the inputs: computed once and kept.",
    "config": "YAML file of options; those given beside it win.",
    "preset": "Named options under all others: `list presets`.",
    "shortcut": "A view that is known to be a shortcut (`list views`); may be repeated.",
    "legitimate": "A view that is known to be none; may be repeated.",
}

#: Options that may be given several times.
REPEATED = (*VIEWS, "logger")

#: Options of a run that a command chooses itself.
FIXED: dict[str, dict[str, Any]] = {
    "audit": {"method": "LC", "preset": None, "biased_network": None, "selection": None}
}


def arguments_of(command: str, function: Callable[..., int], words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that a command line gives to the function of a command; exits after ``--help``.

    Its positional parameters may be given without their names, and one whose default is False is a flag. ``config``
    stands for all options of a run, and ``data`` for those of a data source.

    Raises:
        InputError: An option is unknown, missing, or has a wrong value.
    """
    parameters: Mapping[str, Parameter] = signature(function).parameters
    needed, fixed = "config" in parameters and parameters["config"].default is not None, FIXED.get(command, {})
    whole, parts = "config" in parameters, [part for part in PARTS if {"config", part} & {*parameters}]
    skip: set[str | int] = {name for name in ("config", *PARTS) if name in parameters}
    parameters = {name: one for name, one in parameters.items() if name not in skip}
    places = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    own, given = _split(words, parameters, places, bool(parts))
    ways: dict[str, Any] = {"exit_on_error": False, "print_config": None}
    parser = ArgumentParser(prog=f"logit-correction {command}", **ways)
    parser.add_function_arguments(function, None, as_group=False, skip=skip)
    known = [*parts, *((*TrainingConfig.__dataclass_fields__, "config", "preset", *VIEWS) if whole else ())]
    known = [one for one in known if one not in fixed]
    where = f"; `logit-correction {command} --help` shows what there is"
    for option in given:
        options.check_known(option, [*known, *options.known_options(parser)], where)
    file = read_yaml(Path(given.pop("config"))) if "config" in given else {}
    if own.pop("help", None):
        parser.usage = " ".join(["logit-correction", command, *map(str.upper, places), "[--OPTION VALUE ...]"])
        parser.description = cleandoc(function.__doc__ or "").partition("\n\nArgs:")[0]
        _add_run(parser, file | given, [one for one in known if one not in own and one not in parameters], whole)
        parser.parse_args(["--help"])
    found = options.parsed(parser, own).as_dict()
    if not parts:
        return found
    named = [part for part in PARTS if isinstance(one := given.get(part, {}), str) or "name" in one]
    if found.get("resume") and found["out"] is not None and not (file or named or "preset" in given):
        file = read_yaml(found["out"] / "config.yaml")
    chosen = merge(file, given)
    if not whole:
        return found | {part: options.checked(part, as_part(part, spelled_out(chosen).get(part))) for part in parts}
    if not chosen and not needed:
        return found
    return found | {"config": options.complete({**{k: v for k, v in chosen.items() if k not in fixed}, **fixed})}


def _split(
    words: Sequence[str], parameters: Mapping[str, Parameter], places: Sequence[str], of_run: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the command's own options, and those of a run, as a file has them.

    >>> _split(["--method.q=1", "--method", "LC"], {}, [], True)
    ({}, {'method': {'q': '1', 'name': 'LC'}})
    """
    own: dict[str, Any] = {}
    given: dict[str, Any] = {}
    several = {name for name, one in parameters.items() if str(one.annotation).startswith("list")}
    left = list(words)
    while left:
        head, equals, value = left.pop(0).partition("=")
        if head == "-h":
            head = "--help"
        if not head.startswith("--"):
            name, value = next((one for one in places if one in several or one not in own), ""), head + equals + value
            if not name:
                raise InputError(f"{value!r} is no option: leave it out, or write --NAME before it")
        else:
            name = head[2:].replace("-", "_")
            flag = name == "help" or (name in parameters and parameters[name].default is False)
            if not equals and left and (left[0] in ("true", "false") if flag else not left[0].startswith("--")):
                value = left.pop(0)
            value = value or ("true" if flag else "")
            if not value:
                raise InputError(f"--{name} needs a value")
        if name in several or (of_run and name in REPEATED):
            into = own if name in several else given
            into[name] = [*into.get(name, []), *(listed(value) if name in REPEATED else [value])]
        elif name in parameters or not of_run or name == "help":
            own[name] = value
        else:
            _put(given, name.split("."), None if value == "null" else value)
    return own, given


def _put(given: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set an option inside options; one that has a value and options of its own has the value as its name."""
    *outer, last = path
    for name in outer:
        inner = given.get(name, {})
        given[name] = given = inner if isinstance(inner, dict) else {"name": inner}
    if isinstance(given.get(last), dict) and value is not None:
        given[last]["name"] = value
    else:
        given[last] = value


def _add_run(parser: ArgumentParser, given: Mapping[str, Any], known: Sequence[str], whole: bool) -> None:
    """Give the parser whose help is wanted the options of a run: those of parts that are named, of others the name."""
    given = spelled_out({name: value for name, value in given.items() if name in known})
    choices: dict[str, options.Choice] = {}
    for part in PARTS:
        options.choose(part, part, given.get(part), choices)
    for name in known:
        if name in HELP and name not in choices:
            parser.add_argument(f"--{name}", metavar="VIEW" if name in VIEWS else "NAME", help=HELP[name])
    options.add_options(parser, choices, whole)
