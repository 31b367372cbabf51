"""From a name or a dotted path to a class."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from logit_correction.errors import InputError, did_you_mean


def resolve(kind: str, name: str, known: Mapping[str, tuple[str, str]]) -> type:
    """Return the class that ``name`` stands for.

    Args:
        kind: What is looked for, for the error message: method, data source or network.
        name: A name of ``known``, or the dotted path of a class of your own, such as ``my_package.MyMethod``.
        known: Name -> (dotted path, one line).

    Raises:
        InputError: If there is no such name or class.
    """
    found = resolve_any(kind, name, known)
    if not isinstance(found, type):
        raise InputError(f"{kind} {name!r} is not a class: give the dotted path of a class")
    return found


def resolve_any(kind: str, name: str, known: Mapping[str, tuple[str, str]]) -> Any:
    """Return what ``name`` stands for: a class, a function or anything else; see ``resolve``.

    Raises:
        InputError: If there is no such name.
    """
    path = known[name][0] if name in known else str(name)
    module, _, attribute = path.rpartition(".")
    if not module:
        hint = did_you_mean(path, known)
        raise InputError(
            f"{kind} {path!r} is unknown{hint}: take one of {', '.join(known)}, or the dotted path of a "
            "class of your own, such as package.Class"
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        hint = "is its folder on PYTHONPATH, or its package installed?"
        raise InputError(f"{kind} {name!r} cannot be imported ({error}): {hint}") from error
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{kind} {name!r} cannot be imported: {error}") from error
