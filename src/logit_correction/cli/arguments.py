"""The command line of a command: its function's signature, and the options of the parts of a run that are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from docstring_parser import parse as parse_docstring
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

    Parameters without a name on the command line are positional ones; keyword-only ones are options, and one whose
    default is False is a flag. ``config`` stands for all options of a run, and ``data`` for those of a data source.

    Raises:
        InputError: An option is unknown, missing, or has a wrong value.
    """
    parameters, fixed = signature(function).parameters, FIXED.get(command, {})
    whole, where = "config" in parameters, f"; `logit-correction {command} --help` shows what there is"
    parts = [part for part in PARTS if whole or part in parameters]
    own, values, given = _split(words, parameters, bool(parts))
    ways: dict[str, Any] = {"exit_on_error": False, "allow_abbrev": False, "print_config": None}
    parser = ArgumentParser(prog=f"logit-correction {command}", **ways)
    _add_own(parser, function, parameters)
    known = [*parts, *((*TrainingConfig.__dataclass_fields__, "config", "preset", *VIEWS) if whole else ())]
    known = [one for one in known if one not in fixed]
    for option in given:
        options.check_known(option, [*known, *options.known_options(parser)], where)
    if "help" in values or "-h" in own:
        elsewhere = {*parameters} - {"config", *parts}
        _add_run(parser, _file(given) | given, [one for one in known if one not in elsewhere], whole)
        parser.parse_args(["--help"])
    with options.explained(parser, values, where):
        found = parser.parse_args(own).as_dict()
    if not parts:
        return found
    names = [part for part in PARTS if isinstance(one := given.get(part, {}), str) or "name" in one]
    goes_on = found.get("resume") and found["out"] is not None and not (names or {"config", "preset"} & set(given))
    before = read_yaml(found["out"] / "config.yaml") if goes_on else _file(given)
    chosen = merge(before, {name: value for name, value in given.items() if name != "config"})
    if not whole:
        return found | {part: options.checked(part, as_part(part, spelled_out(chosen).get(part))) for part in parts}
    if not chosen and parameters["config"].default is None:
        return found
    return found | {"config": options.complete({**{k: v for k, v in chosen.items() if k not in fixed}, **fixed})}


def _split(
    words: Sequence[str], parameters: Mapping[str, Parameter], of_run: bool
) -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """Return the words of the command's own options, their values, and options of a run as a file has them.

    >>> _split(["--method.q=1", "--method", "LC"], {}, True)
    ([], {}, {'method': {'q': '1', 'name': 'LC'}})
    """
    own: list[str] = []
    values: dict[str, str] = {}
    given: dict[str, Any] = {}
    left = list(words)
    while left:
        head, equals, value = left.pop(0).partition("=")
        if not head.startswith("--"):
            own.append(head + equals + value)
            continue
        name = head[2:].replace("-", "_")
        parameter = None if name in ("config", *PARTS) else parameters.get(name)
        flag = name == "help" or (parameter is not None and parameter.default is False)
        if not equals and left and (left[0] in ("true", "false") if flag else not left[0].startswith("--")):
            value = left.pop(0)
        value = value or ("true" if flag else "")
        if parameter is not None or not of_run or name == "help":
            several = parameter is not None and str(parameter.annotation).startswith("list")
            own += [f"--{name}{'+' * several}", *([value] if value else [])]
            values[name] = value
        elif not value:
            raise InputError(f"--{name} needs a value")
        elif name in REPEATED:
            given[name] = [*given.get(name, []), *listed(value)]
        else:
            _put(given, name.split("."), None if value == "null" else value)
    return own, values, given


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


def _file(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the file that a command line names."""
    return read_yaml(Path(given["config"])) if "config" in given else {}


def _add_own(parser: ArgumentParser, function: Callable[..., int], parameters: Mapping[str, Parameter]) -> None:
    """Give the parser the parameters of a command's function, with its docstring as the help."""
    told = parse_docstring(function.__doc__ or "")
    parser.description = " ".join(part for part in (told.short_description, told.long_description) if part)
    text = {one.arg_name: one.description for one in told.params}
    skipped = {"config", *PARTS}
    for name, parameter in parameters.items():
        if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD and name not in skipped:
            skipped.add(name)
            more: dict[str, Any] = {"nargs": "+"} if str(parameter.annotation).startswith("list") else {}
            if parameter.default is not Parameter.empty:
                more = {"nargs": "?", "default": parameter.default}
            of_type = Path if "Path" in str(parameter.annotation) else str
            parser.add_argument(name, type=of_type, metavar=name.upper(), help=text.get(name), **more)
    skip: set[str | int] = {name for name in skipped if name in parameters}
    parser.add_function_arguments(function, None, as_group=False, skip=skip)


def _add_run(parser: ArgumentParser, given: Mapping[str, Any], known: Sequence[str], whole: bool) -> None:
    """Give the parser whose help is wanted the options of a run: those of parts that are named, of others the name."""
    given = spelled_out({name: value for name, value in given.items() if name in known and name != "config"})
    choices: dict[str, options.Choice] = {}
    full = given | {part: options.choose(part, part, given[part], choices) for part in PARTS if part in given}
    for name in known:
        if name in HELP and name not in choices:
            parser.add_argument(f"--{name}", metavar="VIEW" if name in VIEWS else "NAME", help=HELP[name])
    options.add_options(parser, choices, whole)
    base = options.parsed(options.parser_of(tuple(choices.items()), whole), full)
    parser.set_defaults(vars(base.as_flat()))
