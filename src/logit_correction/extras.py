"""Packages that only an extra installs."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from logit_correction.errors import MissingPackage


def needed(package: str, what: str, extra: str, otherwise: str = "") -> ModuleType:
    """Import a package of an extra.

    Args:
        package: Its name.
        what: What needs it, for the message.
        extra: The extra that installs it.
        otherwise: What else can be done, behind the command that installs it.

    Raises:
        MissingPackage: If it is not installed: an ``InputError``, and an ``ImportError`` for code that tries.

    >>> needed("no_such_package", "network Dream", "dreams", ", or take another one")
    Traceback (most recent call last):
    ...
    logit_correction.errors.MissingPackage: network Dream needs no_such_package:
    `pip install 'logit-correction[dreams]'`, or take another one
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        command = f"`pip install 'logit-correction[{extra}]'`"
        raise MissingPackage(f"{what} needs {error.name}: {command}{otherwise}") from error


@contextmanager
def version_only(package: str) -> Iterator[None]:
    """Have a package that others import merely to ask for its version stand aside with that version alone.

    >>> import sys
    >>> with version_only("pytest"):
    ...     sys.modules["pytest"].__version__ > "7"
    True
    """
    try:
        version = None if package in sys.modules else importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version is None:
        yield
        return
    stand_in = sys.modules[package] = ModuleType(package)
    vars(stand_in)["__version__"] = version
    try:
        yield
    finally:
        if sys.modules.get(package) is stand_in:
            del sys.modules[package]
