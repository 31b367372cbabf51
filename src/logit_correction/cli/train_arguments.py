"""The command line of ``train``: the constructors' signatures are its options."""

from __future__ import annotations

from argparse import SUPPRESS
from pathlib import Path
from typing import Any, NamedTuple

from logit_correction.cli.arguments import parsed_options
from logit_correction.cli.slots import Slot, find_slots, own_options, refuse_options_of_nothing
from logit_correction.cli.words import long_names, spelled, taken_out, values_of
from logit_correction.config import (
    PARTS,
    ComponentConfig,
    RunConfig,
    TrainingConfig,
    named_parts,
    read_yaml,
    with_preset,
)
from logit_correction.errors import InputError, check_range, did_you_mean

USAGE = """logit-correction train --data NAME [--data.x ...] --method NAME [--method.x ...]
           [--network NAME [--network.x ...]] [--encoder NAME [--encoder.x ...]]
           [--preset NAME] [--epochs N] [--seed S] [--config FILE] [--resume] --out DIR

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


class Order(NamedTuple):
    """What the command line asks for.

    Attributes:
        config: What to run.
        out: Folder to write.
        resume: Whether to go on with an unfinished run.
        seeds: How many seeds.
        print_config: Whether to print the complete config instead of running it.
    """

    config: RunConfig
    out: Path
    resume: bool
    seeds: int
    print_config: bool


def parse(arguments: list[str]) -> Order:
    """Read the command line; exits after ``--help``.

    Raises:
        InputError: If an option is unknown, misses or has a wrong value.
    """
    arguments = spelled(arguments)
    print_config = "--print_config" in arguments
    arguments = [argument for argument in arguments if argument != "--print_config"]  # jsonargparse has one of its own
    given = values_of(arguments, {"config": "--config", "out": "--out", "preset": "--preset"})
    wants_help = "-h" in arguments or "--help" in arguments
    path = _config_path(given, arguments, resume="--resume" in arguments and not wants_help)
    base = {} if path is None else _read_config(path)
    if "preset" in given:
        base["preset"] = given["preset"]
    if "preset" in base:  # the command line may not name another method than the preset is for
        with_preset({"preset": base["preset"], **values_of(arguments, {part: f"--{part}" for part in PARTS})})
    base = named_parts(with_preset(base))
    arguments, known = taken_out(arguments, ("--shortcut", "--legitimate"))
    slots = find_slots(arguments, base, wants_help)
    refuse_options_of_nothing(arguments, slots)
    parser = _parser(slots, base)
    if wants_help:
        parser.print_help()
        raise SystemExit(0)
    where = ": `logit-correction train --data NAME --method NAME --help` lists them"
    parsed = parsed_options(parser, long_names(arguments, [slot.path for slot in slots]), where)
    choices: dict[str, ComponentConfig] = {
        slot.path: ComponentConfig(slot.name, own_options(slot, slots, parsed)) for slot in slots
    }
    for slot in slots:
        outer, _, name = slot.path.rpartition(".")
        if outer:
            choices[outer].options[name] = choices[slot.path]
    if known:
        from logit_correction.runs.parts import with_known

        choices["method"] = with_known(choices["method"], known)
    training = TrainingConfig(**{name: parsed[name] for name in TrainingConfig.__dataclass_fields__})
    config = RunConfig(**{part: choices[part] for part in PARTS if part in choices}, training=training)
    check_range("--seeds", parsed["seeds"], 1, 10_000)
    if not parsed["out"] and not print_config:
        raise InputError("--out is missing: give the folder to write the run into")
    return Order(config, Path(parsed["out"] or "."), parsed["resume"], parsed["seeds"], print_config)


def _parser(slots: list[Slot], base: dict[str, Any]) -> Any:
    """Build a parser with the options of the classes that were named."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(
        prog="logit-correction train", usage=USAGE, exit_on_error=False, add_help=False, allow_abbrev=False
    )
    parser.add_argument("--help", "-h", action="store_true", default=SUPPRESS, help="Show this help.")
    parser.add_argument("--out", type=str, default=None, help="Folder to write the run into.")
    parser.add_argument("--resume", action="store_true", default=False, help="Go on with an unfinished run of --out.")
    shown = "Print all options of the run as the YAML that --config takes, and run nothing."
    parser.add_argument("--print_config", action="store_true", default=SUPPRESS, help=shown)
    parser.add_argument("--config", type=str, default=None, help="YAML file of options; those given beside it win.")
    parser.add_argument("--seeds", type=int, default=1, help="Runs of so many seeds, each in OUT/seed-S.")
    known = "A view that is known to be {} (`list views`), for methods that look for one; may be repeated."
    parser.add_argument("--shortcut", metavar="VIEW", default=SUPPRESS, help=known.format("a shortcut"))
    parser.add_argument("--legitimate", metavar="VIEW", default=SUPPRESS, help=known.format("no shortcut"))
    parser.add_argument("--preset", type=str, default=None, help="Named options, under all others: `list presets`.")
    named = [slot.path for slot in slots]
    for part in PARTS:
        if part not in named:
            parser.add_argument(f"--{part}", metavar="NAME", help=HELP[part], default=SUPPRESS)
    parser.add_class_arguments(TrainingConfig, None)
    defaults: dict[str, Any] = {k: v for k, v in base.items() if k not in PARTS}
    for slot in slots:
        from logit_correction.runs.options import add_options
        from logit_correction.runs.parts import GIVEN, components_of, find_class

        cls = find_class(slot.kind, slot.name)
        kinds = components_of(cls)
        add_options(parser, cls, slot.path, GIVEN[slot.kind] | set(kinds))
        what = HELP.get(slot.path, f"The {slot.path}.").rstrip(".")
        parser.add_argument(
            f"--{slot.path}.name", type=str, default=slot.name, help=f"{what}; short: --{slot.path} NAME."
        )
        for argument in kinds:
            if f"{slot.path}.{argument}" not in named:  # nothing by default; `null` may be said of it
                parser.add_argument(f"--{slot.path}.{argument}", metavar="NAME", default=None)
        defaults |= {f"{slot.path}.{k}": v for k, v in slot.options.items() if k not in kinds}
    for action in parser._actions:
        if action.option_strings and action.option_strings[0].removeprefix("--") in named:
            action.help = SUPPRESS  # jsonargparse offers a config file of its own there
    for name, value in defaults.items():
        if name not in _options(parser):
            raise InputError(f"the config has an unknown option {name!r}{did_you_mean(name, _options(parser))}")
        parser.set_defaults({name: value})
    return parser


def _options(parser: Any) -> list[str]:
    return [action.dest for action in parser._actions]


def _config_path(given: dict[str, str], arguments: list[str], resume: bool) -> Path | None:
    """Return the file whose options are the defaults: that of --config, or of the run that is to go on.

    Raises:
        InputError: If the run that is to go on is missing.
    """
    if "config" in given:
        return Path(given["config"])
    if not resume or "preset" in given or values_of(arguments, {part: f"--{part}" for part in PARTS}):
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
        return read_yaml(path)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
