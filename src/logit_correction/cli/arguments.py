"""Reads the words of a command line into the arguments of a command's function.

The signature of the function says which options the command takes. A parameter ``config`` stands for all options of a
run, whose parts (data, method, networks) bring options of their own, and ``data`` for those of a data source alone. So
words are first sorted by name, then ``runs.options`` checks them, and the help is written from the same parser.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from argparse import Action
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Any

from logit_correction.errors import InputError
from logit_correction.formatting import capitalize, suggest_name
from logit_correction.registry import Options, parse_name_list
from logit_correction.runs import options
from logit_correction.runs.options import ESTIMATOR_OPTIONS, LIST_OPTIONS, PARTS, VIEW_OPTIONS, OptionParser
from logit_correction.training.config import TrainingConfig
from logit_correction.yaml_files import read_yaml_file

#: Descriptions of options that no docstring of a class describes.
DESCRIPTIONS = {
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

#: Title of a section of the help -> options of a run that ``--help`` shows in it, in this order.
SECTIONS = {
    "Data and method": ("data", "method", "network"),
    "What you know": ESTIMATOR_OPTIONS,
    "How long and where": ("epochs", "seed", "seeds", "device"),
    "Files": ("out", "resume", "config"),
}

#: Title of the section that only ``--help-all`` shows: options of training that are in no other section, and these.
ADVANCED = "Training"
ADVANCED_OPTIONS = ("preset", "biased_network", "encoder", "single", "replace_answers", "print_config", "trust_code")

#: Name of an option, or the first word of its type -> what stands for its value in the help.
PLACEHOLDERS = {
    "config": "FILE",
    "when_unsure": "correct|leave",
    "compile": "true|false|reduce-overhead",
    **dict.fromkeys((*VIEW_OPTIONS, "leave_out"), "VIEW"),
    "int": "N",
    "PositiveInt": "N",
    "float": "X",
    "Path": "PATH",
}

#: Options of a run that need no value.
FLAGS = ("finetune", "refit")

#: Options of a run that may be given several times, or as ``[a, b]``.
REPEATABLE = (*VIEW_OPTIONS, *LIST_OPTIONS)

#: Command -> options of a run that it chooses itself, so that a user cannot.
FIXED_OPTIONS = {"audit": ("method", "preset", "biased_network", "selection", "refit", "logger")}

#: Characters of a line of the help before the description.
HELP_COLUMN = 24


def parse_arguments(command: str, function: Callable[..., int], words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that a command line gives to the function of a command; prints the help if it is asked for.

    Positional parameters may be given without their names, and a parameter whose default is False is a flag. Options of
    ``--config FILE`` count where the command line does not give them. With ``--resume`` or ``--run`` alone, the run's
    own ``config.yaml`` takes this place. A parameter ``user_options`` receives the full names of all options of a run
    that the user gave in either way.

    Args:
        command: Name of the command.
        function: Function whose signature describes the command.
        words: The command line after the command's name.

    Returns:
        Name of a parameter -> value, ready for ``function(**arguments)``.

    Raises:
        InputError: An option is unknown, missing, or has a wrong value.
        SystemExit: The help was asked for, and is printed.
    """
    all_parameters = signature(function).parameters
    takes_run = "config" in all_parameters
    parts = PARTS if takes_run else tuple(part for part in PARTS if part in all_parameters)
    filled_from_run = ("config", "user_options", *parts)
    parameters = {name: all_parameters[name] for name in all_parameters if name not in filled_from_run}
    fixed = FIXED_OPTIONS.get(command, ())
    run_options = [*parts]
    if takes_run:
        run_options += [*TrainingConfig.__dataclass_fields__, "config", "preset", *ESTIMATOR_OPTIONS]
    run_options = [name for name in run_options if name not in (*parameters, *fixed)]

    positional = [name for name, parameter in parameters.items() if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD]
    user_values, help_name = _parse_words(command, words, parameters, positional, run_options)
    parser = OptionParser()
    parser.add_options(function, skip=filled_from_run)
    command_options = {name: user_values.pop(name) for name in parameters if name in user_values}
    file_options = read_yaml_file(Path(user_values.pop("config")), as_written=True) if "config" in user_values else {}
    if help_name:
        _add_run_options(parser, file_options | user_values, run_options, takes_run)
        text = function.__doc__ or ""
        print(_format_help(parser, command, text, positional, takes_run, help_name == "help_all"), flush=True)
        raise SystemExit(0)
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in command_options:
            option = name if name in positional else f"--{format_option_name(name)}"
            raise InputError(f"{option} is missing: {parser.actions[name].help}")
    arguments = options.parse_options(parser, command_options)
    if not run_options:
        return arguments

    if not (
        file_options
        or "preset" in user_values
        or any(map(_includes_part_name, (user_values.get(part) for part in PARTS)))
    ):
        file_options = _read_config_of_run(arguments)
    merged = options.merge_options(file_options, user_values)
    chosen = {name: value for name, value in merged.items() if name not in fixed}
    if "user_options" in all_parameters:
        arguments["user_options"] = frozenset(options.list_option_names(chosen))
    if takes_run and not chosen and all_parameters["config"].default is None:
        return arguments
    config = options.complete_config(chosen)
    if takes_run:
        return arguments | {"config": config}
    return arguments | {part: getattr(config, part) for part in parts}


def _includes_part_name(part: Any) -> bool:
    """Return whether what a user gave for a part of a run includes its name."""
    return isinstance(part, str) or "name" in (part or {})


def _read_config_of_run(arguments: Options) -> Options:
    """Return the options of the run that a command continues or examines; empty if there is none."""
    folder = arguments.get("out") if arguments.get("resume") else arguments.get("run")
    if folder is None:
        return {}
    from logit_correction.runs.folder import expand_seed_folders

    first_run = expand_seed_folders([folder])[0]  # all runs of --seeds have the same options
    return read_yaml_file(first_run / "config.yaml")


def _check_option_name(command: str, typed: str, name: str, known_names: Sequence[str]) -> None:
    """Raise ``InputError``, which quotes an option as it was typed, if its name is not among ``known_names``."""
    part = name.partition(".")[0]
    option = part if part in known_names or suggest_name(part, known_names) else name
    options.check_option_name(option, known_names, f"; `logit-correction {command} --help` shows what there is", typed)


def _parse_words(
    command: str,
    words: Iterable[str],
    parameters: Mapping[str, Parameter],
    positional: Sequence[str],
    run_options: Sequence[str],
) -> tuple[Options, str]:
    """Return the options that words give, nested as in a config file, and ``help`` or ``help_all`` if it is asked for.

    >>> _parse_words("train", ["--method.q=1", "--method", "LC"], {}, [], ["method"])
    ({'method': {'q': '1', 'name': 'LC'}}, '')
    """
    user_values: Options = {}
    help_name = ""
    remaining = list(words)
    lists = {name for name, parameter in parameters.items() if str(parameter.annotation).startswith("list")}
    lists.update(name for name in REPEATABLE if name in run_options)
    while remaining:
        word = remaining.pop(0)
        head, equals, value = word.partition("=")
        name = "help" if head == "-h" else head[2:].replace("-", "_")
        if name in ("help", "help_all"):
            help_name = max(help_name, name)
            continue
        if name.removeprefix("no_") in FLAGS and name != name.removeprefix("no_"):
            name = name.removeprefix("no_")
            value = "false"
        elif not head.startswith("--"):
            value = word
            name = next((name for name in positional if name in lists or name not in user_values), "")
            if not name:
                option = "--data" if run_options and os.path.exists(word) else "--NAME"
                raise InputError(f"{word!r} is not an option: leave it out, or write {option} before it")
        elif not equals:
            is_flag = parameters[name].default is False if name in parameters else name in FLAGS
            if remaining and (remaining[0] in ("true", "false") if is_flag else not remaining[0].startswith("--")):
                value = remaining.pop(0)
            elif is_flag:
                value = "true"
        if head.startswith("--"):
            _check_option_name(command, head, name, [*run_options, *parameters])
        if not value:
            raise InputError(f"--{format_option_name(name)} needs a value")
        if name in lists:
            user_values[name] = [
                *user_values.get(name, []),
                *(parse_name_list(value) if name in REPEATABLE else [value]),
            ]
        else:
            _set_option(user_values, name.split("."), None if value == "null" else value)
    return user_values, help_name


def _set_option(user_values: Options, path: Sequence[str], value: Any) -> None:
    """Set an option inside nested options; a part with a value and options of its own has the value as its name."""
    *outer, last = path
    for name in outer:
        inner = user_values.get(name, {})
        user_values[name] = inner if isinstance(inner, dict) else {"name": inner}
        user_values = user_values[name]
    before = user_values.get(last)
    if isinstance(before, dict) and value is not None:
        before["name"] = value
    elif outer and before is not None and value is not None:  # given again: for options that are lists
        user_values[last] = [*parse_name_list(before), *parse_name_list(value)]
    else:
        user_values[last] = value


def _add_run_options(parser: OptionParser, user_values: Options, run_options: Sequence[str], takes_run: bool) -> None:
    """Add the options of a run to the parser of the help: all of parts that are named, of other parts the name."""
    expanded = options.expand_short_options({name: user_values[name] for name in user_values if name in run_options})
    choices: dict[str, options.ResolvedClass] = {}
    for part in PARTS if takes_run else ("data",):
        options.resolve_part(part, part, expanded.get(part), choices)
    for name in run_options:
        if name in DESCRIPTIONS and name not in choices:
            parser.add_argument(f"--{name}", help=DESCRIPTIONS[name])
    if takes_run:
        parser.add_options(TrainingConfig)
    parser.add_components(choices)


def format_option_name(name: str) -> str:
    """Return an option as the command line has it: with underscores if ``config.yaml`` holds it, else with dashes.

    >>> format_option_name("batch_size"), format_option_name("new_rows")
    ('batch_size', 'new-rows')
    """
    is_in_config = "." in name or name in PARTS or name in TrainingConfig.__dataclass_fields__
    return name if is_in_config else name.replace("_", "-")


def _format_help(
    parser: OptionParser, command: str, text: str, positional: Sequence[str], takes_run: bool, show_all: bool
) -> str:
    """Return the help of a command: options of a run by what they are for, the advanced ones only with ``show_all``."""
    sections: dict[str, dict[str, Action]] = {}
    for option, action in parser.actions.items():
        name = option.removesuffix(".name")
        sections.setdefault(_choose_help_section(name, parser, takes_run), {})[name] = action
    advanced = {} if show_all else sections.pop(ADVANCED, {})
    width = min(100, shutil.get_terminal_size().columns)
    description = cleandoc(text).partition("\n\nArgs:")[0]
    lines = [" ".join(["usage: logit-correction", command, *map(str.upper, positional), "[--OPTION VALUE ...]"])]
    for paragraph in description.split("\n\n"):
        lines += ["", *textwrap.wrap(paragraph, width)]
    for title in sorted(sections, key=lambda title: [*SECTIONS, "Options", title].index(title)):
        lines += ["", f"{title}:"]
        section = sections[title]
        for name in [name for name in SECTIONS.get(title, section) if name in section]:
            lines += _format_option_help(name, section[name], parser, name in positional, width)
    if advanced:
        hint = f"Name a data source, a method or a network to see its own: `{command} --data photos --help`."
        lines += ["", *textwrap.wrap(f"--help-all shows {len(advanced)} more options. {hint}", width)]
    return "\n".join(lines)


def _choose_help_section(name: str, parser: OptionParser, takes_run: bool) -> str:
    """Return the title of the section of the help that an option belongs to."""
    if takes_run:
        for title, names in SECTIONS.items():
            if name in names:
                return title
        if name in ADVANCED_OPTIONS or name in TrainingConfig.__dataclass_fields__:
            return ADVANCED
    part = name.rpartition(".")[0]
    chosen = parser.actions.get(f"{part}.name")
    return f"{part}: {chosen.default}" if chosen else "Options"


def _format_option_help(name: str, action: Action, parser: OptionParser, is_positional: bool, width: int) -> list[str]:
    """Return the lines of the help about one option: how to write it, what it does, and its default."""
    default = action.default
    kind = parser.types.get(name, type(default).__name__)
    choices = re.findall(r"'(.+?)'", kind) or re.findall(r"[\w-]+", str(action.metavar or ""))
    placeholder = PLACEHOLDERS.get(name) or PLACEHOLDERS.get(kind.partition(" ")[0]) or "|".join(choices) or "NAME"
    if kind == "bool" and default is False and "." not in name:
        placeholder = ""
    description = DESCRIPTIONS.get(name) or (action.help or "").replace("``", "").rstrip(".")
    if isinstance(default, int | float | str) and default is not False and default != "":
        description += f" (default {'true' if default is True else default})"
    head = f"  {name.upper()}" if is_positional else f"  --{format_option_name(name)} {placeholder}".rstrip()
    body = textwrap.wrap(capitalize(description), width - HELP_COLUMN)
    lines = [f"{head:<{HELP_COLUMN}}{body.pop(0)}"] if len(head) < HELP_COLUMN - 1 else [head]
    return lines + [f"{'':<{HELP_COLUMN}}{line}" for line in body]
