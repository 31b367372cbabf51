"""``logit-correction train``: the constructor's signature is the command line."""

from __future__ import annotations

import shlex
import sys
from argparse import SUPPRESS, ArgumentError
from itertools import zip_longest
from pathlib import Path
from typing import Any

from logit_correction.config import (
    PARTS,
    Choice,
    RunConfig,
    TrainingConfig,
    default_network,
    named_parts,
    read_yaml,
)
from logit_correction.errors import InputError, did_you_mean, option_message

USAGE = """logit-correction train --data NAME [--data.x ...] --method NAME [--method.x ...]
           [--network NAME [--network.x ...]] [--encoder NAME [--encoder.x ...]]
           [--epochs N] [--seed S] [--config FILE] [--resume] --out DIR

Name a data source, a method or a network beside --help to see its options:
  logit-correction train --data ColoredMNIST --method LC --help"""

#: The help of a part that is not named.
HELP = {
    "data": "Name or dotted path of a data source.",
    "method": "Name or dotted path of a method.",
    "network": "Name or dotted path of a network.",
    "biased_network": "Network of the biased network, where the method has one; by default like --network.",
    "encoder": "Frozen network whose features take the place of the inputs: computed once and kept.",
}


def main(arguments: list[str]) -> int:
    """Train, judge and write a run folder."""
    arguments = _long_names(arguments)
    config, out, resume = parse(arguments)
    from logit_correction.cli.show import announce, show_run
    from logit_correction.training.display import choose_display
    from logit_correction.training.interrupt import Interrupted

    try:
        from logit_correction.runs import train

        folder = train(config, out, resume=resume, display=choose_display(), announce=announce)
    except Interrupted:
        print(
            f"stopped; go on with: logit-correction train --resume --out {shlex.quote(str(out))}",
            file=sys.stderr,
        )
        return 130
    if _is_first_process():
        show_run(folder)
    return 0


def parse(arguments: list[str]) -> tuple[RunConfig, Path, bool]:
    """Read the command line; exits after ``--help``.

    Raises:
        InputError: If an option is unknown, misses or has a wrong value.
    """
    given = _given(arguments)
    wants_help = "-h" in arguments or "--help" in arguments
    path = _config_path(given, resume="--resume" in arguments and not wants_help)
    base = {} if path is None else _read_config(path)
    names: dict[str, str | None] = {part: given.get(part, base.get(part, {}).get("name")) for part in PARTS}
    if not wants_help:
        for part in ("data", "method"):
            if names[part] is None:
                raise InputError(f"--{part} is missing: give a name; `logit-correction list` shows them")
        names["network"] = names["network"] or default_network(names["encoder"] is not None)
    parser = _parser(names, base)
    if wants_help:
        parser.print_help()
        raise SystemExit(0)
    parsed = _parsed(parser, arguments)
    choices: dict[str, Any] = {}
    for part in PARTS:
        if names[part] is not None:
            options = dict(parsed[part])
            choices[part] = Choice(options.pop("name"), options)
    training = TrainingConfig(**{name: parsed[name] for name in TrainingConfig.__dataclass_fields__})
    return RunConfig(**choices, training=training), Path(parsed["out"]), bool(parsed["resume"])


def _parsed(parser: Any, arguments: list[str]) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = parser.parse_args(arguments).as_dict()
    except (ArgumentError, ValueError) as error:
        message = option_message(error)
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown == message:
            raise InputError(message) from error
        name = unknown.split()[0].split("=")[0]
        hint = did_you_mean(name, parser._option_string_actions)
        where = "logit-correction train --data NAME --method NAME --help"
        raise InputError(f"there is no option {name}{hint}: `{where}` lists them") from error
    if not parsed["out"]:
        raise InputError("--out is missing: give the folder to write the run into")
    return parsed


def _parser(names: dict[str, str | None], base: dict[str, Any]) -> Any:
    """Build a parser with the options of the classes that were named."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(
        prog="logit-correction train", usage=USAGE, exit_on_error=False, add_help=False, allow_abbrev=False
    )
    parser.add_argument("--help", "-h", action="store_true", default=SUPPRESS, help="Show this help.")
    parser.add_argument("--out", type=str, default=None, help="Folder to write the run into.")
    parser.add_argument("--resume", action="store_true", default=False, help="Go on with an unfinished run of --out.")
    parser.add_argument("--config", type=str, default=None, help="YAML file of options; those given beside it win.")
    for part in PARTS:
        if names[part] is None:
            parser.add_argument(f"--{part}", metavar="NAME", help=HELP[part], default=SUPPRESS)
    parser.add_class_arguments(TrainingConfig, None)
    defaults: dict[str, Any] = {k: v for k, v in base.items() if k not in PARTS}
    for part in PARTS:
        if names[part] is None:
            continue
        from logit_correction.runs.assemble import GIVEN, find_class
        from logit_correction.runs.options import add_options

        add_options(parser, find_class(part, str(names[part])), part, GIVEN[part])
        parser.add_argument(f"--{part}.name", type=str, default=names[part], help=f"The {part}; short: --{part} NAME.")
        same = base.get(part, {}).get("name") == names[part]
        defaults |= {f"{part}.{k}": v for k, v in base.get(part, {}).items() if same and k != "name"}
    for action in parser._actions:
        if action.option_strings and action.option_strings[0] in [f"--{part}" for part in PARTS if names[part]]:
            action.help = SUPPRESS  # jsonargparse offers a config file of its own there
    for name, value in defaults.items():
        if name not in _options(parser):
            raise InputError(f"the config has an unknown option {name!r}{did_you_mean(name, _options(parser))}")
        parser.set_defaults({name: value})
    return parser


def _options(parser: Any) -> list[str]:
    return [action.dest for action in parser._actions]


def _config_path(given: dict[str, str], resume: bool) -> Path | None:
    """Return the file whose options are the defaults: that of --config, or of the run that is to go on.

    Raises:
        InputError: If the run that is to go on is missing.
    """
    if "config" in given:
        return Path(given["config"])
    if not resume or any(part in given for part in PARTS):
        return None
    if "out" not in given:
        raise InputError("--out is missing: give the folder of the unfinished run that is to go on")
    path = Path(given["out"]) / "config.yaml"
    if not path.is_file():
        raise InputError(f"--resume: {given['out']} holds no run: give the folder of an unfinished run")
    return path


def _read_config(path: Path) -> dict[str, Any]:
    """Read a YAML file of options.

    Raises:
        InputError: Names the file and what is wrong with it.
    """
    try:
        return named_parts(read_yaml(path))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _long_names(arguments: list[str]) -> list[str]:
    """Turn ``--data NAME`` into ``--data.name NAME``, and ``--data_root`` into ``--data.root``."""
    short = {f"--{part}": f"--{part}.name" for part in PARTS} | {"--data_root": "--data.root"}
    result = []
    for argument in arguments:
        head, equals, tail = argument.partition("=")
        result.append(short.get(head, head) + equals + tail)
    return result


def _given(arguments: list[str]) -> dict[str, str]:
    """Return the names, the config and the folder that the command line gives."""
    wanted = {f"--{part}.name": part for part in PARTS} | {"--config": "config", "--out": "out"}
    found: dict[str, str] = {}
    for argument, following in zip_longest(arguments, arguments[1:]):
        head, equals, tail = argument.partition("=")
        if head not in wanted:
            continue
        value = tail if equals else following or ""
        if not value or (not equals and value.startswith("--")):
            raise InputError(f"{head.removesuffix('.name')} needs a value")
        found[wanted[head]] = value
    return found


def _is_first_process() -> bool:
    import os

    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0
