"""From a name or a dotted path to a class, with its options; and packages that only an extra installs."""

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
from typing import Any
from urllib.parse import unquote, urlsplit

from logit_correction.errors import InputError, MissingPackage
from logit_correction.formatting import format_list, format_option, format_reason, suggest_name
from logit_correction.unicode_text import normalize_text

#: The folder whose names must not be imported; None if all may be.
_untrusted: ContextVar[str | None] = ContextVar("untrusted", default=None)


@dataclass(frozen=True)
class ComponentConfig:
    """A part of a run, such as a data source or a method, by name or dotted path, with its options.

    Attributes:
        name: A name that ``logit-correction list`` shows, or the dotted path of a class of your own.
        options: Of the class's constructor, as ``config.yaml`` holds them.
        cls: The class, or a function that makes the part, once all options have been checked and completed.
        arguments: The options then, of the types that the class asks for; components are ``ComponentConfig`` too.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    cls: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    arguments: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the form of ``config.yaml``: the name, and the options beside it."""
        own = {name: one.to_dict() if isinstance(one, ComponentConfig) else one for name, one in self.options.items()}
        return {"name": self.name, **own}

    def make(self, *given: Any, **more: Any) -> Any:
        """Make it, with further arguments that the run gives."""
        assert self.cls is not None, f"{self.name} was not completed"
        own = {name: one.make() if isinstance(one, ComponentConfig) else one for name, one in self.arguments.items()}
        return self.cls(*given, **own, **more)


def parse_names(names: str | Sequence[str] | None) -> list[str]:
    """Return names in a list, of which one may stand alone, or none, or several in a text such as ``[a, b]``."""
    if isinstance(names, str):
        several = names[1:-1].split(",") if names.startswith("[") else [names]
        return [normalize_text(name) for one in several if (name := one.strip(" '\""))]
    return [] if names is None else [normalize_text(str(name)) for name in names]


@contextmanager
def forbid_untrusted_names(place: object) -> Iterator[None]:
    """Refuse dotted paths inside the block: importing what ``place`` names would run its code."""
    token = _untrusted.set(str(place))
    try:
        yield
    finally:
        _untrusted.reset(token)


def is_untrusted_config() -> bool:
    """Return whether what is made now was named by a folder that nobody has said to trust."""
    return _untrusted.get() is not None


def refuse_untrusted_path(what: str, path: str) -> None:
    """Raise ``InputError`` if a folder that nobody has said to trust names something by a path of this machine."""
    if is_untrusted_config() and (
        os.path.isabs(os.path.expanduser(path)) or path.startswith(".") or os.path.exists(path)
    ):
        raise InputError(
            f"{_untrusted.get()} names {path}, which is outside of it, as its {what}: it is read only with "
            f"{format_option('trust_code', True)}"
        )


def disable_download(part: ComponentConfig) -> ComponentConfig:
    """Return a complete part that writes nothing here: its data are those that are there already."""
    return replace(part, arguments={**part.arguments, "download": False}) if part.arguments.get("download") else part


def import_component(kind: str, name: str, known: Mapping[str, tuple[str, str]], base: type | None = None) -> Any:
    """Return the class or function of a name in ``known``, or of a dotted path."""
    path = known[name][0] if name in known else str(name)
    module, _, attribute = path.rpartition(".")
    if not module or "/" in path or path.startswith("."):
        names, hint = ", ".join(known), suggest_name(path, known)
        raise InputError(f"{kind} {path!r} is unknown{hint}: take one of {names}, or package.Class of your own")
    untrusted = _untrusted.get()
    if untrusted is not None and name not in known:
        raise InputError(
            f"{untrusted} names code of its own, {path}, as its {kind}: whatever that does is done with your "
            f"rights, so it is imported only with {format_option('trust_code', True)}"
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        hint = ": is its folder on PYTHONPATH, or its package installed?" if isinstance(error, ImportError) else ""
        raise InputError(f"{kind} {name!r} cannot be imported ({error}){hint}") from error
    if base is not None and not (isinstance(found, type) and issubclass(found, base)):
        raise InputError(f"{name!r} is not a {kind}: give a class that derives from {base.__module__}.{base.__name__}")
    return found


def make_component(kind: str, given: Any, known: Mapping[str, tuple[str, str]], base: Any) -> Any:
    """Return a component, given as such or by a name, which stands for one with default options."""
    found = import_component(kind, given, known)() if isinstance(given, str) else given
    if not isinstance(found, base):
        raise InputError(f"{given!r} is no {kind}: give a {base.__name__}, or one of {', '.join(known)}")
    return found


def import_optional(package: str, what: str, extra: str = "", otherwise: str = "") -> ModuleType:
    """Import a package that may be missing or may not fit the others.

    Raises:
        MissingPackage: It is not installed, or was built for another version of torch, say; the message holds the
            command that installs it.
    """
    name = package.partition(".")[0]
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        install = format_install_command(extra) if extra else f"`pip install {name}`"
        raise MissingPackage(f"{what} needs {error.name}: {install}{otherwise}") from error
    except (ImportError, RuntimeError, OSError, AttributeError) as error:  # as compiled code fails beside another torch
        together = dict.fromkeys(["torch", "torchvision", name])
        versions = format_list([f"{one} {_version(one)}" for one in together])
        raise MissingPackage(
            f"{what} needs {name}, which cannot be loaded with {versions} ({format_reason(error)}): install versions "
            f"that fit each other by `pip install --upgrade {' '.join(together)}`{otherwise}"
        ) from error


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of an unknown version"


def format_install_command(extra: str) -> str:
    """Return the command that installs an extra, from the folder that this package was installed from, if any."""
    return f"`pip install {shlex.quote((_own_folder() or 'logit-correction') + f'[{extra}]')}`"


def format_laboratory_install_command() -> str:
    """Return the command that installs the laboratory, which lies in the same checkout."""
    folder = _own_folder()
    return f"`pip install {shlex.quote(f'{folder}/lab' if folder else 'logit-correction-lab')}`"


def _own_folder() -> str:
    """Return the folder that this package was installed from; empty if it was none."""
    with suppress(PackageNotFoundError):
        told = json.loads(distribution("logit-correction").read_text("direct_url.json") or "{}")
        return unquote(urlsplit(told.get("url", "")).path) if "dir_info" in told else ""
    return ""


def load_entry_points(group: str) -> dict[str, Any]:
    """Return what installed packages offer as entry points of ``logit_correction.<group>``, such as the laboratory."""
    return {one.name: one.load() for one in entry_points(group=f"logit_correction.{group}")}
