"""Train classifiers that do not rely on spurious correlations, without group labels, by logit correction."""

from __future__ import annotations

import importlib
import re
import warnings
from pathlib import Path
from typing import Any

from logit_correction.attributes import ESTIMATORS
from logit_correction.networks import NETWORKS

__version__ = "0.2.0"

# Parts of layers above the library, which it can reach only by their names.
NETWORKS["FromRun"] = (
    "logit_correction.runs.run.build_network_from_run",
    "that of a finished run, to continue from or as an encoder",
)
ESTIMATORS["Auto"] = (
    "logit_correction.shortcuts.auto.Auto",
    "looks for a shortcut by named views and estimates it; abstains if it finds none",
)

#: Public name -> module, as ``__init__.pyi`` has them. Modules are imported when a name is first used: ``--help`` needs
#: no torch, and editors still know every name and its type.
_PUBLIC = {
    name: module
    for module, name in re.findall(
        r"^from (logit_correction\.\S+) import (\w+) as", Path(__file__).with_suffix(".pyi").read_text(), re.MULTILINE
    )
}

#: Public names of the version before -> their names now.
_RENAMED = {"Estimate": "BatchEstimate"}

__all__ = ["__version__", "functional", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "functional":
        return importlib.import_module("logit_correction.functional")
    if name in _RENAMED:
        new_name = _RENAMED[name]
        warnings.warn(f"{name} is now called {new_name}", DeprecationWarning, stacklevel=2)
        return __getattr__(new_name)
    if name not in _PUBLIC:
        raise AttributeError(f"module 'logit_correction' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
