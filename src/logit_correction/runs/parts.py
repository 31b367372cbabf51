"""What a run is put together from: parts and components by name, their classes, and their checked options."""

from __future__ import annotations

import inspect
from argparse import SUPPRESS
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator
from logit_correction.config import PARTS, ComponentConfig, RunConfig, TrainingConfig, listed
from logit_correction.data import SOURCES
from logit_correction.data.reader import DataSource
from logit_correction.errors import InputError, no_effect
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.methods.mixing import MIXING, Mixing
from logit_correction.methods.prior import PRIORS, PriorRule
from logit_correction.networks import NETWORKS
from logit_correction.registry import resolve_any
from logit_correction.runs.options import add_options, check_training, checked_options, plain

#: Constructor arguments that the run itself gives and the user does not.
GIVEN: dict[str, set[str]] = {
    "data": set(),
    "method": {"network", "info", "biased_network", "seed"},
    "network": {"info"},
    "biased_network": {"info"},
    "encoder": {"info"},
    "attributes": set(),
    "prior": set(),
    "mixing": set(),
}

#: How a file chooses a component.
MAPPING = "{name: NAME, ...}"

#: Part of a run, or kind of component -> what it is called, what there is, and what its classes derive from.
KINDS: dict[str, tuple[str, Mapping[str, tuple[str, str]], type]] = {
    "data": ("data source", SOURCES, DataSource),
    "method": ("method", METHODS, Algorithm),
    "network": ("network", NETWORKS, nn.Module),
    "biased_network": ("network", NETWORKS, nn.Module),
    "encoder": ("network", NETWORKS, nn.Module),
    "attributes": ("attribute estimator", ESTIMATORS, AttributeEstimator),
    "prior": ("prior", PRIORS, PriorRule),
    "mixing": ("mixing", MIXING, Mixing),
}


def known_name(part: str, name: str) -> str:
    """Return a name as it is written in the list of its kind, whatever letters of it are capital; others as they are.

    >>> known_name("method", "lc"), known_name("network", "resnet18"), known_name("method", "my_package.Mine")
    ('LC', 'ResNet18', 'my_package.Mine')
    """
    known = KINDS[part][1]
    return name if name in known else {one.lower(): one for one in known}.get(name.lower(), name)


def find_class(part: str, name: str) -> Callable[..., Any]:
    """Return the class of ``part`` (one of ``config.PARTS``) that ``name`` stands for; a network may be a function.

    Raises:
        InputError: If there is none, or it is something else.
    """
    kind, known, base = KINDS[part]
    found: Callable[..., Any] = resolve_any(kind, known_name(part, name), known)
    of_networks = base is nn.Module
    if isinstance(found, type):
        if not issubclass(found, base):
            raise InputError(f"{name!r} is not a {kind}: its class must derive from {base.__module__}.{base.__name__}")
    elif not (of_networks and callable(found)):
        raise InputError(f"{kind} {name!r} is not a class: give the dotted path of a class")
    if of_networks:
        _check_takes_info(name, found)
    return found


@dataclass(eq=False)
class Checked(ComponentConfig):
    """A part or a component of which every option was checked; options that were left out have their defaults.

    Attributes:
        cls: Its class, or the function that makes it.
        arguments: Its options, of the types that the class asks for; components are ``Checked`` too.
    """

    cls: Callable[..., Any] = field(kw_only=True, repr=False)
    arguments: dict[str, Any] = field(kw_only=True, repr=False)

    def make(self, *given: Any, **more: Any) -> Any:
        """Make it, with further arguments that the run gives."""
        own = {name: value.make() if isinstance(value, Checked) else value for name, value in self.arguments.items()}
        return self.cls(*given, **own, **more)


def complete(config: RunConfig) -> RunConfig:
    """Check every option and fill in the defaults, so that the result says all that the run depends on.

    This is the one place where options are checked, whether they come from a command line, a file or Python; what is
    checked already is not checked again.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    training = checked_options(TrainingConfig, vars(config.training))
    return replace(complete_parts(config), training=check_training(TrainingConfig(**training)))


def complete_parts(config: RunConfig) -> RunConfig:
    """Check the options of data, method and networks and fill in their defaults.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    chosen = {part: getattr(config, part) for part in PARTS}
    parts: dict[str, Any] = {part: checked(part, one) for part, one in chosen.items() if one is not None and one.name}
    return replace(config, **parts)


def checked(kind: str, choice: ComponentConfig, path: str = "") -> Checked:
    """Return a part or a component with its options checked; one that is ``Checked`` as it is.

    Args:
        kind: A key of ``KINDS``.
        choice: Its name and options, as a file has them.
        path: What its options begin with, such as ``method.attributes``; by default the kind.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    if isinstance(choice, Checked):
        return choice
    path, name = path or kind, known_name(kind, choice.name)
    cls = find_class(kind, name)
    kinds = components_of(cls)
    own = {option: value for option, value in choice.options.items() if option not in kinds}
    arguments = checked_options(cls, own, f"{path}.", skip=GIVEN[kind] | set(kinds), components=kinds)
    for argument, its_kind in kinds.items():
        component = component_of(cls, argument, choice.options, path)
        arguments[argument] = component and checked(its_kind, component, f"{path}.{argument}")
    options = {option: _plain(value, option) for option, value in arguments.items()}
    return Checked(name, options, cls=cls, arguments=arguments)


def _plain(value: Any, name: str) -> Any:
    """Return an option, or a component with its options, as ``config.yaml`` holds them."""
    return {"name": value.name, **value.options} if isinstance(value, Checked) else plain(value, name)


def components_of(cls: Callable[..., Any]) -> Mapping[str, str]:
    """Return the constructor arguments of a class that are components with options of their own, with their kinds."""
    return getattr(cls, "components", {})


def component_of(
    cls: Callable[..., Any], argument: str, options: Mapping[str, Any], path: str
) -> ComponentConfig | None:
    """Return the component that ``options`` choose, by name or as a mapping; None if there is to be none.

    Options without a name are those of the class that is the default.

    Raises:
        InputError: If it is something else, or has options but no name where there is no default.
    """
    default = inspect.signature(cls).parameters[argument].default
    given = options.get(argument, default)
    if given is None or isinstance(given, ComponentConfig):
        return given
    if isinstance(given, str):
        return ComponentConfig(given)
    if not isinstance(given, Mapping) or not isinstance(given.get("name", ""), str):
        raise InputError(f"--{path}.{argument} must be a name, or a mapping with a name and its options: {MAPPING}")
    name = given.get("name", default)
    if name is None:
        raise InputError(no_effect(f"{path}.{argument}", given))
    return ComponentConfig(name, {option: value for option, value in given.items() if option != "name"})


def add_part(parser: Any, kind: str, choice: ComponentConfig, text: str, path: str = "") -> None:
    """Give a parser, whose help is wanted, the options of a part and of the components inside it.

    Args:
        parser: Of jsonargparse.
        kind: A key of ``KINDS``.
        choice: Its name, and options that are shown as defaults.
        text: What the help says of the name.
        path: What the options begin with; by default the kind.
    """
    path, cls = path or kind, find_class(kind, choice.name)
    kinds = components_of(cls)
    add_options(parser, cls, path, GIVEN[kind] | set(kinds))
    offered = parser._option_string_actions.get(f"--{path}")
    if offered is not None:
        offered.help = SUPPRESS  # jsonargparse offers a config file of its own there
    name = known_name(kind, choice.name)
    parser.add_argument(f"--{path}.name", type=str, default=name, help=f"{text.rstrip('.')}; short: --{path} NAME.")
    shown = {f"{path}.{option}": value for option, value in choice.options.items() if option not in kinds}
    there = {action.dest for action in parser._actions}
    parser.set_defaults({option: value for option, value in shown.items() if option in there})
    for argument, its_kind in kinds.items():
        component = component_of(cls, argument, choice.options, path)
        if component is None:
            parser.add_argument(f"--{path}.{argument}", metavar="NAME", default=None)
        else:
            add_part(parser, its_kind, component, f"The {KINDS[its_kind][0]}.", f"{path}.{argument}")


def with_known(config: RunConfig, known: Mapping[str, str | Sequence[str]]) -> RunConfig:
    """Return the config with the views that a person knows given to the estimator that looks for a shortcut.

    Args:
        config: Checked or not; the method that comes back is not, unless no view is known.
        known: ``shortcut`` or ``legitimate`` -> views, or the name of one.

    Raises:
        InputError: If no estimator of the method looks for a shortcut.
    """
    known, method = {name: listed(views) for name, views in known.items() if len(views)}, config.method
    if not known:
        return config
    cls = find_class("method", method.name)
    has_estimator = "attributes" in components_of(cls)
    estimator = component_of(cls, "attributes", method.options, "method") if has_estimator else None
    if estimator is None or known_name("attributes", estimator.name) != "Auto":
        raise InputError(
            f"--{next(iter(known))} is for methods that look for a shortcut: take --method LC with its default "
            "--method.attributes Auto"
        )
    options = {name: [*(estimator.options.get(name) or []), *views] for name, views in known.items()}
    attributes = ComponentConfig("Auto", {**estimator.options, **options})
    return replace(config, method=ComponentConfig(method.name, {**method.options, "attributes": attributes}))


def _check_takes_info(name: str, network: Callable[..., Any]) -> None:
    """Raise ``InputError`` unless a class or function can be told of the data by an argument ``info``."""
    parameters = inspect.signature(network).parameters
    if "info" not in parameters and not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        raise InputError(
            f"network {name!r} takes no argument `info`: give a class or function of yours that does; it holds "
            "input_shape and num_labels"
        )
