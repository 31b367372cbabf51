"""``logit-correction train``: the constructor's signature is the command line."""

from __future__ import annotations

import shlex
import sys
from argparse import SUPPRESS, ArgumentError
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from logit_correction.config import (
    PARTS,
    Choice,
    RunConfig,
    TrainingConfig,
    named_parts,
    read_yaml,
    with_preset,
)
from logit_correction.errors import InputError, did_you_mean, option_message

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


def main(arguments: list[str]) -> int:
    """Train, judge and write a run folder."""
    config, out, resume, seeds = parse(arguments)
    from logit_correction.cli.show import announce, show_run
    from logit_correction.training.display import choose_display
    from logit_correction.training.interrupt import Interrupted

    try:
        from logit_correction.runs import train
        from logit_correction.runs.folder import is_finished

        if seeds == 1:
            folders = [train(config, out, resume=resume, display=choose_display(), announce=announce)]
        else:
            folders = []
            for seed in range(config.training.seed, config.training.seed + seeds):
                own = replace(config, training=replace(config.training, seed=seed))
                folder, tell = out / f"seed-{seed}", None if folders else announce
                there = resume or is_finished(folder)
                folders.append(train(own, folder, resume=there, display=choose_display(), announce=tell))
    except Interrupted:
        print(
            f"stopped; go on with: logit-correction train {_again(arguments, out, seeds)}",
            file=sys.stderr,
        )
        return 130
    if _is_first_process():
        show_run(folders[0]) if seeds == 1 else _show_seeds(folders, out)
    return 0


@dataclass(frozen=True)
class Slot:
    """A part of a run, or a component inside one, that was named: what the command line offers options of.

    Attributes:
        path: What its options begin with, such as ``method.attributes``.
        kind: Its kind, a key of ``runs.assemble.KINDS``.
        name: The name of its class, or a dotted path.
        options: What the config file or the preset says of it; empty where that names another class.
    """

    path: str
    kind: str
    name: str
    options: dict[str, Any]


def _show_seeds(folders: list[Path], out: Path) -> None:
    """Print the figures of all seeds with their mean and spread, and write one page of them."""
    from rich.console import Console

    from logit_correction.cli.show import show_evidence
    from logit_correction.render.html import write_page
    from logit_correction.render.tables import comparison_table, to_console
    from logit_correction.runs.folder import PAGE, read_report

    reports = [read_report(folder) for folder in folders]
    table, console = comparison_table(reports), Console()
    console.print(to_console(table))
    for report in reports:
        show_evidence(report, console, f"seed {report['seed']}: ")
    for name in ("average", "group_balanced", "worst_group"):
        if name in table and bool(table[name].notna().all()):
            mean, spread = 100 * table[name].mean(), 100 * table[name].std()
            what = name.replace("_", "-")
            console.print(f"{what}: {mean:.1f} % in the mean of {len(table)} seeds, standard deviation {spread:.1f}")
    write_page(folders, out / PAGE)
    console.print(f"page: {out / PAGE}", highlight=False, markup=False, soft_wrap=True)


def _again(arguments: list[str], out: Path, seeds: int) -> str:
    """Return the arguments that go on with what was stopped."""
    if seeds == 1:
        return f"--resume --out {shlex.quote(str(out))}"
    return shlex.join([*(argument for argument in arguments if argument != "--resume"), "--resume"])


def parse(arguments: list[str]) -> tuple[RunConfig, Path, bool, int]:
    """Read the command line: the config, the folder, whether to resume, and how many seeds; exits after ``--help``.

    Raises:
        InputError: If an option is unknown, misses or has a wrong value.
    """
    given = _given(arguments, {"config": "--config", "out": "--out", "preset": "--preset"})
    wants_help = "-h" in arguments or "--help" in arguments
    path = _config_path(given, arguments, resume="--resume" in arguments and not wants_help)
    base = {} if path is None else _read_config(path)
    if "preset" in given:
        base["preset"] = given["preset"]
    if "preset" in base:  # the command line may not name another method than the preset is for
        with_preset({"preset": base["preset"], **_given(arguments, {part: f"--{part}" for part in PARTS})})
    base = named_parts(with_preset(base))
    arguments, known = _taken_out(arguments, ("--shortcut", "--legitimate"))
    slots = _slots(arguments, base, wants_help)
    _refuse_options_of_nothing(arguments, slots)
    parser = _parser(slots, base)
    if wants_help:
        parser.print_help()
        raise SystemExit(0)
    parsed = _parsed(parser, _long_names(arguments, [slot.path for slot in slots]))
    choices: dict[str, Choice] = {slot.path: Choice(slot.name, _own_options(slot, slots, parsed)) for slot in slots}
    for slot in slots:
        outer, _, name = slot.path.rpartition(".")
        if outer:
            choices[outer].options[name] = choices[slot.path]
    if known:
        from logit_correction.runs.assemble import with_known

        choices["method"] = with_known(choices["method"], known)
    training = TrainingConfig(**{name: parsed[name] for name in TrainingConfig.__dataclass_fields__})
    config = RunConfig(**{part: choices[part] for part in PARTS if part in choices}, training=training)
    if parsed["seeds"] < 1:
        raise InputError(f"--seeds is {parsed['seeds']}, but must be at least 1")
    return config, Path(parsed["out"]), bool(parsed["resume"]), int(parsed["seeds"])


def _taken_out(arguments: list[str], options: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the arguments without some options that may be repeated, and their values by name.

    Raises:
        InputError: If one has no value.
    """
    rest: list[str] = []
    found: dict[str, list[str]] = {}
    waiting: str | None = None
    for argument in [*arguments, ""]:
        head, equals, tail = argument.partition("=")
        if waiting is not None:
            if not argument or argument.startswith("--"):
                raise InputError(f"{waiting} needs a value: the name of a view")
            found.setdefault(waiting.removeprefix("--"), []).append(argument)
            waiting = None
        elif head in options:
            waiting = None if equals else head
            if equals:
                found.setdefault(head.removeprefix("--"), []).append(tail)
        elif argument:
            rest.append(argument)
    return rest, found


def _slots(arguments: list[str], base: dict[str, Any], wants_help: bool) -> list[Slot]:
    """Return what was named, each part followed by its components.

    Raises:
        InputError: If data or method are missing, or there is no such class.
    """
    slots: list[Slot] = []
    names = _given(arguments, {part: f"--{part}" for part in PARTS})
    for part in PARTS:
        options = dict(base.get(part, {}))
        old = options.pop("name", None)
        name = names.get(part, old)
        if name is None and not wants_help and part in ("data", "method"):
            raise InputError(f"--{part} is missing: give a name; `logit-correction list` shows them")
        if name is not None:
            slots += _with_components(Slot(part, part, name, options if name == old else {}), arguments)
    return slots


def _with_components(slot: Slot, arguments: list[str]) -> list[Slot]:
    """Return a slot and those of its components, as the arguments, the config or the defaults name them."""
    from logit_correction.runs.assemble import as_choice, components_of, default_of, find_class

    cls, slots = find_class(slot.kind, slot.name), [slot]
    for argument, kind in components_of(cls).items():
        path = f"{slot.path}.{argument}"
        given = _given(arguments, {"name": f"--{path}"}).get("name")
        known = as_choice(slot.options.get(argument, default_of(cls, argument)), path)
        if given in (None, "null") and (known is None or given == "null"):
            continue
        name = str(given or (known and known.name))
        options = known.options if known is not None and known.name == name else {}
        slots += _with_components(Slot(path, kind, name, options), arguments)
    return slots


def _empty(slots: list[Slot]) -> list[str]:
    """Return the parts, and the components inside what was named, of which none was named."""
    if not slots:  # nothing heavy for a plain --help
        return list(PARTS)
    from logit_correction.runs.assemble import components_of, find_class

    inside = [f"{slot.path}.{name}" for slot in slots for name in components_of(find_class(slot.kind, slot.name))]
    named = {slot.path for slot in slots}
    return [path for path in (*PARTS, *inside) if path not in named]


def _refuse_options_of_nothing(arguments: list[str], slots: list[Slot]) -> None:
    """Refuse options of a part or a component that nobody named, which would be of no effect.

    Raises:
        InputError: Names the option, and what to name.
    """
    for path in _empty(slots):
        for argument in arguments:
            if argument.startswith(f"--{path}."):
                raise InputError(f"{argument.partition('=')[0]} is of no effect without a name: give --{path} NAME too")


def _own_options(slot: Slot, slots: list[Slot], parsed: dict[str, Any]) -> dict[str, Any]:
    """Return the parsed options of a slot without those of the slots inside it; None for components left empty."""
    level: Any = parsed
    for name in slot.path.split("."):
        level = level[name]
    inside = {other.path.removeprefix(f"{slot.path}.") for other in slots}
    empty = {path.removeprefix(f"{slot.path}.") for path in _empty(slots) if path.startswith(f"{slot.path}.")}
    own = {name: value for name, value in level.items() if name != "name" and name not in inside}
    return {name: None if name in empty else value for name, value in own.items()}


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


def _parser(slots: list[Slot], base: dict[str, Any]) -> Any:
    """Build a parser with the options of the classes that were named."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(
        prog="logit-correction train", usage=USAGE, exit_on_error=False, add_help=False, allow_abbrev=False
    )
    parser.add_argument("--help", "-h", action="store_true", default=SUPPRESS, help="Show this help.")
    parser.add_argument("--out", type=str, default=None, help="Folder to write the run into.")
    parser.add_argument("--resume", action="store_true", default=False, help="Go on with an unfinished run of --out.")
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
        from logit_correction.runs.assemble import GIVEN, components_of, find_class
        from logit_correction.runs.options import add_options

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
    if not resume or "preset" in given or _given(arguments, {part: f"--{part}" for part in PARTS}):
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


def _long_names(arguments: list[str], paths: list[str]) -> list[str]:
    """Turn ``--data NAME`` into ``--data.name NAME``, and ``--data_root`` into ``--data.root``."""
    short = {f"--{path}": f"--{path}.name" for path in paths} | {"--data_root": "--data.root"}
    result = []
    for argument in arguments:
        head, equals, tail = argument.partition("=")
        result.append(short.get(head, head) + equals + tail)
    return result


def _given(arguments: list[str], wanted: dict[str, str]) -> dict[str, str]:
    """Return the values that the command line gives for some options, each under the key that stands for it.

    Raises:
        InputError: If one has no value.
    """
    keys = {option: key for key, option in wanted.items()} | {f"{option}.name": key for key, option in wanted.items()}
    found: dict[str, str] = {}
    for argument, following in zip_longest(arguments, arguments[1:]):
        head, equals, tail = argument.partition("=")
        if head not in keys:
            continue
        value = tail if equals else following or ""
        if not value or (not equals and value.startswith("--")):
            raise InputError(f"{head.removesuffix('.name')} needs a value")
        found[keys[head]] = value
    return found


def _is_first_process() -> bool:
    import os

    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0
