"""The command line of a command: its function's signature, and the options of the parts of a run that are chosen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from docstring_parser import parse as parse_docstring
from jsonargparse import ArgumentParser, Namespace

from logit_correction.config import PARTS, VIEWS, TrainingConfig, as_part, merge, spelled_out
from logit_correction.errors import InputError
from logit_correction.files import read_yaml
from logit_correction.runs import options
from logit_correction.runs.options import Choice

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

#: Short names of options; one that ends in + may be given several times.
SHORT = {view: f"method.attributes.{view}+" for view in VIEWS} | {"logger": "logger+", "data_root": "data.root"}


def arguments_of(
    command: str, function: Callable[..., int], words: Sequence[str], fixed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments that a command line gives to the function of a command; exits after ``--help``.

    Parameters without a name on the command line are positional ones; keyword-only ones are options, and one whose
    default is False is a flag. ``config`` stands for all options of a run, and ``data`` for those of a data source.

    Args:
        command: Its name.
        function: The function; its docstring is the help.
        words: The command line behind the name.
        fixed: Options of a run that the command chooses itself.

    Raises:
        InputError: An option is unknown, missing, or has a wrong value.
    """
    parameters, fixed = signature(function).parameters, fixed or {}
    whole = "config" in parameters
    parts = [part for part in PARTS if (whole or part in parameters) and part not in fixed]
    words = list(_spelled(words, parameters, bool(parts)))
    seen = _seen(words)
    for option in seen:
        if option.partition(".")[0] in fixed and option not in parameters:
            raise InputError(f"{command} takes no --{option}: leave it out")
    choices: dict[str, Choice] = {}
    given: dict[str, Any] = {}
    if parts:
        given = merge(_file(seen, parameters), _of_words(seen))
        given = spelled_out({name: value for name, value in given.items() if name not in fixed})
        given |= {part: options.choose(part, part, given.get(part), seen, choices) for part in parts if part in given}
    parser = ArgumentParser(
        prog=f"logit-correction {command}", exit_on_error=False, allow_abbrev=False, print_config=None
    )
    _add_own(parser, function, parameters)
    if parts:
        _add_run(parser, choices, parts, whole)
    base = options.parsed(options.parser_of(tuple(choices.items()), whole), given) if given else Namespace()
    known = options.known_options(parser)
    where = f"; `logit-correction {command} --help` shows what there is"
    for option in seen:
        options.check_known(option, [*known, *choices], where)
    words = [_named(word, known) for word in words]
    if "help" in seen or "-h" in words:
        parser.set_defaults(vars(base.as_flat()))
        words = ["--help"]
    with options.explained(parser, seen, where):
        found = parser.parse_args(words, namespace=base).as_dict()
    arguments = {name: found[name] for name in parameters if name not in ("config", *PARTS)}
    chosen = {name: found[name] for name in (*PARTS, *TrainingConfig.__dataclass_fields__) if name in found}
    chosen = {name: value for name, value in chosen.items() if name in choices or name not in PARTS}
    if not whole:
        return {part: options.checked(part, as_part(part, chosen.get(part))) for part in parts} | arguments
    nothing = parameters["config"].default is None and not set(seen) - set(parameters)
    return {"config": None if nothing else options.complete({**chosen, **fixed}), **arguments}


def _spelled(words: Sequence[str], parameters: Mapping[str, Parameter], of_run: bool) -> Iterator[str]:
    """Yield words as the parser takes them: underscores for hyphens, short names in full, a value for each flag."""
    for word, after in zip(words, [*words[1:], ""], strict=False):
        if not word.startswith("--"):
            yield word
            continue
        head, equals, value = word.partition("=")
        name = head[2:].replace("-", "_")
        parameter = parameters.get(name)
        if parameter is not None and str(parameter.annotation).startswith("list"):
            name += "+"
        elif parameter is None and of_run:
            name = SHORT.get(name, name)
        yield f"--{name}{equals}{value}"
        if parameter is not None and parameter.default is False and not equals and after not in ("true", "false"):
            yield "true"


def _seen(words: Sequence[str]) -> dict[str, str]:
    """Return each option with what follows it, since names of parts are needed before the parser can be made.

    >>> _seen(["--method", "LC", "--epochs=3"])
    {'method': 'LC', 'epochs': '3'}
    """
    seen = {}
    for word, after in zip(words, [*words[1:], ""], strict=False):
        if word.startswith("--"):
            head, equals, value = word[2:].partition("=")
            seen[head] = value if equals else after
    return seen


def _file(seen: Mapping[str, str], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the options of the file that a command line names, or of the run that is to go on."""
    if "config" in seen:
        return read_yaml(Path(seen["config"]))
    names = {"config", "preset", "help", *PARTS}
    if "resume" not in seen or any(option.removesuffix(".name") in names for option in seen):
        return {}
    if "out" not in seen:
        raise InputError("--out is missing: give the folder of the unfinished run that is to go on")
    path = Path(seen["out"]) / "config.yaml"
    if not path.is_file():
        raise InputError(f"--resume: {seen['out']} holds no run: give the folder of an unfinished run")
    return read_yaml(path)


def _of_words(seen: Mapping[str, str]) -> dict[str, Any]:
    """Return the preset and the names of parts that a command line gives."""
    names = {part: {"name": name} for part in PARTS if (name := seen.get(part, seen.get(f"{part}.name"))) is not None}
    return names | {name: seen[name] for name in ("preset",) if name in seen}


def _named(word: str, known: Collection[str]) -> str:
    """Return a word with ``--method`` in full: ``--method.name``."""
    head, equals, value = word.partition("=")
    return f"{head}.name{equals}{value}" if f"{head[2:]}.name" in known and head.startswith("--") else word


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


def _add_run(parser: ArgumentParser, choices: Mapping[str, Choice], parts: Sequence[str], whole: bool) -> None:
    """Give the parser the options of the chosen parts, and the names of those that are not chosen."""
    for part in parts:
        if part not in choices:
            parser.add_argument(f"--{part}", metavar="NAME", help=HELP[part])
    if whole:
        for name in ("config", *(("preset", *VIEWS) if "method" in parts else ())):
            parser.add_argument(f"--{name}", metavar="VIEW" if name in VIEWS else "NAME", help=HELP[name])
    options.add_options(parser, choices, whole)
