"""The command line of a command: its function's signature, and the options of the parts of a run that are chosen."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from jsonargparse import ArgumentParser

from logit_correction.config import OF_ESTIMATOR, PARTS, VIEWS, TrainingConfig, as_part, listed, merge, spelled_out
from logit_correction.errors import InputError
from logit_correction.files import read_yaml
from logit_correction.runs import options

#: What the help says where no class says it.
HELP = {
    "data": "A folder of images, the file of a table, or a name from `list data`",
    "method": "A name from `list methods`; LC if left out",
    "network": "A name from `list networks`; one that fits the data if left out",
    "biased_network": "Network of the biased part, of methods that train one; by default like --network",
    "encoder": "A frozen network whose features replace the inputs; computed once and kept",
    "config": "YAML file of options, such as a run's config.yaml; options on the command line win",
    "preset": "A named set of options (`list presets`); any option that you give wins",
    "shortcut": "A view that is a shortcut, such as colour or column:NAME (`list views` shows them); may be repeated",
    "legitimate": "A view that is a legitimate cause of the label; may be repeated",
    "when_unsure": "If the verdict is `cannot tell`: correct by the likeliest view, or train as ERM (default leave)",
}

#: What the plain help of a run shows, by what a person wants to do.
FIRST = {
    "Data and method": ("data", "method", "network"),
    "What you know": OF_ESTIMATOR,
    "How long and where": ("epochs", "seed", "seeds", "device"),
    "Files": ("out", "resume", "config"),
}

#: What only ``--help-all`` shows, with the options of training that are not above.
LATER = ("preset", "biased_network", "encoder", "print_config")

#: What stands for the value of an option in the help.
PLACEHOLDERS = {"config": "FILE", "when_unsure": "correct|leave", **dict.fromkeys(VIEWS, "VIEW")}

#: Options of a run that are given by their names alone.
FLAGS = ("finetune",)

#: Options that may be given several times.
REPEATED = (*VIEWS, "leave_out", "logger")

#: Options of a run that a command chooses itself.
FIXED: dict[str, dict[str, Any]] = {
    "audit": {"method": "LC", **dict.fromkeys(("preset", "biased_network", "selection")), "logger": []}
}


def arguments_of(command: str, function: Callable[..., int], words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that a command line gives to the function of a command; ends after ``--help``.

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
    known = [*parts, *((*TrainingConfig.__dataclass_fields__, "config", "preset", *OF_ESTIMATOR) if whole else ())]
    known = [one for one in known if one not in fixed]
    where = f"; `logit-correction {command} --help` shows what there is"
    for option in given:
        options.check_known(option, [*known, *options.known_options(parser)], where)
    file = read_yaml(Path(given.pop("config"))) if "config" in given else {}
    if everything := own.pop("help_all", None) or own.pop("help", None):
        _add_run(parser, file | given, [one for one in known if one not in own and one not in parameters], whole)
        flags = {*FLAGS, *(name for name, one in parameters.items() if one.default is False)}
        print(_help(parser, command, cleandoc(function.__doc__ or ""), places, flags, whole, everything == "all"))
        raise SystemExit(0)
    found = options.parsed(parser, own).as_dict()
    if not parts:
        return found
    named = [part for part in PARTS if isinstance(one := given.get(part) or {}, str) or "name" in one]
    finished = found.get("out") if found.get("resume") else found.get("run")  # which has a configuration of its own
    if finished is not None and not (file or named or "preset" in given):
        from logit_correction.runs.folder import CONFIG, runs_of

        file = read_yaml(runs_of([finished])[0] / CONFIG)  # all runs of --seeds have the options of the first
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
        head = "--help" if head == "-h" else head
        if not head.startswith("--"):
            name, value = next((one for one in places if one in several or one not in own), ""), head + equals + value
            if not name:
                option = "--data" if of_run and os.path.exists(value) else "--NAME"
                raise InputError(f"{value!r} is no option: leave it out, or write {option} before it")
        else:
            name = head[2:].replace("-", "_")
            if name in ("help", "help_all"):
                own["help_all" if name == "help_all" else "help"] = name.rpartition("_")[2]
                continue
            flag = parameters[name].default is False if name in parameters else name in FLAGS
            if not equals and left and (left[0] in ("true", "false") if flag else not left[0].startswith("--")):
                value = left.pop(0)
            value = value or ("true" if flag else "")
            if not value:
                raise InputError(f"--{name} needs a value")
        if name in several or (of_run and name in REPEATED):
            into = own if name in several else given
            into[name] = [*into.get(name, []), *(listed(value) if name in REPEATED else [value])]
        elif name in parameters or not of_run:
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
            parser.add_argument(f"--{name}", metavar=PLACEHOLDERS.get(name, "NAME"), help=HELP[name])
    options.add_options(parser, choices, whole)


def _help(
    parser: ArgumentParser, command: str, text: str, places: Sequence[str], flags: set[str], whole: bool, every: bool
) -> str:
    """Return the help of a command: the options of a run that most people want by what they are for, or all."""
    found: dict[str, dict[str, Any]] = {}
    for group in parser._action_groups:
        for action in group._group_actions:
            name = action.option_strings[0][2:] if action.option_strings else action.dest
            name = name.removesuffix(".name")
            title = next((title for title, names in FIRST.items() if whole and name in names), "")
            if not title and (group.title == "training" or name in LATER):
                title = "Training"
            title = title or (str(group.title) if ": " in str(group.title) else "Options")
            if action.dest != "help":
                found.setdefault(title, {})[name] = action
    later = 0 if every else len(found.pop("Training", {}))
    width = min(100, shutil.get_terminal_size().columns)
    summary, _, more = text.partition("\n\nArgs:")[0].partition("\n\n")
    lines = [" ".join(["usage: logit-correction", command, *map(str.upper, places), "[--OPTION VALUE ...]"]), ""]
    lines += textwrap.wrap(summary, width) + ([""] if more else []) + textwrap.wrap(more, width)
    for title in sorted(found, key=lambda one: [*FIRST, "Options", one].index(one)):
        order = FIRST.get(title, ())
        lines += ["", f"{title}:"]
        for name, action in sorted(found[title].items(), key=lambda one: order.index(one[0]) if order else 0):
            value = "" if name in flags else _value(getattr(action, "_typehint", None), name)
            told = HELP.get(name) or (action.help or "").replace("``", "").rstrip(".")
            if isinstance(action.default, int | float | str) and action.default is not False and action.default != "":
                told += f" (default {'true' if action.default is True else action.default})"
            head = f"  {name.upper() if name in places else f'--{name} {value}'.rstrip()}"
            body = textwrap.wrap(told[:1].upper() + told[1:], width - 24)
            lines += [f"{head:<24}{body.pop(0)}"] if len(head) < 23 else [head]
            lines += [f"{'':<24}{line}" for line in body]
    if later:
        name = f"Name a data source, a method or a network to see its own: `{command} --data photos --help`."
        lines += ["", *textwrap.wrap(f"--help-all shows {later} more options. {name}", width)]
    return "\n".join(lines)


def _value(hint: Any, name: str) -> str:
    """Return what stands for the value of an option of a type in the help."""
    kinds = [one for one in (get_args(hint) if get_origin(hint) is not Literal else [hint]) if one is not NoneType]
    told: list[str] = []
    for kind in kinds or [hint]:
        if get_origin(kind) is Literal:
            told += map(str, get_args(kind))
        elif isinstance(kind, type) and kind is not bool and issubclass(kind, int | float | Path):
            told.append("N" if issubclass(kind, int) else "X" if issubclass(kind, float) else "PATH")
        elif kind is bool:
            told.append("true|false")
        else:
            told.append(PLACEHOLDERS.get(name, "NAME"))
    return "|".join(dict.fromkeys(told))
