"""The command line of ``train``: the constructors' signatures are its options."""

from __future__ import annotations

from argparse import SUPPRESS
from pathlib import Path
from typing import Any, NamedTuple

from logit_correction.cli.words import HABITS, read_words
from logit_correction.config import PARTS, ComponentConfig, RunConfig, TrainingConfig
from logit_correction.data import source_of_place
from logit_correction.errors import InputError, check_range, did_you_mean, no_effect
from logit_correction.files import read_yaml
from logit_correction.presets import merge, with_preset

USAGE = """logit-correction train --data NAME [--data.x ...] --method NAME [--method.x ...]
           [--network NAME [--network.x ...]] [--encoder NAME [--encoder.x ...]]
           [--preset NAME] [--epochs N] [--seed S] [--config FILE] [--resume] --out DIR

Name a data source, a method or a network beside --help to see its options:
  logit-correction train --data ColoredMNIST --method LC --help"""

#: Where an unknown option is looked up.
WHERE = ": `logit-correction train --data NAME --method NAME --help` lists them"

#: Options without a value, options that name views, and all that the command has beside those of a run.
FLAGS = ("help", "resume", "print_config")
VIEWS = ("shortcut", "legitimate")
OWN = (*FLAGS, *VIEWS, "out", "config", "preset", "seeds")

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
        config: What to run, complete.
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
    arguments = ["--help" if argument == "-h" else argument for argument in arguments]
    words = read_words(arguments, FLAGS, (*VIEWS, "logger"), WHERE)
    if "data" in words:
        words["data"] = source_of_place(words["data"])
    _refuse_unknown(words)
    own = {name: words.pop(name) for name in OWN if name in words}
    path = _config_path(own, words)
    flat = merge({} if path is None else read_yaml(path), words)
    flat = with_preset(flat | {name: own[name] for name in ("preset",) if name in own})
    own = {name: flat.pop(name) for name in ("out", "resume", "seeds") if name in flat} | own
    if "help" in own:
        _parser(flat).print_help()
        raise SystemExit(0)
    _check_named(flat)
    from logit_correction.runs.parts import complete, with_known  # heavy, and --help needs nothing of it

    known = {name: own[name] for name in VIEWS if name in own}
    config = complete(with_known(RunConfig.from_dict(flat), known))
    try:
        seeds = int(str(own.get("seeds", 1)))
    except ValueError as error:
        raise InputError(f"--seeds is {own['seeds']!r}, but must be a whole number") from error
    check_range("--seeds", seeds, 1, 10_000)
    if not own.get("out") and "print_config" not in own:
        raise InputError("--out is missing: give the folder to write the run into")
    return Order(config, Path(own.get("out") or "."), bool(own.get("resume")), seeds, "print_config" in own)


def _refuse_unknown(words: dict[str, Any]) -> None:
    """Refuse an option that is none of a run's, of the loop's or of the command's; those of parts are checked later."""
    known = [*OWN, *PARTS, *TrainingConfig.__dataclass_fields__]
    for name in words:
        if name.removesuffix("+") not in known:
            hint = f" (did you mean --{HABITS[name]}?)" if name in HABITS else did_you_mean(name, known, "--")
            raise InputError(f"there is no option --{name}{hint}{WHERE}")


def _is_named(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and "name" in part)


def _check_named(flat: dict[str, Any]) -> None:
    """Refuse options of a part that nobody named, and a run without data or method."""
    for part in PARTS:
        given = flat.get(part)
        if isinstance(given, dict) and not _is_named(given):
            raise InputError(no_effect(part, given))
    for part in ("data", "method"):
        if flat.get(part) is None:
            raise InputError(f"--{part} is missing: give a name; `logit-correction list` shows them")


def _parser(flat: dict[str, Any]) -> Any:
    """Build a parser whose help shows the options of the classes that were named; it reads nothing."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(prog="logit-correction train", usage=USAGE, add_help=False)
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
    parser.add_class_arguments(TrainingConfig, None)
    parser.set_defaults({name: flat[name] for name in TrainingConfig.__dataclass_fields__ if name in flat})
    for part in PARTS:
        given = flat.get(part, {})
        given = {"name": given} if isinstance(given, str) else given
        if not _is_named(given):
            parser.add_argument(f"--{part}", metavar="NAME", help=HELP[part], default=SUPPRESS)
            continue
        from logit_correction.runs.parts import add_part  # heavy, and a plain --help names nothing

        options = {name: value for name, value in given.items() if name != "name"}
        add_part(parser, part, ComponentConfig(given["name"], options), HELP[part])
    return parser


def _config_path(own: dict[str, Any], words: dict[str, Any]) -> Path | None:
    """Return the file whose options are the defaults: that of --config, or of the run that is to go on.

    Raises:
        InputError: If the run that is to go on is missing.
    """
    if "config" in own:
        return Path(own["config"])
    if "resume" not in own or "help" in own or "preset" in own or any(_is_named(words.get(part)) for part in PARTS):
        return None
    if "out" not in own:
        raise InputError("--out is missing: give the folder of the unfinished run that is to go on")
    path = Path(own["out"]) / "config.yaml"
    if not path.is_file():
        raise InputError(f"--resume: {own['out']} holds no run: give the folder of an unfinished run")
    return path
