"""The command line of a command: its function's signature, and the options of the parts of a run that are chosen."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Any

from logit_correction.errors import InputError
from logit_correction.formatting import suggest_name
from logit_correction.registry import parse_names
from logit_correction.runs import options
from logit_correction.runs.options import ESTIMATOR_OPTIONS, LIST_OPTIONS, PARTS, VIEW_OPTIONS, OptionParser
from logit_correction.training.config import TrainingConfig
from logit_correction.yaml_files import read_yaml_file

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
    "when_unsure": "Where the verdict is `cannot tell`: correct by the likeliest view, or train as ERM (default leave)",
}

#: What the plain help of a run shows, by what a person wants to do.
FIRST = {
    "Data and method": ("data", "method", "network"),
    "What you know": ESTIMATOR_OPTIONS,
    "How long and where": ("epochs", "seed", "seeds", "device"),
    "Files": ("out", "resume", "config"),
}

#: What only ``--help-all`` shows, with the options of training that are not above.
LATER = ("preset", "biased_network", "encoder", "print_config", "trust_code")

#: What stands for the value of an option in the help, by its name or by the first word of its type.
PLACEHOLDERS = {
    "config": "FILE",
    "when_unsure": "correct|leave",
    "compile": "true|false|reduce-overhead",
    **dict.fromkeys(VIEW_OPTIONS, "VIEW"),
}
PLACEHOLDERS |= {"int": "N", "PositiveInt": "N", "float": "X", "Path": "PATH"}

#: Options of a run that are given by their names alone, and those that may be given several times.
FLAGS, REPEATED = ("finetune",), (*VIEW_OPTIONS, *LIST_OPTIONS)

#: Options of a run that a command chooses itself.
FIXED = {"audit": ("method", "preset", "biased_network", "selection", "logger")}


def parse_arguments(command: str, function: Callable[..., int], words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that a command line gives to the function of a command; ends after ``--help``.

    Its positional parameters may be given without their names, and one whose default is False is a flag. ``config``
    stands for all options of a run, and ``data`` for those of a data source; ``typed`` are the names of those that a
    person gave, also in the file of --config.

    Raises:
        InputError: An option is unknown, missing, or has a wrong value.
    """
    parameters: Mapping[str, Parameter] = signature(function).parameters
    whole, fixed = "config" in parameters, FIXED.get(command, ())
    parts = PARTS if whole else tuple(part for part in PARTS if part in parameters)
    needed = whole and parameters["config"].default is not None
    apart = ("config", "typed", *parts)
    tells_typed = "typed" in parameters
    parameters = {name: one for name, one in parameters.items() if name not in apart}
    places = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    of_run = [
        *parts,
        *((*TrainingConfig.__dataclass_fields__, "config", "preset", *ESTIMATOR_OPTIONS) if whole else ()),
    ]
    of_run = [name for name in of_run if name not in (*parameters, *fixed)]

    given, shown = _read(words, parameters, places, of_run)
    parser = OptionParser()
    parser.add(function, skip=apart)
    known = [*of_run, *parser.actions]
    where = f"; `logit-correction {command} --help` shows what there is"
    for name, value in given.items():
        full = options.list_option_names({name: value})[0]  # such as data.attribute, where only attribute is there
        options.check_option_name(name if name in known or suggest_name(name, known) else full, known, where)
    own = {name: given.pop(name) for name in parameters if name in given}
    file = read_yaml_file(Path(given.pop("config")), as_written=True) if "config" in given else {}
    if shown:
        _add_run(parser, file | given, of_run, whole)
        print(_help(parser, command, cleandoc(function.__doc__ or ""), places, whole, shown == "help_all"))
        raise SystemExit(0)
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in own:
            option = name if name in places else f"--{format_option_name(name)}"
            raise InputError(f"{option} is missing: {parser.actions[name].help}")
    found = options.parse_options(parser, own)
    if not of_run:
        return found
    named = [part for part in PARTS if isinstance(one := given.get(part) or {}, str) or "name" in one]
    finished = found.get("out") if found.get("resume") else found.get("run")  # which has a configuration of its own
    if finished is not None and not (file or named or "preset" in given):
        from logit_correction.runs.folder import find_runs

        file = read_yaml_file(
            find_runs([finished])[0] / "config.yaml"
        )  # all runs of --seeds have the options of the first
    chosen = {name: value for name, value in options.merge_options(file, given).items() if name not in fixed}
    if tells_typed:
        found["typed"] = frozenset(options.list_option_names(chosen))
    if not (chosen or needed) and whole:
        return found
    config = options.complete_config(chosen)
    return found | ({"config": config} if whole else {part: getattr(config, part) for part in parts})


def _read(
    words: Sequence[str], parameters: Mapping[str, Parameter], places: Sequence[str], of_run: Sequence[str]
) -> tuple[dict[str, Any], str]:
    """Return the options that words give, as a file has them, and ``help`` or ``help_all`` if that is asked for.

    >>> _read(["--method.q=1", "--method", "LC"], {}, [], ["method"])
    ({'method': {'q': '1', 'name': 'LC'}}, '')
    """
    given: dict[str, Any] = {}
    shown, left = "", list(words)
    lists = {name for name, one in parameters.items() if str(one.annotation).startswith("list")}
    lists |= {*REPEATED} & {*of_run}
    while left:
        head, equals, value = left.pop(0).partition("=")
        name = "help" if head == "-h" else head[2:].replace("-", "_")
        if name in ("help", "help_all"):
            shown = max(shown, name)
            continue
        if not head.startswith("--"):
            name, value = next((one for one in places if one in lists or one not in given), ""), head + equals + value
            if not name:
                option = "--data" if of_run and os.path.exists(value) else "--NAME"
                raise InputError(f"{value!r} is no option: leave it out, or write {option} before it")
        elif not equals:
            flag = parameters[name].default is False if name in parameters else name in FLAGS
            if left and (left[0] in ("true", "false") if flag else not left[0].startswith("--")):
                value = left.pop(0)
            value = value or ("true" if flag else "")
        if not value:
            raise InputError(f"--{name} needs a value")
        if name in lists:
            given[name] = [*given.get(name, []), *(parse_names(value) if name in REPEATED else [value])]
        else:
            _put(given, name.split("."), None if value == "null" else value)
    return given, shown


def _put(given: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set an option inside options; one that has a value and options of its own has the value as its name."""
    *outer, last = path
    for name in outer:
        inner = given.get(name, {})
        given[name] = given = inner if isinstance(inner, dict) else {"name": inner}
    if isinstance(given.get(last), dict) and value is not None:
        given[last]["name"] = value
    elif outer and given.get(last) is not None and value is not None:  # given again: for options that are lists
        given[last] = [*parse_names(given[last]), *parse_names(value)]
    else:
        given[last] = value


def _add_run(parser: OptionParser, given: Mapping[str, Any], known: Sequence[str], whole: bool) -> None:
    """Give the parser whose help is wanted the options of a run: those of parts that are named, of others the name."""
    given = options.expand_short_options({name: value for name, value in given.items() if name in known})
    choices: dict[str, options.ResolvedClass] = {}
    for part in PARTS if whole else ("data",):
        options.resolve_part(part, part, given.get(part), choices)
    for name in known:
        if name in HELP and name not in choices:
            parser.add_argument(f"--{name}", help=HELP[name])
    if whole:
        parser.add(TrainingConfig)
    parser.add_choices(choices)


def format_option_name(name: str) -> str:
    """Return an option as the command line has it: with underscores if ``config.yaml`` holds it, else with dashes."""
    held = "." in name or name in PARTS or name in TrainingConfig.__dataclass_fields__
    return name if held else name.replace("_", "-")


def _help(parser: OptionParser, command: str, text: str, places: Sequence[str], whole: bool, every: bool) -> str:
    """Return the help of a command: the options of a run that most people want by what they are for, or all."""
    found: dict[str, dict[str, Any]] = {}
    for option, action in parser.actions.items():
        name = option.removesuffix(".name")
        title = next((title for title, names in FIRST.items() if whole and name in names), "")
        if not title and whole and (name in LATER or name in TrainingConfig.__dataclass_fields__):
            title = "Training"
        path = name.rpartition(".")[0]
        if not title and f"{path}.name" in parser.actions:
            title = f"{path}: {parser.actions[f'{path}.name'].default}"
        found.setdefault(title or "Options", {})[name] = action
    later = 0 if every else len(found.pop("Training", {}))
    width = min(100, shutil.get_terminal_size().columns)
    summary, _, more = text.partition("\n\nArgs:")[0].partition("\n\n")
    lines = [" ".join(["usage: logit-correction", command, *map(str.upper, places), "[--OPTION VALUE ...]"]), ""]
    lines += textwrap.wrap(summary, width) + ([""] if more else []) + textwrap.wrap(more, width)
    for title in sorted(found, key=lambda one: [*FIRST, "Options", one].index(one)):
        order = FIRST.get(title, ())
        lines += ["", f"{title}:"]
        for name, action in sorted(found[title].items(), key=lambda one: order.index(one[0]) if order else 0):
            kind = parser.types.get(name, type(action.default).__name__)
            choices = re.findall(r"'(.+?)'", kind) or re.findall(r"[\w-]+", str(action.metavar or ""))
            usual = PLACEHOLDERS.get(kind.partition(" ")[0]) or "|".join(choices) or "NAME"
            flag = kind == "bool" and action.default is False and "." not in name
            value = "" if flag else PLACEHOLDERS.get(name, usual)
            told = HELP.get(name) or (action.help or "").replace("``", "").rstrip(".")
            if isinstance(action.default, int | float | str) and action.default is not False and action.default != "":
                told += f" (default {'true' if action.default is True else action.default})"
            head = f"  {name.upper()}" if name in places else f"  --{format_option_name(name)} {value}".rstrip()
            body = textwrap.wrap(told[:1].upper() + told[1:], width - 24)
            lines += [f"{head:<24}{body.pop(0)}"] if len(head) < 23 else [head]
            lines += [f"{'':<24}{line}" for line in body]
    if later:
        name = f"Name a data source, a method or a network to see its own: `{command} --data photos --help`."
        lines += ["", *textwrap.wrap(f"--help-all shows {later} more options. {name}", width)]
    return "\n".join(lines)
