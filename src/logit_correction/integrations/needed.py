"""Packages that only an integration needs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

from logit_correction.types import InputError


def needed(package: str, what: str, extra: str) -> ModuleType:
    """Import a package of an extra.

    Args:
        package: Its name.
        what: What needs it.
        extra: The extra that installs it.

    Raises:
        InputError: If it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise InputError(f"{what} needs {error.name}: `pip install 'logit-correction[{extra}]'`") from error


def lightning() -> ModuleType:
    """Import Lightning by the name that the program has imported it by, else by whichever there is.

    ``lightning.pytorch`` and ``pytorch_lightning`` are two copies; the ``Trainer`` of one takes no module of the other.

    Raises:
        InputError: If there is none.
    """
    names = ["lightning.pytorch", "pytorch_lightning"]
    if names[0] not in sys.modules and names[1] in sys.modules:
        names.reverse()
    if importlib.util.find_spec(names[0].partition(".")[0]) is None:
        names.reverse()
    return needed(names[0], "logit_correction.integrations.lightning", "lightning")
