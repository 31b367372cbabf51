"""From options as users give them to a complete ``RunConfig``, the only form that the rest of the package reads.

Options come from the command line, from YAML and from Python, as names, as mappings and in short forms such as
``shortcut="colour"``. Which options there are depends on the parts that are chosen: they are the arguments of the
constructors of these parts. ``complete_config`` brings all forms into one, has jsonargparse check every value by the
constructors, and fills in the defaults, so that the config states all that a run depends on.

Nothing heavy is imported before a part is named: a plain ``--help`` answers at once.
"""

from __future__ import annotations

import json
import math
import os
import re
from argparse import Action, ArgumentError
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache, reduce
from inspect import formatannotation, signature
from operator import getitem
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import yaml
from jsonargparse import ArgumentParser

from logit_correction.data import resolve_source
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import format_option, suggest_name
from logit_correction.registry import CompleteComponent, ComponentConfig, Options, import_component, parse_name_list
from logit_correction.serialization import to_json_values
from logit_correction.training.config import TrainingConfig
from logit_correction.yaml_files import UnquotedWord, read_yaml_file

#: The parts of a run, each a class with options of its own.
PARTS = ("data", "method", "network", "biased_network", "encoder")

#: Name of a preset -> one line. Each is a file of options in ``presets/``; options that are given win over them.
PRESETS = {
    "paper": "the training of the paper: two networks side by side, a moving prior, Group MixUp",
    "staged": "cross-fitted biased networks first, then logit correction; what StagedLC is",
}

#: Options of the attribute estimator that name views which a user has identified as a shortcut, or as legitimate.
VIEW_OPTIONS = ("shortcut", "legitimate")

#: All options of the attribute estimator that may be given without ``method.attributes`` in front.
ESTIMATOR_OPTIONS = (*VIEW_OPTIONS, "when_unsure")

#: Options of training that hold a list.
LIST_OPTIONS = tuple(option.name for option in fields(TrainingConfig) if str(option.type).startswith("list"))

#: Name of a method that is another method with the options of a preset -> the preset.
PRESET_OF_METHOD = {"StagedLC": "staged"}

#: Name of an option in other programs -> its name here, for hints.
SYNONYMS = {
    "lr": "learning_rate",
    "wd": "weight_decay",
    "dataset": "data",
    "gpus": "devices",
    **dict.fromkeys(("model", "arch"), "network"),
    "algorithm": "method",
    **dict.fromkeys(("output", "output_dir"), "out"),
}

#: Most threads, processes or machines of a run.
MAX_PROCESSES = 4096

#: Greatest whole number of an option that is not a seed: what 32 bits hold.
MAX_INTEGER = 2**31 - 1

#: Greatest seed: what 64 bits hold.
MAX_SEED = 2**63 - 1

#: Options of training -> their least and greatest values.
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("epochs", "batch_size", "log_every", "step_every"), (1, MAX_INTEGER)),
    **dict.fromkeys(("devices", "nodes"), (1, MAX_PROCESSES)),
    **dict.fromkeys(("weight_decay", "gradient_clip"), (0, math.inf)),
    **dict.fromkeys(("learning_rate", "step_factor"), (1e-12, math.inf)),
    "sgd_momentum": (0, 1),
    "step_from": (0, MAX_INTEGER),
    "threads": (0, MAX_PROCESSES),
}

#: Options that name a file or folder. They become absolute paths, so that a run's config.yaml is valid in any folder.
PATH_OPTIONS = ("file", "root", "published", "run")

#: Kind of part -> the constructor arguments that the run passes, which are not options of a user.
RUN_ARGUMENTS: dict[str, set[str]] = {
    "network": {"info"},
    "biased_network": {"info"},
    "encoder": {"info"},
    "method": {"network", "info", "biased_network", "member_networks", "is_linear", "seed"},
}

#: A part of a run: a name, a mapping of name and options, or what `from_arrays` and `from_table` return.
Part: TypeAlias = str | Mapping[str, Any] | ComponentConfig

#: Arguments of ``train`` and ``audit`` that are options of the data.
DATA_OPTIONS = ("label", "text", "path", "features", "categorical", "split", "split_by", "attribute", "size")

#: A part, or a component inside a part, that was chosen: its kind, its name, and its class or factory.
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

    @property
    def parts(self) -> dict[str, ComponentConfig]:
        """Those of ``PARTS`` that are chosen, by their names there."""
        parts = {part: getattr(self, part) for part in PARTS}
        return {part: config for part, config in parts.items() if config is not None and config.name}

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``config.yaml``: parts as ``{name, options...}``, training options flat."""
        return {part: config.to_dict() for part, config in self.parts.items()} | vars(self.training)

    @classmethod
    def from_dict(cls, flat: Mapping[str, Any]) -> RunConfig:
        """Return the config of what ``to_dict`` gives; the options of parts are not checked yet.

        Raises:
            InputError: A part has no name, or an option of training does not exist.
        """
        training = dict(flat)
        parts: dict[str, ComponentConfig] = {}
        for part in PARTS:
            if part in flat or part in ("data", "method"):
                options = part_to_mapping(part, training.pop(part, None))
                parts[part] = ComponentConfig(pop_name(part, options), options)
        training_names = [option.name for option in fields(TrainingConfig)]
        for name in training:
            if name not in training_names:
                hint = suggest_name(str(name), [*PARTS, *training_names], format_option)
                raise InputError(f"There is no option {format_option(name)}{hint}")
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
    """Return of each part, and of each kind of component inside parts: its term, its names and its base class."""
    from torch import nn  # a plain --help does without these imports

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


def find_component_class(kind: str, name: str) -> Callable[..., Any]:
    """Return the class of a part or component; of a network it may be a function.

    Args:
        kind: A key of ``get_component_kinds``.
        name: A name of ``logit-correction list``, or a dotted path.

    Raises:
        InputError: The name is unknown, or names a class of another kind.
    """
    term, names, base = get_component_kinds()[kind]
    cls: Callable[..., Any] = import_component(term, name, names)
    if RUN_ARGUMENTS.get(kind) == {"info"} and not isinstance(cls, type) and callable(cls):
        return cls
    return import_component(term, name, names, base)


def get_inner_components(cls: Callable[..., Any]) -> Sequence[str]:
    """Return the constructor arguments of a class that are components with options of their own: names of kinds."""
    return getattr(cls, "components", ())


def build_config(data: Any, **options: Any) -> RunConfig:
    """Return the complete config of a call from Python.

    Args:
        data: A whole ``RunConfig``, with no other option; or as ``train`` takes it.
        **options: Options of the data, parts and options of training; None stands for the default.
    """
    options = {name: value for name, value in options.items() if value is not None}
    if isinstance(data, RunConfig):
        if options:
            raise InputError(f"{next(iter(options))} is given with a whole RunConfig: write it into the config")
        return complete_config(data)
    of_data = {name: options.pop(name) for name in DATA_OPTIONS if name in options}
    return complete_config(options | {"data": choose_source(data, **of_data)})


def choose_source(data: Any, label: Any = None, **options: Any) -> Any:
    """Return the part ``data`` of a config for rows with labels, or for a named source with further options.

    Args:
        data: Rows, or a named source, as ``train`` takes them.
        label: The column of labels, or one label for each row.
        **options: Further options of the source.
    """
    is_named = isinstance(data, Mapping) and isinstance(data.get("name"), str)
    if is_named or isinstance(data, str | Path | ComponentConfig):
        if label is not None:
            options["label"] = label
        return part_to_mapping("data", data) | options if options else data
    import numpy as np  # --help does without NumPy and torch

    from logit_correction.data.own import from_rows, from_table

    if label is None:
        raise InputError("label= is missing: name the column of labels, or give one label for each row")
    label = list(label) if isinstance(label, Iterator) else label
    if np.ndim(label) == 0:
        return from_table(data, label=label, **options)
    return from_rows(data, label, **options)


def complete_config(config: RunConfig | Options) -> RunConfig:
    """Check every option and fill in the defaults, so that the config states all that a run depends on.

    Args:
        config: A config, whose complete parts stay as they are; or a mapping of parts, training options, ``preset``,
            ``shortcut``, ``legitimate`` and ``when_unsure``. The method is LC if it is left out.

    Raises:
        InputError: An option does not exist, is missing, or has a wrong value.
    """
    if isinstance(config, RunConfig):
        config = config.parts | vars(config.training)
    options = {"method": {"name": "LC"}} | expand_short_options(config)
    if "data" not in options:
        raise InputError(
            f"{format_option('data')} is missing: give a folder of images, the file of a table, or a name of `list "
            "data`"
        )
    completed: Options = {part: complete_part(part, options.pop(part)) for part in PARTS if part in options}
    training = TrainingConfig(**parse_options(build_option_parser(()), options))
    num_processes = training.devices * training.nodes
    if training.compile == "reduce-overhead" and num_processes > 1:
        raise InputError(
            f"{format_option('compile', 'reduce-overhead')} is for one process: give "
            f"{format_option('compile', 'true')} with several devices"
        )
    if training.batch_size is not None and training.batch_size % num_processes:
        raise InputError(
            f"{format_option('batch_size')} is {training.batch_size}, but must be divisible by the {num_processes} "
            "processes"
        )
    return RunConfig(**completed, training=training)


def complete_part(kind: str, choice: Any) -> CompleteComponent:
    """Return a part of a run with all options checked and the defaults filled in.

    Args:
        kind: One of ``PARTS``.
        choice: The part as ``part_to_mapping`` takes it; one that is complete stays as it is.
    """
    if isinstance(choice, CompleteComponent):
        return choice
    choices: dict[str, ResolvedClass] = {}
    options = {kind: resolve_part(kind, kind, choice, choices)}
    return _build_component(kind, parse_options(build_option_parser(tuple(choices.items())), options)[kind], choices)


def part_to_mapping(part: str, choice: Any) -> Options:
    """Return a part of a run as a mapping of its name and options.

    Args:
        part: Its place among the options, for messages.
        choice: Its name, a path, a mapping of name and options, or a ``ComponentConfig``.
    """
    if isinstance(choice, ComponentConfig):
        return choice.to_dict()
    if isinstance(choice, str) or (isinstance(choice, PurePath) and part == "data"):
        return {"name": str(choice)}
    if isinstance(choice, Mapping) and isinstance(choice.get("name", ""), str):
        return dict(choice)
    hint = "; from_arrays and from_table make it of rows of your own" if part == "data" else ""
    raise InputError(
        f"{format_option(part)} must be a name, or a mapping with a name and options: {{name: NAME, ...}}{hint}"
    )


def pop_name(part: str, options: Options) -> str:
    """Remove the name from the options of a part and return it; ``InputError`` if it is missing."""
    name = options.pop("name", None)
    if name is None:
        raise InputError(f"{format_option(part)} has options, but no name: give {format_option(part)} too")
    return str(name)


def load_preset(name: str) -> dict[str, Any]:
    """Return the options of a preset, such as ``{"method": {"name": "LC", ...}}``."""
    if name not in PRESETS:
        hint = suggest_name(str(name), PRESETS)
        raise InputError(f"preset {name!r} does not exist{hint}: take one of {', '.join(PRESETS)}")
    file = Path(__file__).parents[1] / "presets" / f"{name}.yaml"
    options: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return options


def expand_short_options(short_options: Options) -> Options:
    """Return options without short forms: parts as mappings, the preset's options, views as options of the estimator.

    Parts that are complete stay as they are.
    """
    optional = (*PARTS, "preset", *ESTIMATOR_OPTIONS)
    options = {name: value for name, value in short_options.items() if value is not None or name not in optional}
    for part in PARTS:
        if part in options and not isinstance(options[part], CompleteComponent):
            options[part] = part_to_mapping(part, options[part])
    for name in (*VIEW_OPTIONS, *LIST_OPTIONS):
        if isinstance(options.get(name), str | list | tuple):
            options[name] = parse_name_list(options[name])
    of_estimator = {name: options.pop(name) for name in ESTIMATOR_OPTIONS if name in options}
    preset = options.pop("preset", None)
    if preset is not None:
        preset_options = load_preset(preset)
        expected = preset_options["method"]["name"]
        method = options.get("method", {}).get("name")
        if method is not None and str(method).lower() != expected.lower():
            raise InputError(f"preset {preset} is for method {expected}, not {method}: leave one of them out")
        options = merge_options(preset_options, options)
    for name, value in of_estimator.items():
        if value:
            options = merge_options(options, {"method": {"attributes": {name: value}}})
    if of_estimator.get("shortcut"):  # named now, by a person, and no longer by what wrote the config
        options["method"]["attributes"].pop("decided_by", None)
    if isinstance(options.get("method"), dict):  # options without a name are those of LC
        options = merge_options({"method": {"name": "LC"}}, options)
    return options


def list_option_names(options: Options) -> list[str]:
    """Return the full names of options, as ``flatten_options`` has them.

    >>> list_option_names({"data": "photos", "method": {"name": "LC", "q": 1}, "shortcut": "colour"})
    ['data.name', 'method.name', 'method.q', 'method.attributes.shortcut']
    """
    names = [name for name, _ in iterate_options(options)]
    names = [f"method.attributes.{name}" if name in ESTIMATOR_OPTIONS else name for name in names]
    return [f"{name}.name" if name in PARTS else name for name in names]


def merge_options(base: Options, overrides: Options) -> Options:
    """Return options with others over them, mapping by mapping.

    Args:
        base: Nested mappings.
        overrides: What wins. A component of another name replaces the old one with all its options.
    """
    merged = dict(base)
    for key, value in overrides.items():
        old = merged.get(key)
        if isinstance(value, str) and isinstance(old, dict) and "name" in old:
            value = {"name": value}
        if isinstance(value, dict) and isinstance(old, str):
            old = {"name": old}
        if isinstance(value, dict) and isinstance(old, dict):
            names = {str(options["name"]).lower() for options in (old, value) if "name" in options}
            if len(names) < 2:
                value = merge_options(old, value)
        merged[key] = value
    return merged


def resolve_part(kind: str, path: str, choice: Any, choices: dict[str, ResolvedClass], default: Any = None) -> Any:
    """Return the options of a part with the names of all components inside.

    Args:
        kind: Kind of the part or component.
        path: Its place among the options, such as ``method.attributes``.
        choice: As ``part_to_mapping`` takes it; None leaves the component out.
        choices: Receives the class of the part and of each component inside, by its path.
        default: Its name where ``choice`` has options alone.
    """
    if choice is None:
        return None
    options = {"name": default} | part_to_mapping(path, choice)
    name = pop_name(path, options)
    if kind == "data":
        options = resolve_source({"name": name} | options)
        name = options.pop("name")
    names_by_lower_case = {candidate.lower(): candidate for candidate in get_component_kinds()[kind][1]}
    name = names_by_lower_case.get(name.lower(), name)
    if kind == "method" and name in PRESET_OF_METHOD:
        preset = load_preset(PRESET_OF_METHOD[name])["method"]
        options = merge_options(preset, options | {"name": preset["name"]})
    cls = find_component_class(kind, name)
    choices[path] = (kind, name, cls)
    options["name"] = name
    for argument in get_inner_components(cls):
        inner_default = signature(cls).parameters[argument].default
        inner_choice = options.pop(argument, inner_default)
        inner = resolve_part(argument, f"{path}.{argument}", inner_choice, choices, inner_default)
        if inner is not None:
            options[argument] = inner
    return options


def _build_component(path: str, parsed: Options, choices: Mapping[str, ResolvedClass]) -> CompleteComponent:
    """Return the complete part at a path, from the options that a parser returned."""
    kind, name, cls = choices[path]
    arguments = {option: value for option, value in parsed.items() if option != "name"}
    inner_options = {argument: arguments.pop(argument, None) for argument in get_inner_components(cls)}
    for option in (
        PATH_OPTIONS if kind != "attributes" else PATH_OPTIONS[:1]
    ):  # pages show the run that an audit examines
        place = arguments.get(option)
        if isinstance(place, str) and os.path.exists(place):
            arguments[option] = os.path.abspath(place)
    options = to_json_values(arguments, finite_only=False)
    for argument, inner in inner_options.items():
        inner_path = f"{path}.{argument}"
        component = _build_component(inner_path, inner, choices) if inner_path in choices else None
        arguments[argument] = component
        options[argument] = component and component.to_dict()
    return CompleteComponent(name, options, factory=cls, arguments=arguments)


class OptionParser(ArgumentParser):
    """A parser of the options of classes and functions.

    Attributes:
        actions: Option, such as ``method.strength`` -> help, default and placeholder, as argparse holds them.
        types: Option -> its type, as its constructor has it.
    """

    def __init__(self) -> None:
        """Begin without options, ``--help`` neither."""
        self.actions: dict[str, Action] = {}
        self.types: dict[str, str] = {}
        super().__init__(exit_on_error=False, add_help=False, print_config=None)

    def add_argument(self, *names: Any, **settings: Any) -> Action:
        action: Action = super().add_argument(*names, **settings)
        self.actions[action.dest] = action
        return action

    def add_options(self, function: Callable[..., Any], path: str | None = None, skip: Collection[str] = ()) -> None:
        """Add the parameters of a class or function as options.

        Args:
            function: The class or function.
            path: What names of options begin with, as in ``path.NAME``; None for nothing.
            skip: Parameters that are not added.
        """
        add = self.add_class_arguments if isinstance(function, type) else self.add_function_arguments
        parameters = signature(function).parameters
        for option in add(function, path, skip={*skip}, as_group=False, fail_untyped=False):
            parameter = parameters.get(option.rpartition(".")[2])  # none where it stands behind **options
            annotation = parameter.annotation if parameter else getattr(self.actions[option], "_typehint", Any)
            self.types[option] = annotation if isinstance(annotation, str) else formatannotation(annotation)

    def add_components(self, choices: Mapping[str, ResolvedClass]) -> None:
        """Add the options of the chosen classes."""
        for path, (kind, name, cls) in choices.items():
            self.add_argument(f"--{path}.name", type=str, default=name, help=f"The {get_component_kinds()[kind][0]}.")
            self.add_options(cls, path, {*RUN_ARGUMENTS.get(kind, ()), *get_inner_components(cls)})


@lru_cache(maxsize=256)
def build_option_parser(choices: tuple[tuple[str, ResolvedClass], ...]) -> OptionParser:
    """Return the parser of the options of chosen classes, without any of the options of training.

    Parsers are kept, since the cells of a grid ask for the same ones again.
    """
    parser = OptionParser()
    if not choices:
        parser.add_options(TrainingConfig)
    parser.add_components(dict(choices))
    return parser


def parse_options(parser: OptionParser, values: Options) -> Options:
    """Return the values of all options of a parser, with the defaults of those that are left out.

    Args:
        parser: The parser of the options.
        values: Nested mappings of values; texts are read as the command line gives them.

    Raises:
        InputError: An option does not exist, or has a value of another type or out of range.
    """
    values = _resolve_unquoted_words(to_json_values(values, finite_only=False), parser)
    options = dict(iterate_options(values, parser.actions))
    for option in options:
        check_option_name(option, parser.actions)
    try:
        for option, value in options.items():
            if value is None and parser.get_default(option) is not None:  # else it would take None for the default
                parser.parse_args([f"--{option}=null"])
        parsed = _parse_values(parser, values)
    except (ArgumentError, ValueError, TypeError) as error:
        message = " ".join(str(error).split())
        wrong = [option for option in options if f'"{option}"' in message]
        if wrong:  # the parser's message would take ten lines
            message = _describe_type_error(wrong[-1], options[wrong[-1]], parser)
        for option in re.findall(r"^the following arguments are required: (\S+)$", message):
            message = f"{format_option(option)} is missing: {parser.actions[option].help}"
        raise InputError(message) from error
    for option, value in options.items():
        is_text = isinstance(value, str) and "str" in parser.types.get(option, "")
        if is_text and value.strip():
            _restore_text_parsed_as_none(parsed, option, value)
        if isinstance(value, list) and "dict[" in parser.types.get(option, ""):
            _restore_nested_texts(reduce(getitem, option.split("."), parsed), value)
    for option, value in iterate_options(parsed, parser.actions):
        for number in value if isinstance(value, list | tuple) else [value]:
            _check_number_range(option, number)
    return parsed


def _parse_values(parser: OptionParser, values: Options) -> Options:
    """Return the values of all options of a parser, with nothing in them that the parser or a later call shares."""
    try:
        text = json.dumps(values)
    except TypeError:  # a date, say, which the parser refuses by name
        return deepcopy(parser.parse_object(values)).as_dict()
    return deepcopy(_parse_json(parser, text))


@lru_cache(maxsize=1024)
def _parse_json(parser: OptionParser, values: str) -> Options:
    """Return the values of all options of a parser, given some as JSON.

    They are kept, since audits and grids ask for the same ones again: to check them takes a fifth of the time of a
    short training.
    """
    return parser.parse_object(json.loads(values)).as_dict()


def _restore_text_parsed_as_none(parsed: Options, option: str, text: str) -> None:
    """Set an option to its text where the parser has taken it, such as #, ~ or null, for no value as YAML does."""
    *path, name = option.split(".")
    options = reduce(getitem, path, parsed)
    if options[name] is None:
        options[name] = text


def _restore_nested_texts(parsed: Any, given: Any) -> None:
    """Set texts within a list or mapping to what was given: the parser reads ``a: b`` as YAML, so as a mapping."""
    for key, value in enumerate(given) if isinstance(given, list) else given.items():
        if isinstance(value, list | dict):
            _restore_nested_texts(parsed[key], value)
        elif isinstance(value, str) and not isinstance(value, UnquotedWord):
            parsed[key] = value


def _describe_type_error(option: str, value: Any, parser: OptionParser) -> str:
    expected = parser.types.get(option, "another type")
    example = ", such as [a,b]" if "list[" in expected else ""
    if expected.startswith("Literal["):
        expected = "one of " + ", ".join(re.findall(r"'(.+?)'", expected))
    message = f"{format_option(option)} is {value!r}, but must be {expected}{example}"
    values = value if isinstance(value, list) else [value]
    if "str" in expected and not all(isinstance(part, str) for part in values):
        message += ". YAML reads no, on, 017, 12:30 and dates as other values: quote it, such as 'no'"
    return message


def _resolve_unquoted_words(value: Any, parser: OptionParser, option: str = "") -> Any:
    """Return options with the values of unquoted words of YAML; ``InputError`` where a text is expected."""
    if isinstance(value, dict) and option not in parser.actions:
        prefix = f"{option}." if option else ""
        return {name: _resolve_unquoted_words(part, parser, f"{prefix}{name}") for name, part in value.items()}
    if isinstance(value, list):
        return [_resolve_unquoted_words(part, parser, option) for part in value]
    if not isinstance(value, UnquotedWord):
        return value
    expected = parser.types.get(option, "")
    reading = f"{format_option(option)} is {value}, which YAML takes for {value.value}"
    is_number = isinstance(value.value, int | float) and not isinstance(value.value, bool)
    takes_number = is_number and re.search(r"\b(int|float)\b", expected)
    if takes_number and re.match(r"[+-]?0\d|.*:", value):
        raise InputError(f"{reading}: write it without 0 in front or :")
    takes_value = takes_number or (isinstance(value.value, bool) and "bool" in expected)
    if not takes_value and ("str" in expected or not expected):
        raise InputError(f"{reading}: quote it, as '{value}'")
    return value.value


def check_option_name(option: str, names: Collection[str], ending: str = "", typed: str = "") -> None:
    """Raise ``InputError`` unless an option exists.

    Args:
        option: Its full name, such as ``method.strength``.
        names: Those that exist.
        ending: End of the message; by default the names that exist at this place.
        typed: The option as the user has written it; by default as messages name options.
    """
    if option in names:
        return
    path, _, name = option.rpartition(".")
    if path.startswith("method") and name in ESTIMATOR_OPTIONS and not typed:
        raise InputError(
            f"{format_option(name)} is for methods that look for a shortcut: take {format_option('method', 'LC')} "
            "and its own attributes"
        )
    hint = suggest_name(option, names, format_option)
    if option in SYNONYMS:
        hint = f" (did you mean {format_option(SYNONYMS[option])}?)"
    if not ending:
        siblings = [other.rpartition(".")[2] for other in names if other.rpartition(".")[0] == path]
        ending = f": there are {', '.join(siblings)}"
    raise InputError(f"There is no option {typed or format_option(option)}{hint}{ending}")


def iterate_options(options: Options, leaf_names: Collection[str] = (), prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the full name of every option, such as ``method.strength``, and its value.

    Args:
        options: Nested mappings.
        leaf_names: Full names of options whose value may be a mapping itself.
        prefix: What full names begin with.
    """
    for name, value in options.items():
        option = f"{prefix}{name}"
        if isinstance(value, dict) and option not in leaf_names:
            yield from iterate_options(value, leaf_names, f"{option}.")
        else:
            yield option, value


def _check_number_range(option: str, value: Any) -> None:
    """Raise ``InputError`` if a value is a number that is not finite, or out of the option's range."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{format_option(option)} is {value}, but must be a finite number")
    if isinstance(value, int | float):
        limit = math.inf if isinstance(value, float) else MAX_INTEGER
        default = (0, MAX_SEED) if re.search(r"(^|[._])seed$", option) else (-limit, limit)
        check_range(format_option(option), value, *LIMITS.get(option, default))
