"""``logit-correction train``: the constructor's signature is the command line."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentError
from pathlib import Path
from typing import Any

import yaml

from logit_correction.config import Choice, RunConfig, TrainingConfig

PARTS = ("data", "method", "network", "biased_network")

USAGE = """logit-correction train --data NAME [--data.x ...] --method NAME [--method.x ...]
           [--network NAME [--network.x ...]] [--epochs N] [--seed S] [--config FILE] [--resume] --out DIR

Name a data source, a method or a network beside --help to see its options:
  logit-correction train --data ColoredMNIST --method LC --help"""


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
        print(f"stopped; go on with: logit-correction train --resume --out {out}", file=sys.stderr)
        return 130
    if _is_first_process():
        show_run(folder)
    return 0


def parse(arguments: list[str]) -> tuple[RunConfig, Path, bool]:
    """Read the command line; exits after ``--help``.

    Raises:
        InputError: If an option is unknown, misses or has a wrong value.
    """
    from logit_correction.errors import InputError

    given = _given(arguments)
    base = _read_config(Path(given["config"])) if "config" in given else {}
    names = {part: given.get(part, base.get(part, {}).get("name")) for part in PARTS}
    wants_help = "-h" in arguments or "--help" in arguments
    resumed = _resumed(arguments, given, names)
    if resumed is not None:
        return resumed
    if not wants_help:
        for part in ("data", "method"):
            if names[part] is None:
                raise InputError(f"--{part} is missing: give a name; `logit-correction list` shows them")
        names["network"] = names["network"] or "MLP"
    parser = _parser(names, base)
    if wants_help:
        parser.print_help()
        raise SystemExit(0)
    try:
        parsed = parser.parse_args(arguments).as_dict()
    except (ArgumentError, ValueError) as error:
        raise InputError(" ".join(str(error).split())) from error
    if parsed["out"] is None:
        raise InputError("--out is missing: give the folder to write the run into")
    choices: dict[str, Any] = {}
    for part in PARTS:
        if names[part] is not None:
            options = dict(parsed[part])
            choices[part] = Choice(options.pop("name"), options)
    training = TrainingConfig(**{name: parsed[name] for name in TrainingConfig.__dataclass_fields__})
    return RunConfig(**choices, training=training), Path(parsed["out"]), bool(parsed["resume"])


def _parser(names: dict[str, str | None], base: dict[str, Any]) -> Any:
    """Build a parser with the options of the classes that were named."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(prog="logit-correction train", usage=USAGE, exit_on_error=False, add_help=False)
    parser.add_argument("--help", "-h", action="store_true", default=SUPPRESS, help="Show this help.")
    parser.add_argument("--out", type=str, default=None, help="Folder to write the run into.")
    parser.add_argument("--resume", action="store_true", default=False, help="Go on with an unfinished run of --out.")
    parser.add_argument("--config", type=str, default=None, help="YAML file of options; those given beside it win.")
    for part in PARTS:
        if names[part] is None:
            parser.add_argument(f"--{part}", metavar="NAME", help=f"Name or dotted path of a {part}.", default=SUPPRESS)
    parser.add_class_arguments(TrainingConfig, None)
    defaults: dict[str, Any] = {k: v for k, v in base.items() if k not in PARTS}
    for part in PARTS:
        if names[part] is None:
            continue
        from logit_correction.runs.assemble import GIVEN, find_class

        cls = find_class(part, str(names[part]))
        parser.add_class_arguments(cls, part, skip=GIVEN[part], fail_untyped=False)
        parser.add_argument(f"--{part}.name", type=str, default=names[part], help=f"The {part}; short: --{part} NAME.")
        same = base.get(part, {}).get("name") == names[part]
        defaults |= {f"{part}.{k}": v for k, v in base.get(part, {}).items() if same and k != "name"}
    for action in parser._actions:
        if action.option_strings and action.option_strings[0] in [f"--{part}" for part in PARTS if names[part]]:
            action.help = SUPPRESS  # jsonargparse offers a config file of its own there
    _set_defaults(parser, defaults)
    return parser


def _set_defaults(parser: Any, defaults: dict[str, Any]) -> None:
    from logit_correction.errors import InputError

    for name, value in defaults.items():
        try:
            parser.set_defaults({name: value})
        except KeyError as error:
            raise InputError(f"--config: there is no option {name!r}") from error


def _resumed(
    arguments: list[str], given: dict[str, str], names: dict[str, str | None]
) -> tuple[RunConfig, Path, bool] | None:
    """Return the stored config where ``--resume --out DIR`` alone was given."""
    others = [a for a in arguments if a.startswith("--") and a.split("=")[0] not in ("--resume", "--out")]
    if "--resume" not in arguments or "out" not in given or others or any(names.values()):
        return None
    from logit_correction.errors import InputError

    path = Path(given["out"]) / "config.yaml"
    if not path.is_file():
        raise InputError(f"--resume: {given['out']} holds no run: give the folder of an unfinished run")
    return RunConfig.read(path), Path(given["out"]), True


def _read_config(path: Path) -> dict[str, Any]:
    """Read a YAML file; ``method: LC`` is short for ``method: {name: LC}``.

    Raises:
        InputError: If the file is missing or is no mapping.
    """
    from logit_correction.errors import InputError

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"--config {path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InputError(f"--config {path} must hold options such as `method: LC`, one a line")
    for part in PARTS:
        if isinstance(content.get(part), str):
            content[part] = {"name": content[part]}
        if part in content and not (isinstance(content[part], dict) and "name" in content[part]):
            raise InputError(f"--config {path}: {part} must be a name, or a mapping with a name")
    return content


def _long_names(arguments: list[str]) -> list[str]:
    """Turn ``--data NAME`` into ``--data.name NAME``."""
    short = {f"--{part}": f"--{part}.name" for part in PARTS}
    result = []
    for argument in arguments:
        head, equals, tail = argument.partition("=")
        result.append(short.get(head, head) + equals + tail)
    return result


def _given(arguments: list[str]) -> dict[str, str]:
    """Return the names, the config and the folder that the command line gives."""
    wanted = {f"--{part}.name": part for part in PARTS} | {"--config": "config", "--out": "out"}
    found: dict[str, str] = {}
    for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
        head, equals, tail = argument.partition("=")
        if head in wanted and (equals or following is not None):
            found[wanted[head]] = tail if equals else str(following)
    return found


def _is_first_process() -> bool:
    import os

    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0
