"""Packages that only an extra installs."""

from __future__ import annotations

import importlib
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
