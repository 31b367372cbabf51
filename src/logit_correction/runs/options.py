"""The door of every option: from names and values of a command line, a file or Python to a complete ``RunConfig``.

One parser of jsonargparse is made of the constructors of the chosen parts; it reads, checks and explains their options.
Imports nothing heavy before a part is named, so that a plain ``--help`` answers at once.
"""

from __future__ import annotations

import math
import os
import re
from argparse import Action, ArgumentError
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from inspect import formatannotation, signature
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import yaml
from jsonargparse import ArgumentParser

from logit_correction.data import resolve_source
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import format_option, suggest_name
from logit_correction.registry import ComponentConfig, import_component, parse_names
from logit_correction.training.config import TrainingConfig
from logit_correction.yaml_files import UnquotedWord, read_yaml_file

#: What a run is put together from, each a class with options of its own.
PARTS = ("data", "method", "network", "biased_network", "encoder")

#: Name -> one line. Each is a file of options in ``presets/``, which count where nothing else is given.
PRESETS = {
    "paper": "the training of the paper: two networks side by side, a moving prior, Group MixUp",
    "staged": "cross-fitted biased networks first, then logit correction; what StagedLC is",
}

#: Views that a person knows to be a shortcut, or to be none: options of the estimator, with a short name.
VIEW_OPTIONS = ("shortcut", "legitimate")

#: All options of the estimator with a short name.
ESTIMATOR_OPTIONS = (*VIEW_OPTIONS, "when_unsure")

#: Options of training that hold a list.
LIST_OPTIONS = tuple(one.name for one in fields(TrainingConfig) if str(one.type).startswith("list"))

#: Methods that are another one with the options of a preset.
PRESET_OF_METHOD = {"StagedLC": "staged"}

#: Short names that other programs use, for hints.
SYNONYMS = {"lr": "learning_rate", "wd": "weight_decay", "dataset": "data", "gpus": "devices"}
SYNONYMS |= {"model": "network", "arch": "network", "algorithm": "method", "output": "out", "output_dir": "out"}

#: Most threads, processes or machines of a run; whole numbers go as far as the second, and seeds as the third.
MOST_PROCESSES, MOST, MOST_OF_SEED = 4096, 2**31 - 1, 2**63 - 1

#: The least and the greatest values of options of training.
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("epochs", "batch_size", "log_every", "step_every"), (1, MOST)),
    **dict.fromkeys(("devices", "nodes"), (1, MOST_PROCESSES)),
    **dict.fromkeys(("weight_decay", "gradient_clip"), (0, math.inf)),
    **dict.fromkeys(("learning_rate", "step_factor"), (1e-12, math.inf)),
    "sgd_momentum": (0, 1),
    "threads": (0, MOST_PROCESSES),
}

#: Options that name a file or folder, which become absolute paths: a run's config.yaml works in any folder.
PATH_OPTIONS = ("file", "root", "published", "run")

#: Constructor arguments that the run itself gives and the user does not.
RUN_ARGUMENTS: dict[str, set[str]] = {kind: {"info"} for kind in ("network", "biased_network", "encoder")}
RUN_ARGUMENTS |= {"method": {"network", "info", "biased_network", "member_networks", "is_linear", "seed"}}

#: A part of a run: a name, a name with options, or what `from_arrays` and `from_table` return.
Part: TypeAlias = str | Mapping[str, Any] | ComponentConfig

#: Options of ``train`` and ``audit`` that are those of the data.
DATA_OPTIONS = ("label", "text", "path", "features", "categorical", "split", "split_by", "attribute", "size")

#: A part or component that was chosen: its kind, its name, and its class or the function that makes it.
ResolvedClass: TypeAlias = tuple[str, str, Callable[..., Any]]


@dataclass(frozen=True)
class RunConfig:
    """One run: data, method, networks and training options.

    Attributes:
        data: The data source.
        method: The method.
        network: The network that predicts; an empty name leaves it to the kind and size of the inputs.
        biased_network: The network of methods that have a biased one; by default like ``network``.
        training: Options of the loop.
        encoder: A frozen network whose features take the place of the inputs.

    >>> from logit_correction import ComponentConfig, RunConfig, TrainingConfig
    >>> config = RunConfig(ComponentConfig("Digits"), ComponentConfig("LC"), training=TrainingConfig(epochs=3))
    >>> config.to_dict()["method"], RunConfig.from_dict({"data": "Digits", "method": "LC", "epochs": 3}) == config
    ({'name': 'LC'}, True)
    """

    data: ComponentConfig
    method: ComponentConfig
    network: ComponentConfig = field(default_factory=lambda: ComponentConfig(""))
    biased_network: ComponentConfig | None = None
    training: TrainingConfig = field(default_factory=TrainingConfig)
    encoder: ComponentConfig | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the form of ``config.yaml``: parts as ``{name, options...}``, training options flat."""
        parts = {part: one.to_dict() for part in PARTS if (one := getattr(self, part)) is not None and one.name}
        return parts | vars(self.training)

    @classmethod
    def from_dict(cls, flat: Mapping[str, Any]) -> RunConfig:
        """Read the form that ``to_dict`` gives; what the options of parts are is checked when a run begins."""
        training, parts = dict(flat), dict[str, ComponentConfig]()
        for part in PARTS:
            if part in flat or part in ("data", "method"):
                options = part_to_mapping(part, training.pop(part, None))
                if "name" not in options:
                    raise InputError(f"{format_option(part)} has options, but no name: give {format_option(part)} too")
                parts[part] = ComponentConfig(options.pop("name"), options)
        known = [option.name for option in fields(TrainingConfig)]
        for name in training:
            if name not in known:
                raise InputError(
                    "There is no option "
                    f"{format_option(name)}{suggest_name(str(name), [*PARTS, *known], format_option)}"
                )
        return cls(**parts, training=TrainingConfig(**training))

    def to_yaml(self) -> str:
        """Return the text of ``config.yaml``."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    @classmethod
    def read(cls, path: Path) -> RunConfig:
        """Read a ``config.yaml``; ``InputError`` if it is missing, damaged, or of another version."""
        flat = read_yaml_file(path)
        try:
            return cls.from_dict(flat)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


@cache
def get_component_kinds() -> dict[str, tuple[str, Mapping[str, tuple[str, str]], type]]:
    """Return the parts of a run and the components inside them: what each is called, its names, and its base class."""
    from torch import nn  # these imports are what a plain --help does without

    from logit_correction.attributes import ESTIMATORS
    from logit_correction.attributes.base import AttributeEstimator
    from logit_correction.data import SOURCES
    from logit_correction.data.source import DataSource
    from logit_correction.methods import ADVISED_METHODS, METHODS
    from logit_correction.methods.base import Algorithm
    from logit_correction.methods.parts import MIXING, PRIORS, Mixing, PriorRule
    from logit_correction.networks import NETWORKS

    return {
        "data": ("data source", SOURCES, DataSource),
        "method": ("method", {**METHODS, **ADVISED_METHODS}, Algorithm),
        **dict.fromkeys(("network", "biased_network", "encoder"), ("network", NETWORKS, nn.Module)),
        "attributes": ("attribute estimator", ESTIMATORS, AttributeEstimator),
        "prior": ("prior", PRIORS, PriorRule),
        "mixing": ("mixing", MIXING, Mixing),
    }


def find_class(kind: str, name: str) -> Callable[..., Any]:
    """Return the class that a name or dotted path stands for; a network may be a function. ``InputError`` if none."""
    what, known, base = get_component_kinds()[kind]
    found: Callable[..., Any] = import_component(what, name, known)
    if RUN_ARGUMENTS.get(kind) == {"info"} and callable(found) and not isinstance(found, type):
        return found
    return import_component(what, name, known, base)


def get_inner_components(cls: Callable[..., Any]) -> Mapping[str, str]:
    """Return the constructor arguments of a class that are components with options of their own, with their kinds."""
    return getattr(cls, "components", {})


def build_config(data: Any, **options: Any) -> RunConfig:
    """Return the complete config of data and options, by default with method LC, or of a whole config."""
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(data, RunConfig):
        if given:
            raise InputError(f"{next(iter(given))} is given with a whole RunConfig: write it into the config")
        return complete_config(data)
    own = {name: given.pop(name) for name in DATA_OPTIONS if name in given}
    return complete_config(given | {"data": choose_source(data, **own)})


def choose_source(data: Any, label: Any = None, **options: Any) -> Any:
    """Return the data source of rows with labels, or a source that is named with further options."""
    named = isinstance(data, Mapping) and isinstance(data.get("name"), str)
    if named or isinstance(data, str | Path | ComponentConfig):
        options |= {} if label is None else {"label": label}
        return part_to_mapping("data", data) | options if options else data
    import numpy as np  # which --help does without, and torch

    from logit_correction.data.own import from_rows, from_table

    if label is None:
        raise InputError("label= is missing: name the column of labels, or give one label for each row")
    label = list(label) if isinstance(label, Iterator) else label
    column = np.ndim(label) == 0
    return from_table(data, label=label, **options) if column else from_rows(data, label, **options)


def complete_config(given: RunConfig | Mapping[str, Any]) -> RunConfig:
    """Check every option and fill in the defaults, so that the result says all that a run depends on.

    ``given`` is a config, of which parts that are complete stay as they are, or a mapping of parts, training options,
    ``preset``, ``shortcut``, ``legitimate`` and ``when_unsure``. The method is LC if it is left out.
    """
    if isinstance(given, RunConfig):
        given = {part: one for part in PARTS if (one := getattr(given, part)) and one.name} | vars(given.training)
    options = {"method": {"name": "LC"}} | expand_short_options(given)
    if "data" not in options:
        raise InputError(
            f"{format_option('data')} is missing: give a folder of images, the file of a table, or a name of `list "
            "data`"
        )
    parts: dict[str, Any] = {name: complete_part(name, options.pop(name)) for name in PARTS if name in options}
    training = TrainingConfig(**parse_options(build_parser(()), options))
    processes = training.devices * training.nodes
    if training.compile == "reduce-overhead" and processes > 1:
        raise InputError(
            f"{format_option('compile', 'reduce-overhead')} is for one process: give "
            f"{format_option('compile', 'true')} with several devices"
        )
    if training.batch_size is not None and training.batch_size % processes:
        raise InputError(
            f"{format_option('batch_size')} is {training.batch_size}, but must be divisible by the {processes} "
            "processes"
        )
    return RunConfig(**parts, training=training)


def complete_part(kind: str, given: Any) -> ComponentConfig:
    """Return a part, given as ``part_to_mapping`` takes it, with all options checked and the defaults filled in."""
    if isinstance(given, ComponentConfig) and given.cls is not None:
        return given
    choices: dict[str, ResolvedClass] = {}
    options = {kind: resolve_part(kind, kind, given, choices)}
    return _completed(kind, parse_options(build_parser(tuple(choices.items())), options)[kind], choices)


def part_to_mapping(part: str, given: Any) -> dict[str, Any]:
    """Return a part that is given by its name, its place, its name and options, or as a ``ComponentConfig``."""
    if isinstance(given, ComponentConfig):
        return given.to_dict()
    if isinstance(given, str) or (isinstance(given, PurePath) and part == "data"):
        return {"name": str(given)}
    if isinstance(given, Mapping) and isinstance(given.get("name", ""), str):
        return dict(given)
    hint = "; from_arrays and from_table make it of rows of your own" if part == "data" else ""
    raise InputError(
        f"{format_option(part)} must be a name, or a mapping with a name and options: {{name: NAME, ...}}{hint}"
    )


def load_preset(name: str) -> dict[str, Any]:
    """Return the options of a preset, such as ``{"method": {"name": "LC", ...}}``."""
    if name not in PRESETS:
        hint = suggest_name(str(name), PRESETS)
        raise InputError(f"there is no preset {name!r}{hint}: take one of {', '.join(PRESETS)}")
    file = Path(__file__).parents[1] / "presets" / f"{name}.yaml"
    options: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return options


def expand_short_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with those of their preset under them, parts as mappings, and views in the estimator's.

    Parts that are complete stay as they are.
    """
    short = (*PARTS, "preset", *ESTIMATOR_OPTIONS)
    flat = {name: value for name, value in given.items() if value is not None or name not in short}
    for part in PARTS:
        if part in flat and getattr(flat[part], "cls", None) is None:
            flat[part] = part_to_mapping(part, flat[part])
    lists = {
        name: flat[name] for name in (*VIEW_OPTIONS, *LIST_OPTIONS) if isinstance(flat.get(name), str | list | tuple)
    }
    flat |= {name: parse_names(value) for name, value in lists.items()}
    known = {option: flat.pop(option, None) for option in ESTIMATOR_OPTIONS}
    if (preset := flat.pop("preset", None)) is not None:
        base = load_preset(preset)
        own, chosen = base["method"]["name"], flat.get("method", {}).get("name")
        if chosen is not None and str(chosen).lower() != own.lower():
            raise InputError(f"preset {preset} is for method {own}, not {chosen}: leave one of them out")
        flat = merge_options(base, flat)
    for option, value in known.items():
        if value:
            flat = merge_options(flat, {"method": {"attributes": {option: value}}})
    if isinstance(flat.get("method"), dict):  # options without a name are those of LC
        flat = merge_options({"method": {"name": "LC"}}, flat)
    return flat


def list_option_names(given: Mapping[str, Any]) -> list[str]:
    """Return the full names of options as ``flatten_options`` has them.

    >>> list_option_names({"data": "photos", "method": {"name": "LC", "q": 1}, "shortcut": "colour"})
    ['data.name', 'method.name', 'method.q', 'method.attributes.shortcut']
    """
    names = [name for name, _ in _leaves(given, ())]
    names = [f"method.attributes.{name}" if name in ESTIMATOR_OPTIONS else name for name in names]
    return [f"{name}.name" if name in PARTS else name for name in names]


def merge_options(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``change`` over it, mapping by mapping; a component of another name replaces the old one."""
    merged = dict(base)
    for key, value in change.items():
        old = merged.get(key)
        if isinstance(value, str) and isinstance(old, dict) and "name" in old:
            value = {"name": value}
        if isinstance(value, dict) and isinstance(old, str):
            old = {"name": old}
        if not (isinstance(value, dict) and isinstance(old, dict)):
            merged[key] = value
            continue
        another = "name" in value and "name" in old and str(value["name"]).lower() != str(old["name"]).lower()
        merged[key] = value if another else merge_options(old, value)
    return merged


def as_option(value: Any) -> Any:
    """Return a value in the form that ``config.yaml`` and ``report.json`` hold."""
    if isinstance(value, ComponentConfig):
        return as_option(value.to_dict())
    if isinstance(value, Mapping):
        return {str(key): as_option(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_option(part) for part in value]
    if getattr(value, "ndim", None) == 0:
        return value.item()  # NumPy's numbers are no plain ones
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def resolve_part(kind: str, path: str, given: Any, choices: dict[str, ResolvedClass], default: Any = None) -> Any:
    """Return the options of a part with the names of all components inside, and put their classes into ``choices``."""
    if given is None:
        return None
    full = {"name": default} | part_to_mapping(path, given)
    if full["name"] is None:
        raise InputError(f"{format_option(path)} has options, but no name: give {format_option(path)} too")
    if kind == "data":
        full = resolve_source(full)
    of_any_case = {one.lower(): one for one in get_component_kinds()[kind][1]}
    full["name"] = name = of_any_case.get(full["name"].lower(), full["name"])
    if kind == "method" and name in PRESET_OF_METHOD:
        full = merge_options(load_preset(PRESET_OF_METHOD[name])["method"], full | {"name": "LC"}) | {"name": name}
    cls = find_class(kind, name)
    choices[path] = kind, name, cls
    for argument, its_kind in get_inner_components(cls).items():
        usual = signature(cls).parameters[argument].default
        inner = resolve_part(its_kind, f"{path}.{argument}", full.pop(argument, usual), choices, usual)
        full |= {} if inner is None else {argument: inner}
    return full


def _completed(path: str, found: Mapping[str, Any], choices: Mapping[str, ResolvedClass]) -> ComponentConfig:
    """Return a part of what a parser has found."""
    kind, name, cls = choices[path]
    arguments = {option: value for option, value in found.items() if option != "name"}
    for option in (
        PATH_OPTIONS if kind != "attributes" else PATH_OPTIONS[:1]
    ):  # a page shows the run that an audit examines
        if isinstance(place := arguments.get(option), str) and os.path.exists(place):
            arguments[option] = os.path.abspath(place)
    for argument in get_inner_components(cls):
        inner, value = f"{path}.{argument}", arguments.pop(argument, None)
        arguments[argument] = _completed(inner, value, choices) if inner in choices else None
    return ComponentConfig(name, as_option(arguments), cls, arguments)


class OptionParser(ArgumentParser):
    """A parser of the options of classes and functions that says what it has.

    Attributes:
        actions: Option, such as ``method.strength`` -> what argparse keeps of it: help, default, metavar.
        types: Option -> its type, as its constructor has it.
    """

    def __init__(self) -> None:
        """Begin without options, ``--help`` neither."""
        self.actions: dict[str, Action] = {}
        self.types: dict[str, str] = {}
        super().__init__(exit_on_error=False, add_help=False, print_config=None)

    def add_argument(self, *names: Any, **more: Any) -> Action:
        action: Action = super().add_argument(*names, **more)
        self.actions[action.dest] = action
        return action

    def add(self, of: Callable[..., Any], path: str | None = None, skip: Collection[str] = ()) -> None:
        """Add the options of a class or function, but those to ``skip``, as ``path.NAME``."""
        add = self.add_class_arguments if isinstance(of, type) else self.add_function_arguments
        names = add(of, path, skip={*skip}, as_group=False, fail_untyped=False)
        own = signature(of).parameters
        for name in names:
            if (last := name.rpartition(".")[2]) in own:
                kind = own[last].annotation
                self.types[name] = kind if isinstance(kind, str) else formatannotation(kind)

    def add_choices(self, choices: Mapping[str, ResolvedClass]) -> None:
        """Add the options of the chosen classes."""
        for path, (kind, name, cls) in choices.items():
            self.add_argument(f"--{path}.name", type=str, default=name, help=f"The {get_component_kinds()[kind][0]}.")
            self.add(cls, path, {*RUN_ARGUMENTS.get(kind, ()), *get_inner_components(cls)})


@lru_cache(maxsize=256)
def build_parser(choices: tuple[tuple[str, ResolvedClass], ...]) -> OptionParser:
    """Return the parser of chosen classes, without any that of training; kept, as a grid asks for the same again."""
    parser = OptionParser()
    if not choices:
        parser.add(TrainingConfig)
    parser.add_choices(dict(choices))
    return parser


def parse_options(parser: OptionParser, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a parser, those that are not given with their defaults; ``InputError`` if one is wrong."""
    given = _take_values(as_option(given), parser)
    leaves = dict(_leaves(given, parser.actions))
    for option in leaves:
        check_option_name(option, parser.actions)
    try:
        for option, value in leaves.items():
            if value is None and parser.get_default(option) is not None:  # it would take it where none may stand
                parser.parse_args([f"--{option}=null"])
        found: dict[str, Any] = deepcopy(parser.parse_object(given)).as_dict()  # default lists are the parser's own
    except (ArgumentError, ValueError, TypeError) as error:
        told = " ".join(str(error).split())
        for option, value in leaves.items():
            if f'"{option}"' in told:  # in the parser's words it would take ten lines
                kind = parser.types.get(option, "another type")
                example = ", such as [a,b]" if "list[" in kind else ""
                told = f"{format_option(option)} is {value!r}, but must be {kind}{example}"
                values = value if isinstance(value, list) else [value]
                if "str" in kind and not all(isinstance(part, str) for part in values):
                    told += ". YAML reads no, on, 017, 12:30 and dates as other values: quote it, such as 'no'"
        raise InputError(told) from error
    for option, value in _leaves(found, parser.actions):
        for one in value if isinstance(value, list | tuple) else [value]:
            _check_number(option, one)
    return found


def _take_values(given: Mapping[str, Any], parser: OptionParser, path: str = "") -> dict[str, Any]:
    """Return options with the values of unquoted words; ``InputError`` where a text is asked for."""

    def take(option: str, value: Any) -> Any:
        if isinstance(value, list):
            return [take(option, part) for part in value]
        if not isinstance(value, UnquotedWord):
            return value
        kind = parser.types.get(option, "")
        number = isinstance(value.value, int | float) and not isinstance(value.value, bool)
        if (isinstance(value.value, bool) and "bool" in kind) or (number and re.search(r"\b(int|float)\b", kind)):
            if number and re.match(r"[+-]?0\d|.*:", value):
                raise InputError(
                    f"{format_option(option)} is {value}, which YAML takes for {value.value}: write it without 0 in "
                    "front or :"
                )
            return value.value
        if "str" in kind or not kind:
            raise InputError(
                f"{format_option(option)} is {value}, which YAML takes for {value.value}: quote it, as '{value}'"
            )
        return value.value

    return {
        name: _take_values(value, parser, f"{path}{name}.")
        if isinstance(value, dict) and f"{path}{name}" not in parser.actions
        else take(f"{path}{name}", value)
        for name, value in given.items()
    }


def check_option_name(option: str, known: Collection[str], where: str = "") -> None:
    """Raise ``InputError`` unless there is such an option; ``where`` ends the message."""
    if option in known:
        return
    path, _, last = option.rpartition(".")
    if path.startswith("method") and last in ESTIMATOR_OPTIONS:
        raise InputError(
            f"{format_option(last)} is for methods that look for a shortcut: take {format_option('method', 'LC')} "
            "and its own attributes"
        )
    hint = suggest_name(option, known, format_option)
    if option in SYNONYMS:
        hint = f" (did you mean {format_option(SYNONYMS[option])}?)"
    beside = ", ".join(one.rpartition(".")[2] for one in known if one.rpartition(".")[0] == path)
    raise InputError(f"There is no option {format_option(option)}{hint}{where or ': there are ' + beside}")


def _leaves(given: Mapping[str, Any], known: Collection[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every option that is given, such as ``method.strength``, with its value."""
    for name, value in given.items():
        option = f"{path}{name}"
        if isinstance(value, dict) and option not in known:
            yield from _leaves(value, known, f"{option}.")
        else:
            yield option, value


def _check_number(option: str, value: Any) -> None:
    """Raise ``InputError`` if a value is a number that programs cannot count with, or that the option does not take."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{format_option(option)} is {value}, but must be a finite number")
    if isinstance(value, int | float):
        most = math.inf if isinstance(value, float) else MOST
        usual = (0, MOST_OF_SEED) if re.search(r"(^|[._])seed$", option) else (-most, most)
        check_range(format_option(option), value, *LIMITS.get(option, usual))
