"""From a name or a dotted path to a class."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches

from logit_correction.types import InputError


def resolve(kind: str, name: str, known: Mapping[str, tuple[str, str]]) -> type:
    """Return the class that ``name`` stands for.

    Args:
        kind: What is looked for, for the error message: method, data source or network.
        name: A name of ``known``, or the dotted path of a class of your own, such as ``my_package.MyMethod``.
        known: Name -> (dotted path, one line).

    Raises:
        InputError: If there is no such name or class.
    """
    path = known[name][0] if name in known else name
    module, _, attribute = path.rpartition(".")
    if not module:
        close = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            f"{kind} {name!r} is unknown: {hint}There are {', '.join(known)}; a dotted path such as package.Class works too"
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{kind} {name!r} cannot be imported: {error}") from error
    if not isinstance(found, type):
        raise InputError(f"{kind} {name!r} is not a class: give the dotted path of a class")
    return found
