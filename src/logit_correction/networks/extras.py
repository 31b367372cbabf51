"""Packages that only some networks need."""

from __future__ import annotations

import importlib
from types import ModuleType

from logit_correction.types import InputError


def needed(package: str, network: str, extra: str) -> ModuleType:
    """Import a package of an extra.

    Raises:
        InputError: If it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise InputError(f"network {network} needs {error.name}: `pip install 'logit-correction[{extra}]'`") from error
