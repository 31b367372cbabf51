"""From names to classes, their options, and packages that only an extra installs.

A run is described by names: of its data source, method, network and so on. Each kind has a registry, a mapping from the
name to the dotted path of a class and one line about it. So nothing is imported before it is used, and a user's own
class is named by its dotted path. A run folder from another person could name a class that does harm: inside
``forbid_untrusted_names`` only the names of registries are imported.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, distribution, entry_points, version
from types import ModuleType
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from logit_correction.errors import InputError, MissingPackage
from logit_correction.formatting import format_list, format_option, format_reason, suggest_name
from logit_correction.unicode_text import normalize_text

#: The file whose dotted paths must not be imported; None if all may be.
_untrusted_file: ContextVar[str | None] = ContextVar("untrusted_file", default=None)


#: Options by name, nested as in ``config.yaml``; those of a part also hold its ``name``.
Options: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class ComponentConfig:
    """A part of a run, such as a data source or a method, by name or dotted path, with its options.

    Attributes:
        name: A name that ``logit-correction list`` shows, or the dotted path of a class of your own.
        options: Of the class's constructor, as ``config.yaml`` holds them.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the part as ``config.yaml`` holds it: one mapping of the name and the options."""
        return {"name": self.name, **_map_components(self.options, ComponentConfig.to_dict)}

    def make(self, *args: Any, **kwargs: Any) -> Any:
        """Return the part itself, made with its own arguments and with these, which the run adds."""
        raise TypeError(f"{self.name} is not complete: its options are checked by complete_config")


@dataclass(frozen=True)
class CompleteComponent(ComponentConfig):
    """A part whose options have been checked and completed, so that it can be made.

    Attributes:
        factory: Its class, or a function that makes it.
        arguments: The options, of the types that the factory takes; components inside are complete too.
    """

    factory: Callable[..., Any] = field(kw_only=True, compare=False, repr=False)
    arguments: dict[str, Any] = field(default_factory=dict, kw_only=True, compare=False, repr=False)

    def make(self, *args: Any, **kwargs: Any) -> Any:
        """Return the part itself, made with its own arguments and with these, which the run adds."""
        return self.factory(*args, **_map_components(self.arguments, lambda part: part.make()), **kwargs)


def _map_components(values: dict[str, Any], function: Callable[[ComponentConfig], Any]) -> dict[str, Any]:
    """Return a mapping with a function applied to the values that are parts themselves."""
    return {name: function(value) if isinstance(value, ComponentConfig) else value for name, value in values.items()}


def parse_name_list(names: str | Sequence[str] | None) -> list[str]:
    """Return an option that holds names as a list of names in normal form.

    Args:
        names: A list, a single name, several in a text such as ``[a, b]``, or None for an empty list.

    >>> parse_name_list("[site, 'age']"), parse_name_list("site"), parse_name_list(None)
    (['site', 'age'], ['site'], [])
    """
    if names is None:
        return []
    if isinstance(names, str):
        parts = names[1:-1].split(",") if names.startswith("[") else [names]
        names = list(filter(None, (part.strip(" '\"") for part in parts)))
    return [normalize_text(str(name)) for name in names]


@contextmanager
def forbid_untrusted_names(file: object) -> Iterator[None]:
    """Refuse dotted paths inside the block, since importing a class of a user's own runs its code.

    Args:
        file: The file that names the parts, for messages.
    """
    token = _untrusted_file.set(str(file))
    try:
        yield
    finally:
        _untrusted_file.reset(token)


def is_untrusted_config() -> bool:
    """Return whether the present parts were named by a folder that the user has not said to trust."""
    return _untrusted_file.get() is not None


def refuse_untrusted_path(role: str, path: str) -> None:
    """Refuse to read a file of this machine that an untrusted folder names.

    Args:
        role: What the path is for, such as "weights".
        path: A path, or a name that is not one.

    Raises:
        InputError: It is a path, and the folder that names it is not trusted.
    """
    if is_untrusted_config() and (
        os.path.isabs(os.path.expanduser(path)) or path.startswith(".") or os.path.exists(path)
    ):
        raise InputError(
            f"{_untrusted_file.get()} names {path}, which is outside of it, as its {role}: it is read only with "
            f"{format_option('trust_code', True)}"
        )


def copy_without_download(part: ComponentConfig) -> ComponentConfig:
    """Return a complete data source that downloads nothing: it reads only data that exist on this machine."""
    if isinstance(part, CompleteComponent) and part.arguments.get("download"):
        return replace(part, arguments={**part.arguments, "download": False})
    return part


def import_component(kind: str, name: str, registry: Mapping[str, tuple[str, str]], base: type | None = None) -> Any:
    """Return the class or function that a name stands for.

    Args:
        kind: What it is, such as "method", for messages.
        name: A name in the registry, or the dotted path of a class or function of the user's own.
        registry: Name -> dotted path and a line about it.
        base: A class that it must derive from.

    Raises:
        InputError: The name is unknown, cannot be imported, is not allowed in an untrusted folder, or does not derive
            from ``base``.
    """
    path = registry[name][0] if name in registry else str(name)
    module, _, attribute = path.rpartition(".")
    if not module or "/" in path or path.startswith("."):
        hint = suggest_name(path, registry)
        raise InputError(
            f"{kind} {path!r} is unknown{hint}: take one of {', '.join(registry)}, or a dotted path of your own"
        )
    untrusted_file = _untrusted_file.get()
    if untrusted_file is not None and name not in registry:
        raise InputError(
            f"{untrusted_file} names code of its own, {path}, as its {kind}. It would run with your rights, so it is "
            f"imported only with {format_option('trust_code', True)}"
        )
    try:
        component = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, RuntimeError, OSError) as error:  # what its code raises, too
        hint = ": is its folder on PYTHONPATH, or its package installed?" if isinstance(error, ImportError) else ""
        raise InputError(f"{kind} {name!r} cannot be imported ({error}){hint}") from error
    if base is not None and not (isinstance(component, type) and issubclass(component, base)):
        raise InputError(f"{name!r} is not a {kind}: give a class that derives from {base.__module__}.{base.__name__}")
    return component


def make_component(kind: str, value: Any, registry: Mapping[str, tuple[str, str]], base: Any) -> Any:
    """Return a part that a constructor takes either as an object or by its name.

    Args:
        kind: What it is, such as "prior", for messages.
        value: The object, which is returned, or a name, which is made with default options.
        registry: Name -> dotted path and a line about it.
        base: The class of such objects.

    Raises:
        InputError: It is something else.
    """
    component = import_component(kind, value, registry)() if isinstance(value, str) else value
    if not isinstance(component, base):
        raise InputError(f"{value!r} is not a {kind}: give a {base.__name__}, or one of {', '.join(registry)}")
    return component


def import_optional(package: str, user: str, extra: str = "", otherwise: str = "") -> ModuleType:
    """Import a package that may be missing or may not fit the others.

    Args:
        package: The module to import.
        user: What needs it, which begins the message.
        extra: The extra of this package that installs it; by default it is installed by its own name.
        otherwise: What the user can do instead, which ends the message.

    Raises:
        MissingPackage: It is not installed, or was built for another version of torch, say; the message holds the
            command that installs it.
    """
    name = package.partition(".")[0]
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        install = format_install_command(extra) if extra else f"`pip install {name}`"
        raise MissingPackage(f"{user} needs {error.name}: {install}{otherwise}") from error
    except (ImportError, RuntimeError, OSError, AttributeError) as error:  # of code compiled for another torch
        together = dict.fromkeys(["torch", "torchvision", name])
        versions = format_list([f"{part} {_get_version(part)}" for part in together])
        raise MissingPackage(
            f"{user} needs {name}, which cannot be loaded with {versions} ({format_reason(error)}): install versions "
            f"that fit each other by `pip install --upgrade {' '.join(together)}`{otherwise}"
        ) from error


def _get_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of an unknown version"


def format_install_command(extra: str) -> str:
    """Return the command that installs an extra, from the checkout that this package was installed from, if any."""
    package = _find_checkout_folder() or "logit-correction"
    return f"`pip install {shlex.quote(f'{package}[{extra}]')}`"


def format_laboratory_install_command() -> str:
    """Return the command that installs the laboratory, which lies in the same checkout."""
    folder = _find_checkout_folder()
    return f"`pip install {shlex.quote(f'{folder}/lab' if folder else 'logit-correction-lab')}`"


def _find_checkout_folder() -> str:
    """Return the folder that this package was installed from; empty if it came from elsewhere."""
    with suppress(PackageNotFoundError):
        origin = json.loads(distribution("logit-correction").read_text("direct_url.json") or "{}")
        if "dir_info" in origin:
            return unquote(urlsplit(origin["url"]).path)
    return ""


def load_entry_points(group: str) -> dict[str, Any]:
    """Return the entry points ``logit_correction.<group>`` of installed packages, by name.

    Args:
        group: "sources" or "commands"; the laboratory has some of both.
    """
    return {entry_point.name: entry_point.load() for entry_point in entry_points(group=f"logit_correction.{group}")}
